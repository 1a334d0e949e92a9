"""The simulator's controls on the wire."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from pydantic import AfterValidator, Field

from bursar.http.schemas import StrictBody
from bursar.processors.simulator.scenarios import CARD_BY_NUMBER


def _test_card(number: str) -> str:
    """The scenario's name: the number itself goes no further than this."""
    card = CARD_BY_NUMBER.get(number.replace(" ", ""))
    if card is None:
        raise ValueError("must be one of the test cards")
    return card.name


class PayCheckout(StrictBody):
    card: Annotated[str, AfterValidator(_test_card), Field(max_length=30, examples=["4242424242424242"])]
    authenticate: bool | None = Field(None, description="Passes (or fails) the 3-D Secure challenge.")


class CheckoutError(msgspec.Struct):
    code: str
    message: str
    decline_code: str | None


class CheckoutOutcome(msgspec.Struct):
    status: Literal["succeeded", "failed", "requires_action", "processing"]
    error: CheckoutError | None


class NewFault(StrictBody):
    operation: Literal["payment", "refund", "cancel", "payout", "collection", "funding", "terminal"]
    kind: Literal["timeout", "error", "duplicate_callback", "late_callback", "out_of_order"]
    count: int = Field(1, ge=1, le=10_000)


class Fault(msgspec.Struct):
    operation: str
    kind: str
    count: int
