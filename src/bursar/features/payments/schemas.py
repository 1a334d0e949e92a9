"""Hosted payments and transactions on the wire."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType
from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, ValidationInfo

from bursar.core.money import MAX_MINOR, InvalidAmount
from bursar.features.payments import rules
from bursar.http.schemas import Body, Email, Metadata, Name, PageQuery

HostedStatus = Literal["pending", "succeeded", "failed", "cancelled", "expired", "refunded"]
TransactionStatus = Literal["pending", "succeeded", "failed", "cancelled", "refunded"]
ProofStatus = Literal["requested", "submitted", "approved", "rejected"]
PaymentType = Literal["hosted", "link", "terminal", "invoice", "contract", "store", "subscription"]

SHORTEST_EXPIRY_S, DEFAULT_EXPIRY_S, LONGEST_EXPIRY_S = 1800, 86_400, 2_592_000


def _decimal(value: Any) -> Any:
    """An amount may be sent as a string, too; what is not a decimal number is left for the type to refuse."""
    if isinstance(value, str) and value.isascii() and value.replace(".", "", 1).removeprefix("-").isdigit():
        return Decimal(value[:40])
    return Decimal(value) if type(value) is int and abs(value) < MAX_MINOR else value


def _payable(value: Decimal, info: ValidationInfo) -> Decimal:
    """Judged in its currency, which must therefore be declared before it."""
    currency = info.data.get("currency")
    if currency is not None:
        try:
            rules.amount_minor(value, currency)
        except InvalidAmount as error:
            raise ValueError(str(error)) from None
    return value


Currency = Annotated[str, StringConstraints(pattern=r"^[A-Z]{3}$"), Field(examples=["GBP"])]
SentAmount = Annotated[Decimal, BeforeValidator(_decimal)]
Payable = Annotated[SentAmount, AfterValidator(_payable), Field(description="Major units, e.g. 49.99.")]
ApplicationFee = Annotated[
    Decimal | int | str | None,
    Field(description="The platform's own fee; between zero and the amount.", examples=[1.5]),
]
Details = Annotated[str, StringConstraints(min_length=1, max_length=2000)]
Url = Annotated[str, StringConstraints(min_length=8, max_length=2000), Field(examples=["https://shop.example/paid"])]
Phone = Annotated[str, StringConstraints(max_length=40)]
Identifier = Annotated[str, StringConstraints(min_length=1, max_length=190)]


class NewHostedPayment(Body):
    identifier: Identifier = Field(description="Your order or invoice reference; one live checkout per identifier.")
    currency: Currency
    amount: Payable
    details: Details
    ipn_url: Url = Field(description="Told of the outcome, declined attempts included.")
    success_url: Url = Field(description="Where the customer goes after paying.")
    cancel_url: Url = Field(description="Where the customer goes after cancelling.")
    customer_name: Name
    customer_email: Email
    customer_phone: Phone | None = None
    connect_application_fee: ApplicationFee = None
    metadata: Metadata = Field(default_factory=dict)
    expires_in: int = Field(
        DEFAULT_EXPIRY_S, ge=SHORTEST_EXPIRY_S, le=LONGEST_EXPIRY_S, description="Seconds until the checkout closes."
    )


class CancelPayment(Body):
    """Nothing is needed; an empty object will do."""


class AttemptError(msgspec.Struct, omit_defaults=True):
    code: str
    message: str
    decline_code: str | UnsetType = UNSET


class Attempt(msgspec.Struct):
    """One attempt to pay. A failed one leaves the checkout open."""

    n: int
    status: Literal["failed", "succeeded"]
    error: AttemptError | None
    at: datetime


class HostedPayment(msgspec.Struct, omit_defaults=True):
    id: int
    account_id: str
    identifier: str
    payment_reference: str
    status: HostedStatus
    amount: Decimal
    currency: str
    checkout_url: str
    transaction_id: int
    details: str
    customer_name: str | None
    customer_email: str | None
    customer_phone: str | None
    metadata: dict[str, Any]
    expires_at: datetime
    paid_at: datetime | None
    created_at: datetime
    attempts: list[Attempt]
    connect_application_fee: Decimal | UnsetType = UNSET
    reused: bool | UnsetType = UNSET


class Transaction(msgspec.Struct, omit_defaults=True):
    id: int
    account_id: str
    reference: str
    identifier: str
    np_main_trx: str | None
    status: TransactionStatus
    amount: Decimal
    currency: str
    payment_type: PaymentType
    is_reserve: bool
    reserve_amount: Decimal
    proof_status: ProofStatus | None
    fee_amount: Decimal
    net_amount: Decimal
    refunded_amount: Decimal
    refundable_amount: Decimal
    remark: str | None
    details: str
    customer_name: str | None
    customer_email: str | None
    metadata: dict[str, Any]
    paid_at: datetime | None
    cancelled_at: datetime | None
    created_at: datetime
    connect_application_fee: Decimal | UnsetType = UNSET
    attempt: Attempt | UnsetType = UNSET  # in events of a failed attempt


class HostedPaymentQuery(PageQuery):
    identifier: str | None = Field(None, max_length=190, description="Only the checkouts of this order.")
