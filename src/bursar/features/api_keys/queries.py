"""API keys in the database."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import cast

from bursar.db.listing import Listing
from bursar.db.pool import Queryable, Record

KEYS = Listing(select="SELECT * FROM api_key", scope="account_id = $1")


async def next_id(db: Queryable) -> int:
    return cast("int", await db.fetchval("SELECT nextval('api_key_id')"))


async def insert(
    db: Queryable, account_id: int, key_id: int, kind: str, scopes: Sequence[str], lookup: str, sealed: bytes,
    hint: str, replaces_id: int | None, now: datetime,
) -> None:  # fmt: skip
    await db.execute(
        """
        INSERT INTO api_key (account_id, id, kind, scopes, lookup, sealed, hint, replaces_id, created_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
        """,
        account_id, key_id, kind, list(scopes), lookup, sealed, hint, replaces_id, now,
    )  # fmt: skip
    await db.execute(
        "INSERT INTO directory (kind, value, account_id, id) VALUES ('api_key', $1, $2, $3)", lookup, account_id, key_id
    )


async def lock(db: Queryable, account_id: int, key_id: int) -> Record | None:
    return await db.fetchrow(
        "SELECT * FROM api_key WHERE account_id = $1 AND id = $2 FOR NO KEY UPDATE", account_id, key_id
    )


async def expire(db: Queryable, account_id: int, key_id: int, at: datetime) -> None:
    await db.execute(
        "UPDATE api_key SET expires_at = least(expires_at, $3) WHERE account_id = $1 AND id = $2",
        account_id, key_id, at,
    )  # fmt: skip


async def revoke(db: Queryable, account_id: int, key_id: int, now: datetime) -> Record:
    row = await db.fetchrow(
        "UPDATE api_key SET revoked_at = coalesce(revoked_at, $3) WHERE account_id = $1 AND id = $2 RETURNING *",
        account_id, key_id, now,
    )  # fmt: skip
    assert row is not None
    return row
