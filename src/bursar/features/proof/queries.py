"""Proof requests in the database, and the reserve of their payments."""

from __future__ import annotations

from datetime import datetime
from typing import cast

from bursar.db.pool import Queryable, Record
from bursar.features.proof.schemas import SubmittedProof


async def newest(db: Queryable, account_id: int, payment_id: int) -> Record | None:
    return await db.fetchrow(
        """
        SELECT *
        FROM proof_request
        WHERE account_id = $1 AND payment_id = $2
        ORDER BY id DESC
        LIMIT 1
        """,
        account_id,
        payment_id,
    )


async def next_id(db: Queryable) -> int:
    return cast("int", await db.fetchval("SELECT nextval('proof_request_id')"))


async def insert(
    db: Queryable, account_id: int, request_id: int, payment_id: int, reason: str, now: datetime, *, invoice: bool
) -> Record:
    row = await db.fetchrow(
        """
        INSERT INTO proof_request
            (account_id, id, payment_id, status, reason, invoice_file_required, created_at, updated_at)
        VALUES ($1, $2, $3, 'requested', $4, $5, $6, $6)
        RETURNING *
        """,
        account_id, request_id, payment_id, reason, invoice, now,
    )  # fmt: skip
    assert row is not None
    return row


async def submit(db: Queryable, request: Record, sent: SubmittedProof, now: datetime) -> Record:
    """What was sent before stays where nothing new was sent."""
    row = await db.fetchrow(
        """
        UPDATE proof_request
        SET status = 'submitted', courier_company = coalesce($3, courier_company),
            tracking_number = coalesce($4, tracking_number), buyer_firstname = coalesce($5, buyer_firstname),
            buyer_lastname = coalesce($6, buyer_lastname), buyer_phone = coalesce($7, buyer_phone),
            buyer_email = coalesce($8, buyer_email), merchant_notes = coalesce($9, merchant_notes),
            submitted_at = $10, updated_at = $10
        WHERE account_id = $1 AND id = $2
        RETURNING *
        """,
        request["account_id"], request["id"], sent.courier_company or None, sent.tracking_number or None,
        sent.buyer_firstname or None, sent.buyer_lastname or None, sent.buyer_phone or None, sent.buyer_email or None,
        sent.merchant_notes or None, now,
    )  # fmt: skip
    assert row is not None
    return row


async def decide(db: Queryable, request: Record, status: str, notes: str | None, now: datetime) -> Record:
    row = await db.fetchrow(
        """
        UPDATE proof_request
        SET status = $3, staff_notes = coalesce($4, staff_notes), decided_at = coalesce(decided_at, $5), updated_at = $5
        WHERE account_id = $1 AND id = $2
        RETURNING *
        """,
        request["account_id"], request["id"], status, notes, now,
    )  # fmt: skip
    assert row is not None
    return row


async def count_release(db: Queryable, request: Record) -> int:
    """The number of this release: each is a posting of its own."""
    return cast(
        "int",
        await db.fetchval(
            "UPDATE proof_request SET releases = releases + 1 WHERE account_id = $1 AND id = $2 RETURNING releases",
            request["account_id"],
            request["id"],
        ),
    )


async def set_proof(db: Queryable, account_id: int, payment_id: int, status: str, held: int, now: datetime) -> Record:
    """The payment's proof status, and by how much its reserve changes."""
    row = await db.fetchrow(
        """
        UPDATE payment
        SET proof_status = $3, reserve_minor = reserve_minor + $4, updated_at = $5
        WHERE account_id = $1 AND id = $2
        RETURNING *
        """,
        account_id, payment_id, status, held, now,
    )  # fmt: skip
    assert row is not None
    return row
