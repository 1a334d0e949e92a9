"""The states of a support ticket, as one table of (state, what happened) → state."""

from __future__ import annotations

from typing import Literal

from bursar.features.support.errors import TicketClosed

Status = Literal["open", "waiting_merchant", "waiting_staff", "resolved", "closed"]
Happened = Literal["account_writes", "staff_writes", "account_closes"]

OPEN: tuple[Status, ...] = ("open", "waiting_merchant", "waiting_staff", "resolved")

MOVES: dict[tuple[Status, Happened], Status] = {
    ("open", "account_writes"): "open",
    ("waiting_merchant", "account_writes"): "waiting_staff",
    ("waiting_staff", "account_writes"): "waiting_staff",
    ("resolved", "account_writes"): "open",
    **{(state, "staff_writes"): "waiting_merchant" for state in OPEN},
    **{(state, "account_closes"): "closed" for state in OPEN},
}


def move(status: Status, happened: Happened) -> Status:
    try:
        return MOVES[status, happened]
    except KeyError:
        raise TicketClosed(details={"status": status}) from None
