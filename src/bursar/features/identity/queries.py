"""Verification links in the database."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from bursar.db import tallies
from bursar.db.listing import Listing
from bursar.db.pool import Queryable, Record

LINKS = Listing(
    select="SELECT * FROM verification_link",
    scope="account_id = $1",
    filters={"status": "status = {}", "purpose": "purpose = {}"},
)
ALL_LINKS = Listing(
    select="SELECT v.*, a.public_id FROM verification_link AS v JOIN account AS a USING (account_id)",
    scope="v.account_id >= 1001",  # the sandbox's fixture is nobody's account
    id="v.id",
    sorts={"id": "v.id"},
    filters={"status": "v.status = {}", "merchant": "v.account_id = {}"},
    total=tallies.ALL_VERIFICATION_LINKS.total("0"),
)


async def insert(db: Queryable, account_id: int, values: Mapping[str, Any], now: datetime) -> Record:
    row = await db.fetchrow(
        """
        INSERT INTO verification_link
            (account_id, id, purpose, person_reference, return_url, status, metadata, expires_at, created_at,
             updated_at)
        VALUES ($1, nextval('verification_link_id'), $2, $3, $4, 'pending', $5, $6, $7, $7)
        RETURNING *
        """,
        account_id,
        values["purpose"],
        values["person_reference"],
        values["return_url"],
        values["metadata"],
        values["expires_at"],
        now,
    )
    assert row is not None
    return row


async def find(db: Queryable, account_id: int, link_id: int) -> Record | None:
    return await db.fetchrow("SELECT * FROM verification_link WHERE account_id = $1 AND id = $2", account_id, link_id)


async def lock(db: Queryable, account_id: int, link_id: int) -> Record | None:
    return await db.fetchrow(
        "SELECT * FROM verification_link WHERE account_id = $1 AND id = $2 FOR NO KEY UPDATE", account_id, link_id
    )


async def account_of(db: Queryable, link_id: int) -> int | None:
    """For staff, who are not bound to an account."""
    account_id: int | None = await db.fetchval(
        "SELECT account_id FROM verification_link WHERE id = $1 AND account_id >= 1001", link_id
    )
    return account_id


async def set_status(
    db: Queryable, row: Record, status: str, now: datetime, *, final: bool, error: tuple[str, str] | None = None
) -> Record:
    after = await db.fetchrow(
        """
        UPDATE verification_link
        SET status = $3, error_code = $4, error_message = $5, check_due_at = NULL, updated_at = $6,
            completed_at = CASE WHEN $7 THEN $6::timestamptz END
        WHERE account_id = $1 AND id = $2
        RETURNING *
        """,
        row["account_id"],
        row["id"],
        status,
        error[0] if error else None,
        error[1] if error else None,
        now,
        final,
    )
    assert after is not None
    return after


async def set_submitted(db: Queryable, row: Record, values: Mapping[str, Any], now: datetime) -> Record:
    after = await db.fetchrow(
        """
        UPDATE verification_link
        SET status = 'processing', error_code = NULL, error_message = NULL, document_type = $3, document_upload_id = $4,
            selfie_upload_id = $5, simulated_outcome = $6, check_due_at = $7, submitted_at = $8, updated_at = $8
        WHERE account_id = $1 AND id = $2
        RETURNING *
        """,
        row["account_id"],
        row["id"],
        values["document_type"],
        values["document_upload_id"],
        values["selfie_upload_id"],
        values["simulated_outcome"],
        values["check_due_at"],
        now,
    )
    assert after is not None
    return after


async def expire_due(db: Queryable, now: datetime, largest: int) -> int:
    done = await db.execute(
        """
        -- Links whose time is over and that wait for the person.
        UPDATE verification_link
        SET status = 'expired', completed_at = $1, updated_at = $1
        WHERE (account_id, id) IN (
            SELECT account_id, id
            FROM verification_link
            WHERE status IN ('pending', 'opened', 'requires_input') AND expires_at <= $1
            LIMIT $2
        )
          AND status IN ('pending', 'opened', 'requires_input')
        """,
        now,
        largest,
    )
    return int(done.split()[1])


async def due_checks(db: Queryable, now: datetime, largest: int) -> list[Record]:
    """Submissions whose simulated check is due."""
    return await db.fetch(
        """
        SELECT account_id, id
        FROM verification_link
        WHERE status = 'processing' AND check_due_at <= $1
        ORDER BY check_due_at
        LIMIT $2
        """,
        now,
        largest,
    )


async def next_due(db: Queryable) -> datetime | None:
    """The fixture's links never fall due: they are dated a century ahead and stay as they are."""
    moment: datetime | None = await db.fetchval(
        """
        SELECT least(
            (SELECT min(expires_at) FROM verification_link
             WHERE status IN ('pending', 'opened', 'requires_input') AND account_id >= 1001),
            (SELECT min(check_due_at) FROM verification_link
             WHERE status = 'processing' AND check_due_at IS NOT NULL)
        )
        """
    )
    return moment
