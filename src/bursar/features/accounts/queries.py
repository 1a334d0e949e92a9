"""Accounts in the database."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

import asyncpg

from bursar.db import tallies
from bursar.db.listing import Listing
from bursar.db.pool import Queryable, Record

ACCOUNTS = Listing(
    select="SELECT * FROM account",
    scope="account_id >= 1001",  # the sandbox's fixture is nobody's account
    id="account_id",
    sorts={"id": "account_id", "created_at": "created_at", "name": "business_company_name"},
    filters={"kind": "kind = {}", "status": "status = {}", "platform": "platform_id = {}"},
    search=("business_company_name", "email", "public_id"),
    total=tallies.ALL_ACCOUNTS.total("0"),
)


async def next_account_number(db: Queryable) -> int:
    return cast("int", await db.fetchval("SELECT nextval('account_number')"))


async def insert_account(db: Queryable, values: Mapping[str, Any]) -> Record:
    row = await db.fetchrow(
        """
        INSERT INTO account
            (account_id, public_id, kind, platform_id, platform_public_id, business_company_name, email, country_code,
             currency, status, kyc_status, connect_enabled, partner_enabled, fee_payer, public_key, client_key,
             created_at, updated_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $17)
        RETURNING *
        """,
        *(
            values[name]
            for name in (
                "account_id", "public_id", "kind", "platform_id", "platform_public_id", "business_company_name",
                "email", "country_code", "currency", "status", "kyc_status", "connect_enabled", "partner_enabled",
                "fee_payer", "public_key", "client_key", "now",
            )
        ),
    )  # fmt: skip
    assert row is not None
    return row


async def claim_email(db: Queryable, account_id: int, email: str) -> bool:
    """A connected account's e-mail address, of which there is one; False when somebody has it."""
    try:
        await db.execute(
            "INSERT INTO directory (kind, value, account_id, id) VALUES ('connected_email', $1, $2, $2)",
            email.lower(),
            account_id,
        )
    except asyncpg.UniqueViolationError:
        return False
    return True


async def find_account(db: Queryable, account_id: int) -> Record | None:
    return await db.fetchrow("SELECT * FROM account WHERE account_id = $1", account_id)


async def lock_account(db: Queryable, account_id: int) -> Record | None:
    return await db.fetchrow("SELECT * FROM account WHERE account_id = $1 FOR NO KEY UPDATE", account_id)


async def update_account(db: Queryable, account_id: int, values: Mapping[str, Any], now: datetime) -> Record:
    row = await db.fetchrow(
        """
        UPDATE account
        SET status = $2, kyc_status = $3, connect_status = $4, connect_enabled = $5, payments_paused = $6,
            payouts_paused = $7, partner_enabled = $8, capabilities = $9, payout_hard_caps = $10,
            merchant_pricing = $11, updated_at = $12
        WHERE account_id = $1
        RETURNING *
        """,
        account_id,
        values["status"],
        values["kyc_status"],
        values["connect_status"],
        values["connect_enabled"],
        values["payments_paused"],
        values["payouts_paused"],
        values["partner_enabled"],
        values["capabilities"],
        values["payout_hard_caps"],
        values["merchant_pricing"],
        now,
    )
    assert row is not None
    return row


async def insert_team_member(db: Queryable, account_id: int, name: str, email: str, now: datetime) -> int | None:
    """The new member's id; None when the address is already in the team."""
    number: int | None = await db.fetchval(
        """
        INSERT INTO team_member (account_id, id, name, email, created_at)
        VALUES ($1, nextval('team_member_id'), $2, $3, $4)
        ON CONFLICT (account_id, email) DO NOTHING
        RETURNING id
        """,
        account_id,
        name,
        email.lower(),
        now,
    )
    return number


async def insert_partner(db: Queryable, parent_id: int, partner_id: int, values: Mapping[str, Any]) -> None:
    await db.execute(
        """
        INSERT INTO partner
            (account_id, id, name, state, model, share_bps, policies, agreement_accepted_at, created_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
        """,
        parent_id,
        partner_id,
        values["name"],
        values["state"],
        values["model"],
        values["share_bps"],
        values["policies"],
        values["accepted_at"],
        values["now"],
    )
