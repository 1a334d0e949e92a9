"""The states of a compliance request, as one table of (state, what happened) → state."""

from __future__ import annotations

from typing import Literal

from bursar.features.compliance.errors import ComplianceRequestClosed

Status = Literal["open", "submitted", "approved", "rejected", "expired", "cancelled"]
Happened = Literal["respond", "approved", "rejected", "cancelled", "overdue"]

ANSWERABLE: tuple[Status, ...] = ("open", "rejected")
HOLDING: tuple[Status, ...] = ("open", "submitted", "rejected", "expired")  # what it blocks stays blocked

MOVES: dict[tuple[Status, Happened], Status] = {
    **{(state, "respond"): "submitted" for state in ANSWERABLE},
    **{(state, "overdue"): "expired" for state in ANSWERABLE},
    **{(state, "approved"): "approved" for state in HOLDING},
    **{(state, "cancelled"): "cancelled" for state in HOLDING},
    ("submitted", "rejected"): "rejected",
}


def move(status: Status, happened: Happened) -> Status:
    try:
        return MOVES[status, happened]
    except KeyError:
        raise ComplianceRequestClosed(details={"status": status}) from None
