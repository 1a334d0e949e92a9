"""Bank accounts in the database."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

from bursar.db.listing import Listing
from bursar.db.pool import Queryable, Record

BANK_ACCOUNTS = Listing(
    select="SELECT * FROM bank_account",
    scope="account_id = $1",
    filters={"status": "status = {}", "use_for": "use_for = {}", "currency": "currency = {}"},
)


async def next_id(db: Queryable) -> int:
    return cast("int", await db.fetchval("SELECT nextval('bank_account_id')"))


async def under_lock(db: Queryable, account_id: int, use_for: str, currency: str) -> tuple[int, bool]:
    """How many accounts there are and whether this use and currency has a default, with the owner's row locked."""
    await db.execute("SELECT 1 FROM account WHERE account_id = $1 FOR NO KEY UPDATE", account_id)
    row = await db.fetchrow(
        """
        SELECT count(*) AS number,
               coalesce(bool_or(is_default AND use_for = $2 AND currency = $3), false) AS has_default
        FROM bank_account
        WHERE account_id = $1
        """,
        account_id,
        use_for,
        currency,
    )
    assert row is not None
    return row["number"], row["has_default"]


async def clear_default(db: Queryable, account_id: int, use_for: str, currency: str, now: datetime) -> None:
    await db.execute(
        """
        UPDATE bank_account
        SET is_default = false, updated_at = $4
        WHERE account_id = $1 AND use_for = $2 AND currency = $3 AND is_default
        """,
        account_id,
        use_for,
        currency,
        now,
    )


async def insert(db: Queryable, values: Mapping[str, Any]) -> Record | None:
    """None when the account is linked already."""
    return await db.fetchrow(
        """
        INSERT INTO bank_account
            (account_id, id, account_name, bank_name, currency, country, last4, use_for, is_default, status, name_check,
             full_name, email, lookup, sealed, scenario, created_at, updated_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $17)
        ON CONFLICT (account_id, lookup) DO NOTHING
        RETURNING *
        """,
        *(
            values[name]
            for name in (
                "account_id", "id", "account_name", "bank_name", "currency", "country", "last4", "use_for",
                "is_default", "status", "name_check", "full_name", "email", "lookup", "sealed", "scenario", "now",
            )
        ),
    )  # fmt: skip


async def find(db: Queryable, account_id: int, bank_account_id: int) -> Record | None:
    return await db.fetchrow(
        "SELECT * FROM bank_account WHERE account_id = $1 AND id = $2", account_id, bank_account_id
    )


async def find_anywhere(db: Queryable, bank_account_id: int) -> Record | None:
    """For staff, who are not bound to an account."""
    return await db.fetchrow("SELECT * FROM bank_account WHERE id = $1 AND account_id >= 1001", bank_account_id)


async def set_status(db: Queryable, account_id: int, bank_account_id: int, status: str, now: datetime) -> Record:
    """A disabled account is nobody's default any more."""
    row = await db.fetchrow(
        """
        UPDATE bank_account
        SET status = $3, is_default = is_default AND $3 <> 'disabled', updated_at = $4
        WHERE account_id = $1 AND id = $2
        RETURNING *
        """,
        account_id,
        bank_account_id,
        status,
        now,
    )
    assert row is not None
    return row
