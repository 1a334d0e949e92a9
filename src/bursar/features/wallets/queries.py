"""SQL of wallets: reading only. What changes them is the ledger."""

from __future__ import annotations

from datetime import datetime
from typing import cast

from bursar.db import tallies
from bursar.db.listing import Listing
from bursar.db.pool import Queryable, Record

ROWS = Listing(
    select="SELECT * FROM wallet_transaction",
    scope="account_id = $1",
    sorts={"id": "id", "created_at": "created_at"},
    filters={
        "type": "type = {}",
        "category": "category = {}",
        "status": "status = {}",
        "currency": "currency = {}",
        "since": "created_at >= {}",
        "until": "created_at < {}",
    },
    total=f"""(
        SELECT coalesce(sum({tallies.WALLET_ROWS.total("w.account_id", "w.currency")}), 0)::bigint
        FROM wallet AS w
        WHERE w.account_id = $1
    )""",  # noqa: S608 - declared pieces
)


async def find_row(db: Queryable, account_id: int, id_: int) -> Record | None:
    return await db.fetchrow("SELECT * FROM wallet_transaction WHERE account_id = $1 AND id = $2", account_id, id_)


async def wallets(db: Queryable, account_id: int) -> list[Record]:
    return await db.fetch(
        """
        -- An account's wallets, its own currency first.
        SELECT w.id, w.currency, w.main, w.pending, w.reserve, w.updated_at
        FROM wallet w
        JOIN account a ON a.account_id = w.account_id
        WHERE w.account_id = $1
        ORDER BY w.currency <> a.currency, w.currency
        """,
        account_id,
    )


async def opened_at(db: Queryable, account_id: int) -> datetime:
    return cast("datetime", await db.fetchval("SELECT created_at FROM account WHERE account_id = $1", account_id))
