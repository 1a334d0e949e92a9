"""The states of a proof request. Pure; every change asks this table."""

from __future__ import annotations

from typing import Literal

from bursar.core.errors import ApiError
from bursar.features.proof.errors import ProofAlreadyApproved, ProofNotSubmitted

Status = Literal["requested", "submitted", "approved", "rejected"]
Trigger = Literal["submit", "approve", "reject"]

MOVES: dict[tuple[Status, Trigger], Status] = {
    ("requested", "submit"): "submitted",
    ("submitted", "submit"): "submitted",  # more, or better, until staff decide
    ("rejected", "submit"): "submitted",
    ("submitted", "approve"): "approved",
    ("submitted", "reject"): "rejected",
}


def move(status: Status, trigger: Trigger) -> Status:
    """The status that a trigger leads to, or the error that it meets."""
    found = MOVES.get((status, trigger))
    if found is None:
        error: type[ApiError] = ProofAlreadyApproved if status == "approved" else ProofNotSubmitted
        raise error
    return found
