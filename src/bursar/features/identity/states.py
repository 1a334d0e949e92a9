"""The states of a verification link, as one table of (state, what happened) → state."""

from __future__ import annotations

from typing import Literal

from bursar.features.identity.errors import VerificationLinkClosed

Status = Literal["pending", "opened", "processing", "requires_input", "verified", "rejected", "expired", "cancelled"]
Happened = Literal["open", "submit", "verified", "rejected", "requires_input", "expire", "cancel"]

WAITING: tuple[Status, ...] = ("pending", "opened", "requires_input")  # for the person
OPEN: tuple[Status, ...] = (*WAITING, "processing")
FINAL: tuple[Status, ...] = ("verified", "rejected", "expired", "cancelled")

MOVES: dict[tuple[Status, Happened], Status] = {
    ("pending", "open"): "opened",
    **{(state, "submit"): "processing" for state in WAITING},
    **{(state, "expire"): "expired" for state in WAITING},
    **{(state, "cancel"): "cancelled" for state in OPEN},
    **{(state, "verified"): "verified" for state in OPEN},
    **{(state, "rejected"): "rejected" for state in OPEN},
    **{(state, "requires_input"): "requires_input" for state in OPEN},
}


def move(status: Status, happened: Happened) -> Status:
    try:
        return MOVES[status, happened]
    except KeyError:
        raise VerificationLinkClosed(details={"status": status}) from None
