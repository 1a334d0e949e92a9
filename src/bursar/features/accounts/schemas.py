"""Accounts on the wire."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal

import msgspec
from pydantic import Field

from bursar.features.accounts.pricing import DEFAULTS, MerchantPricing
from bursar.features.accounts.readiness import Capabilities, Requirements
from bursar.http.context import LARGEST_ID
from bursar.http.schemas import Email, Name, StrictBody, StrictQuery

AccountStatus = Literal["pending", "active", "review", "banned"]
KycStatus = Literal["pending", "verified", "rejected"]
ConnectStatus = Literal["active", "paused", "review"]
FeePayer = Literal["connected_account", "platform"]
CapabilityState = Literal["inactive", "pending", "active"]
Capability = Literal["payments", "payouts", "terminal", "disburse", "trade", "issuing"]

Price = Annotated[Decimal, Field(ge=0, le=1000, max_digits=8, decimal_places=4, strict=False)]


class ApplicationFeeDefaults(msgspec.Struct):
    fixed: Decimal
    percent: Decimal


class SafetyLimit(msgspec.Struct):
    blocked: bool
    limit: Decimal
    lowest_wallet_balance: Decimal
    outstanding_debt: Decimal


class Connect(msgspec.Struct):
    fee_payer: FeePayer
    platform_safety_limit: SafetyLimit | None
    merchant_pricing: MerchantPricing
    connect_application_fee_defaults: ApplicationFeeDefaults


class AccountReply(msgspec.Struct, omit_defaults=True):
    id: str
    business_company_name: str
    email: str
    status: AccountStatus
    kyc_status: KycStatus
    connect_status: ConnectStatus
    connect_email_sms_handle: Literal["neropay", "platform"]
    metadata: dict[str, Any]
    created_at: datetime
    connect: Connect | msgspec.UnsetType = msgspec.UNSET
    requirements: Requirements | msgspec.UnsetType = msgspec.UNSET
    capabilities: Capabilities | msgspec.UnsetType = msgspec.UNSET


class AccountBundle(msgspec.Struct, omit_defaults=True):
    """A new account with its keys, which are shown this once."""

    account_id: str
    merchant_id: int
    kind: str
    secret_key: str
    test_secret_key: str
    public_key: str
    client_key: str
    partner_id: int | msgspec.UnsetType = msgspec.UNSET


class OperatorAccount(msgspec.Struct):
    """An account as the operator sees it."""

    account_id: str
    merchant_id: int
    kind: str
    platform: str | None
    business_company_name: str
    email: str
    country_code: str
    currency: str
    status: str
    kyc_status: str
    connect_status: str
    connect_enabled: bool
    partner_enabled: bool
    payments_paused: bool
    payouts_paused: bool
    fee_payer: str
    capabilities: dict[str, Any]
    payout_hard_caps: dict[str, Any]
    merchant_pricing: MerchantPricing
    public_key: str
    client_key: str
    created_at: datetime
    updated_at: datetime


class NewAccount(StrictBody):
    kind: Literal["merchant", "platform"]
    name: Name
    email: Email
    country_code: Annotated[str, Field(pattern=r"^[A-Z]{2}$")] = "GB"
    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")] = "GBP"
    status: AccountStatus = "active"
    kyc_status: KycStatus = "verified"
    platform: str | int | None = Field(None, description="The platform that owns it, by merchant number or account id.")
    fee_payer: FeePayer = "connected_account"
    partner_enabled: bool = False


class AccountChanges(StrictBody):
    status: AccountStatus | None = None
    kyc_status: KycStatus | None = None
    connect_status: ConnectStatus | None = None
    connect_enabled: bool | None = None
    payments_paused: bool | None = None
    payouts_paused: bool | None = None
    partner_enabled: bool | None = None
    capabilities: dict[Capability, CapabilityState] | None = None
    payout_hard_caps: dict[str, Price | int | None] | None = None
    merchant_pricing: dict[str, Price] | None = Field(None, description=f"Any of {', '.join(DEFAULTS)}.")


class AccountSearch(StrictQuery):
    page: int = Field(1, ge=1, le=1_000_000)
    per_page: int = Field(25, ge=1, le=100)
    sort: str = "-id"
    q: str | None = Field(None, max_length=190)
    kind: Literal["merchant", "platform"] | None = None
    status: AccountStatus | None = None
    platform: int | None = Field(None, ge=1, le=LARGEST_ID)


class NewTeamMember(StrictBody):
    name: Name
    email: Email


class TeamMember(msgspec.Struct):
    staff_id: int
    name: str
    email: str


Percent = Annotated[Decimal, Field(ge=0, le=100, decimal_places=2, strict=False)]


class Policies(StrictBody):
    """What a parent lets its partner do."""

    accounts: bool = True
    pricing: bool = True
    branding: bool = True
    invoices: bool = True
    dashboard: bool = True
    store: bool = True
    reports: bool = True
    api: bool = True
    funds: bool = True
    view_as: bool = True
    settings: bool = True
    hide_share_entries: bool = False
    max_accounts: int = Field(100000, ge=0, le=100000)
    max_transfer: Annotated[Decimal, Field(ge=0, max_digits=9, decimal_places=2, strict=False)] = Decimal("9999999.99")


class NewPartner(StrictBody):
    name: Name
    email: Email
    agreement: Literal["accepted", "pending"] = "accepted"
    policies: Policies = Field(default_factory=Policies)
    model: Literal["rate", "revenue_share"] = "rate"
    share_percent: Percent = Decimal(0)
