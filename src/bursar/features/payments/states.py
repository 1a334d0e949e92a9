"""The states of a payment, and what leads from one to another. Pure; every change of status asks this table."""

from __future__ import annotations

from typing import Literal

Status = Literal["pending", "succeeded", "failed", "cancelled", "refunded"]
Trigger = Literal["captured", "cancel", "expiry", "attempts", "refunded_in_full"]

ATTEMPTS_LARGEST = 10  # then the checkout closes as failed

# What is not here does not happen: above all, nothing leads back from paid.
MOVES: dict[tuple[Status, Trigger], Status] = {
    ("pending", "captured"): "succeeded",
    ("pending", "cancel"): "cancelled",
    ("pending", "expiry"): "cancelled",
    ("pending", "attempts"): "failed",
    ("succeeded", "refunded_in_full"): "refunded",
}

REMARKS: dict[Trigger, str | None] = {
    "cancel": None,
    "expiry": "checkout_expired",
    "attempts": "attempts_exhausted",
}

PAID: tuple[Status, ...] = ("succeeded", "refunded")
CLOSED: tuple[Status, ...] = ("failed", "cancelled")


def after(status: Status, trigger: Trigger) -> Status | None:
    """The status that a trigger leads to; None when it leads nowhere from here."""
    return MOVES.get((status, trigger))
