"""Compliance requests in the database."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from bursar.db import tallies
from bursar.db.listing import Listing
from bursar.db.pool import Queryable, Record

REQUESTS = Listing(
    select="SELECT * FROM compliance_request",
    scope="account_id = $1",
    sorts={"id": "id", "created_at": "created_at", "due_at": "due_at"},
    filters={"status": "status = {}", "type": "type = {}"},
)
ALL_REQUESTS = Listing(
    select="SELECT r.*, a.public_id FROM compliance_request AS r JOIN account AS a USING (account_id)",
    scope="r.account_id >= 1001",  # the sandbox's fixture is nobody's account
    id="r.id",
    sorts={"id": "r.id"},
    filters={"status": "r.status = {}", "type": "r.type = {}", "merchant": "r.account_id = {}"},
    total=tallies.ALL_COMPLIANCE_REQUESTS.total("0"),
)


async def insert(db: Queryable, account_id: int, values: Mapping[str, Any], now: datetime) -> Record:
    row = await db.fetchrow(
        """
        INSERT INTO compliance_request
            (account_id, id, type, title, description, fields, status, blocking, due_at, created_at, updated_at)
        VALUES ($1, nextval('compliance_request_id'), $2, $3, $4, $5, 'open', $6, $7, $8, $8)
        RETURNING *
        """,
        account_id,
        values["type"],
        values["title"],
        values["description"],
        values["fields"],
        values["blocking"],
        values["due_at"],
        now,
    )
    assert row is not None
    return row


async def find(db: Queryable, account_id: int, request_id: int) -> Record | None:
    return await db.fetchrow(
        "SELECT * FROM compliance_request WHERE account_id = $1 AND id = $2", account_id, request_id
    )


async def lock(db: Queryable, account_id: int, request_id: int) -> Record | None:
    return await db.fetchrow(
        "SELECT * FROM compliance_request WHERE account_id = $1 AND id = $2 FOR NO KEY UPDATE", account_id, request_id
    )


async def account_of(db: Queryable, request_id: int) -> int | None:
    """For staff, who are not bound to an account."""
    account_id: int | None = await db.fetchval(
        "SELECT account_id FROM compliance_request WHERE id = $1 AND account_id >= 1001", request_id
    )
    return account_id


async def insert_response(
    db: Queryable, account_id: int, request_id: int, answers: Mapping[str, Any], now: datetime
) -> None:
    await db.execute(
        """
        INSERT INTO compliance_response (account_id, id, request_id, answers, created_at)
        VALUES ($1, nextval('compliance_response_id'), $2, $3, $4)
        """,
        account_id,
        request_id,
        dict(answers),
        now,
    )


async def responses(db: Queryable, account_id: int, request_id: int) -> list[Record]:
    return await db.fetch(
        """
        SELECT id, answers, created_at
        FROM compliance_response
        WHERE account_id = $1 AND request_id = $2
        ORDER BY id
        """,
        account_id,
        request_id,
    )


async def set_submitted(db: Queryable, row: Record, now: datetime) -> Record:
    after = await db.fetchrow(
        """
        UPDATE compliance_request
        SET status = 'submitted', submitted_at = $3, decided_at = NULL, decision_notes = NULL, updated_at = $3
        WHERE account_id = $1 AND id = $2
        RETURNING *
        """,
        row["account_id"],
        row["id"],
        now,
    )
    assert after is not None
    return after


async def set_decided(db: Queryable, row: Record, status: str, notes: str | None, now: datetime) -> Record:
    after = await db.fetchrow(
        """
        UPDATE compliance_request
        SET status = $3, decision_notes = $4, decided_at = $5, updated_at = $5
        WHERE account_id = $1 AND id = $2
        RETURNING *
        """,
        row["account_id"],
        row["id"],
        status,
        notes,
        now,
    )
    assert after is not None
    return after


async def set_expired(db: Queryable, account_id: int, request_id: int, now: datetime) -> Record | None:
    """None when it was answered or closed meanwhile."""
    return await db.fetchrow(
        """
        UPDATE compliance_request
        SET status = 'expired', updated_at = $3
        WHERE account_id = $1 AND id = $2 AND status IN ('open', 'rejected') AND due_at <= $3
        RETURNING *
        """,
        account_id,
        request_id,
        now,
    )


async def overdue(db: Queryable, now: datetime, largest: int) -> list[Record]:
    return await db.fetch(
        """
        SELECT account_id, id
        FROM compliance_request
        WHERE status IN ('open', 'rejected') AND due_at <= $1
        ORDER BY due_at
        LIMIT $2
        """,
        now,
        largest,
    )


async def next_due(db: Queryable) -> datetime | None:
    moment: datetime | None = await db.fetchval(
        """
        SELECT min(due_at)
        FROM compliance_request
        WHERE status IN ('open', 'rejected') AND account_id >= 1001
        """
    )
    return moment


async def renew_holds(db: Queryable, account_id: int) -> bool:
    """Sets what the account's uncleared requests hold back, all together; True when that changed."""
    # Locked by a statement of its own, so that the next one sees what a concurrent change committed.
    await db.execute("SELECT 1 FROM account WHERE account_id = $1 FOR NO KEY UPDATE", account_id)
    changed = await db.fetchval(
        """
        UPDATE account
        SET compliance_holds = held.blocks
        FROM (
            SELECT coalesce(array_agg(DISTINCT block ORDER BY block), '{}') AS blocks
            FROM compliance_request, unnest(blocking) AS block
            WHERE account_id = $1 AND status IN ('open', 'submitted', 'rejected', 'expired')
        ) AS held
        WHERE account_id = $1 AND compliance_holds <> held.blocks
        RETURNING true
        """,
        account_id,
    )
    return bool(changed)
