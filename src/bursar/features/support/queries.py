"""Support tickets in the database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from bursar.db import tallies
from bursar.db.listing import Listing
from bursar.db.pool import Queryable, Record

_FILTERS = {"status": "status = {}", "category": "category = {}", "priority": "priority = {}"}

TICKETS = Listing(
    select="SELECT * FROM support_ticket",
    scope="account_id = $1",
    sorts={"id": "id", "created_at": "created_at", "updated_at": "updated_at"},
    filters=_FILTERS,
    search=("subject",),
)
ALL_TICKETS = Listing(
    select="SELECT t.*, a.public_id FROM support_ticket AS t JOIN account AS a USING (account_id)",
    scope="t.account_id >= 1001",  # the sandbox's fixture is nobody's account
    id="t.id",
    sorts={"id": "t.id"},
    filters={"status": "t.status = {}", "category": "t.category = {}", "merchant": "t.account_id = {}"},
    total=tallies.ALL_TICKETS.total("0"),
)


async def insert(db: Queryable, account_id: int, values: Mapping[str, Any], now: datetime) -> Record:
    row = await db.fetchrow(
        """
        INSERT INTO support_ticket
            (account_id, id, subject, category, priority, status, related_type, related_id, created_at, updated_at)
        VALUES ($1, nextval('support_ticket_id'), $2, $3, $4, 'open', $5, $6, $7, $7)
        RETURNING *
        """,
        account_id,
        values["subject"],
        values["category"],
        values["priority"],
        values["related_type"],
        values["related_id"],
        now,
    )
    assert row is not None
    return row


async def find(db: Queryable, account_id: int, ticket_id: int) -> Record | None:
    return await db.fetchrow("SELECT * FROM support_ticket WHERE account_id = $1 AND id = $2", account_id, ticket_id)


async def lock(db: Queryable, account_id: int, ticket_id: int) -> Record | None:
    return await db.fetchrow(
        "SELECT * FROM support_ticket WHERE account_id = $1 AND id = $2 FOR NO KEY UPDATE", account_id, ticket_id
    )


async def account_of(db: Queryable, ticket_id: int) -> int | None:
    """For staff, who are not bound to an account."""
    account_id: int | None = await db.fetchval(
        "SELECT account_id FROM support_ticket WHERE id = $1 AND account_id >= 1001", ticket_id
    )
    return account_id


async def set_status(db: Queryable, row: Record, status: str, now: datetime) -> Record:
    after = await db.fetchrow(
        """
        UPDATE support_ticket
        SET status = $3, updated_at = $4
        WHERE account_id = $1 AND id = $2
        RETURNING *
        """,
        row["account_id"],
        row["id"],
        status,
        now,
    )
    assert after is not None
    return after


async def insert_message(db: Queryable, account_id: int, ticket_id: int, author: str, body: str, now: datetime) -> int:
    return cast(
        "int",
        await db.fetchval(
            """
            INSERT INTO support_message (account_id, id, ticket_id, author, body, created_at)
            VALUES ($1, nextval('support_message_id'), $2, $3, $4, $5)
            RETURNING id
            """,
            account_id,
            ticket_id,
            author,
            body,
            now,
        ),
    )


async def messages(db: Queryable, account_id: int, ticket_ids: Sequence[int]) -> list[Record]:
    """The messages of some tickets of one account, oldest first."""
    return await db.fetch(
        """
        SELECT id, ticket_id, author, body, created_at
        FROM support_message
        WHERE account_id = $1 AND ticket_id = ANY($2::bigint[])
        ORDER BY id
        """,
        account_id,
        list(ticket_ids),
    )
