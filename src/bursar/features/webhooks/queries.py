"""Webhooks in the database."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import cast

from bursar.db.listing import Listing
from bursar.db.pool import Queryable, Record

WEBHOOKS = Listing(
    select="SELECT * FROM webhook", scope="account_id = $1", filters={"status": "status = {}"}, search=("url",)
)


async def next_id(db: Queryable) -> int:
    return cast("int", await db.fetchval("SELECT nextval('webhook_id')"))


async def count_under_lock(db: Queryable, account_id: int) -> int:
    """How many the account has, with its row locked so that two creations cannot both be the last."""
    await db.execute("SELECT 1 FROM account WHERE account_id = $1 FOR NO KEY UPDATE", account_id)
    return cast("int", await db.fetchval("SELECT count(*) FROM webhook WHERE account_id = $1", account_id))


async def insert(
    db: Queryable, account_id: int, webhook_id: int, url: str, events: Sequence[str], description: str, sealed: bytes,
    hint: str, now: datetime,
) -> Record:  # fmt: skip
    row = await db.fetchrow(
        """
        INSERT INTO webhook
            (account_id, id, url, events, description, secret_sealed, secret_hint, created_at, updated_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8)
        RETURNING *
        """,
        account_id, webhook_id, url, list(events), description, sealed, hint, now,
    )  # fmt: skip
    assert row is not None
    return row


async def find(db: Queryable, account_id: int, webhook_id: int) -> Record | None:
    return await db.fetchrow("SELECT * FROM webhook WHERE account_id = $1 AND id = $2", account_id, webhook_id)


async def update(
    db: Queryable, account_id: int, webhook_id: int, url: str | None, events: Sequence[str] | None,
    description: str | None, status: str | None, now: datetime,
) -> Record | None:  # fmt: skip
    return await db.fetchrow(
        """
        UPDATE webhook
        SET url = coalesce($3, url), events = coalesce($4, events), description = coalesce($5, description),
            status = coalesce($6, status), updated_at = $7
        WHERE account_id = $1 AND id = $2
        RETURNING *
        """,
        account_id, webhook_id, url, list(events) if events is not None else None, description, status, now,
    )  # fmt: skip


async def replace_secret(
    db: Queryable, account_id: int, webhook_id: int, sealed: bytes, hint: str, previous_until: datetime, now: datetime
) -> Record | None:
    return await db.fetchrow(
        """
        UPDATE webhook
        SET previous_sealed = secret_sealed, previous_until = $5, secret_sealed = $3, secret_hint = $4, updated_at = $6
        WHERE account_id = $1 AND id = $2
        RETURNING *
        """,
        account_id, webhook_id, sealed, hint, previous_until, now,
    )  # fmt: skip


async def delete(db: Queryable, account_id: int, webhook_id: int) -> bool:
    done = await db.execute("DELETE FROM webhook WHERE account_id = $1 AND id = $2", account_id, webhook_id)
    return done == "DELETE 1"
