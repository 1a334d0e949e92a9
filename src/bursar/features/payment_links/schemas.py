"""Payment links on the wire."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType
from pydantic import Field

from bursar.features.payments.schemas import ApplicationFee, Currency, Details, Payable, Url
from bursar.http.schemas import Body, Email, IsoMoment, Metadata, Name, PageQuery

LinkStatus = Literal["pending", "paid", "cancelled", "expired"]


class NewPaymentLink(Body):
    currency: Currency
    amount: Payable
    details: Details
    customer_name: Name | None = None
    customer_email: Email | None = None
    success_url: Url | None = None
    cancel_url: Url | None = None
    ipn_url: Url | None = None
    connect_application_fee: ApplicationFee = None
    metadata: Metadata = Field(default_factory=dict)
    max_payments: int = Field(1, ge=1, le=100_000, description="How often the link can be paid.")
    expires_at: IsoMoment | None = Field(None, description="When it stops working; default never.")


class LinkChanges(Body):
    status: Literal["cancelled"]


class LinkQuery(PageQuery):
    status: LinkStatus | None = None


class PaymentLink(msgspec.Struct, omit_defaults=True):
    id: int
    account_id: str
    reference: str
    amount: Decimal
    currency: str
    status: LinkStatus
    checkout_url: str
    qr_url: str
    details: str
    customer_name: str | None
    customer_email: str | None
    metadata: dict[str, Any]
    max_payments: int
    payments: int
    expires_at: datetime | None
    created_at: datetime
    connect_application_fee: Decimal | UnsetType = UNSET
