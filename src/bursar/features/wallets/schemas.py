"""Wallets and their ledger rows on the wire."""

from __future__ import annotations

import re
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal

import msgspec
from pydantic import BeforeValidator, Field, StringConstraints

from bursar.core.money import MAX_MINOR
from bursar.features.wallets.currencies import Currency
from bursar.http.schemas import IsoDate, IsoMoment, PageQuery, StrictBody

RowType = Literal["credit", "debit", "hold", "release"]
RowStatus = Literal["pending", "posted", "reversed"]
Category = Literal[
    "payment",
    "fee",
    "application_fee",
    "refund",
    "payout",
    "dispute",
    "reserve",
    "collection",
    "funding",
    "adjustment",
]


class Wallet(msgspec.Struct):
    """One currency's money. `available` is `standard_available` and `pending_funds`; the reserve is outside it."""

    id: int
    account_id: str
    currency: Currency
    available: Decimal
    pending_funds: Decimal
    standard_available: Decimal
    instant_available: Decimal
    reserve_balance: Decimal
    business_balance: Decimal
    updated_at: datetime


class CardSummary(msgspec.Struct):
    """The account's issued cards."""

    active: int
    blocked: int
    pending_authorisations: int
    spent_30d: Decimal
    currency: str


class IssuingSummary(msgspec.Struct):
    """The account that issued cards draw on."""

    enabled: bool
    status: Literal["not_enabled", "pending", "active", "suspended"]
    available: Decimal
    pending: Decimal
    currency: str
    updated_at: datetime | None


class Balances(msgspec.Struct):
    account_id: str
    wallets: list[Wallet]
    card: CardSummary
    issuing: IssuingSummary


class Related(msgspec.Struct):
    """What a row belongs to: a transaction, refund, payout, dispute …"""

    type: str
    id: int | str


class WalletTransaction(msgspec.Struct):
    """A row of the wallet's ledger. Rows of one movement share their `txn_id`."""

    id: int
    txn_id: str
    currency: str
    amount: Decimal
    type: RowType
    status: RowStatus
    notes: str
    balance_before: Decimal
    balance_after: Decimal
    category: Category
    related: Related
    created_at: datetime


class WalletTransactionQuery(PageQuery):
    type: RowType | None = None
    category: Category | None = None
    status: RowStatus | None = None
    currency: Annotated[str, StringConstraints(pattern=r"^[A-Z]{3}$")] | None = None
    since: IsoMoment | IsoDate | None = Field(None, alias="from", description="First day (in London) or moment.")
    until: IsoMoment | IsoDate | None = Field(None, alias="to", description="Last day (in London) or moment.")


def _decimal(value: Any) -> Any:
    """A whole number is an amount, too, and so is one that is sent as text."""
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,20}(\.[0-9]{1,10})?", value, re.ASCII):
        return Decimal(value)
    return Decimal(value) if type(value) is int and abs(value) <= MAX_MINOR else value


class NewAdjustment(StrictBody):
    currency: Annotated[str, StringConstraints(min_length=3, max_length=3)]
    amount: Annotated[Decimal, BeforeValidator(_decimal)] = Field(description="Major units; negative takes money away.")
    bucket: Literal["available", "pending"] = "available"
    note: Annotated[str, StringConstraints(max_length=255)] = ""


class AuditRequest(StrictBody):
    anchor: Annotated[str, StringConstraints(pattern=r"^[0-9a-fA-F]{64}$")] | None = Field(
        None, description="A head that an earlier audit reported: it must still be in the chain of seals."
    )
