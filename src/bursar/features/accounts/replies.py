"""Accounts as the API shows them."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import msgspec

from bursar.db.pool import Queryable, Record
from bursar.features.accounts import pricing, readiness, safety
from bursar.features.accounts.readiness import Facts
from bursar.features.accounts.schemas import (
    AccountReply,
    ApplicationFeeDefaults,
    Connect,
    OperatorAccount,
    SafetyLimit,
)


async def full_replies(db: Queryable, rows: Sequence[Record], *, for_platform: bool) -> list[AccountReply]:
    """Accounts of one platform, or one account, with what each may do and still needs. Two queries at most."""
    if not rows:
        return []
    known = await readiness.facts(db, [row["account_id"] for row in rows])
    limit = None
    payer = next((row for row in rows if row["fee_payer"] == "platform"), None)
    if for_platform and payer is not None:
        limit = await safety.standing(db, payer["platform_id"] or payer["account_id"])
    return [as_reply(row, for_platform=for_platform, known=known[row["account_id"]], limit=limit) for row in rows]


async def full_reply(db: Queryable, row: Record, *, for_platform: bool) -> AccountReply:
    [reply] = await full_replies(db, [row], for_platform=for_platform)
    return reply


def as_reply(
    row: Record, *, for_platform: bool, known: Facts | None = None, limit: SafetyLimit | None = None
) -> AccountReply:
    """An account; platforms see how it is connected, too."""
    return AccountReply(
        id=row["public_id"],
        business_company_name=row["business_company_name"],
        email=row["email"],
        status=row["status"],
        kyc_status=row["kyc_status"],
        connect_status=row["connect_status"],
        connect_email_sms_handle=row["connect_email_sms_handle"],
        metadata=row["metadata"],
        created_at=row["created_at"],
        connect=_connect(row, limit) if for_platform else msgspec.UNSET,
        requirements=readiness.requirements(row, known) if known else msgspec.UNSET,
        capabilities=readiness.capabilities(row, known) if known else msgspec.UNSET,
    )


def _connect(row: Record, limit: SafetyLimit | None) -> Connect:
    defaults = row["application_fee_defaults"]
    return Connect(
        fee_payer=row["fee_payer"],
        platform_safety_limit=limit if row["fee_payer"] == "platform" else None,
        merchant_pricing=pricing.effective(row["merchant_pricing"]),
        connect_application_fee_defaults=ApplicationFeeDefaults(
            Decimal(str(defaults.get("fixed", "0.00"))), Decimal(str(defaults.get("percent", "0.00")))
        ),
    )


def as_operator_account(row: Record) -> OperatorAccount:
    shown: dict[str, Any] = {
        name: row[name]
        for name in OperatorAccount.__struct_fields__
        if name in row.keys()  # noqa: SIM118 - a Record
    }
    shown |= {
        "account_id": row["public_id"],
        "merchant_id": row["account_id"],
        "platform": row["platform_public_id"],
        "merchant_pricing": pricing.effective(row["merchant_pricing"]),
    }
    return OperatorAccount(**shown)
