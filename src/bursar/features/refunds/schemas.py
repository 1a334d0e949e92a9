"""Refunds on the wire."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Annotated, Literal

import msgspec
from pydantic import Field, StringConstraints

from bursar.features.payments.schemas import SentAmount, Transaction
from bursar.http.schemas import Body


class NewRefund(Body):
    amount: SentAmount | None = Field(None, description="Major units; default whatever is left to refund.")
    reason: Annotated[str, StringConstraints(max_length=500)] | None = None
    reverse_application_fee: bool = Field(True, description="Gives the platform's fee back in proportion.")


class Refund(msgspec.Struct):
    id: int
    reference: str
    transaction_id: int
    amount: Decimal
    currency: str
    reason: str | None
    status: Literal["pending", "succeeded", "failed"]
    failure_reason: str | None
    application_fee_reversed: Decimal
    created_at: datetime


class RefundedTransaction(msgspec.Struct):
    transaction: Transaction
    refund: Refund
