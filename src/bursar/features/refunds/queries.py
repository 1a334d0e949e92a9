"""Refunds in the database, and what they leave of a payment."""

from __future__ import annotations

from datetime import datetime
from typing import cast

from bursar.db.pool import Queryable, Record


async def next_id(db: Queryable) -> int:
    return cast("int", await db.fetchval("SELECT nextval('refund_id')"))


async def insert(
    db: Queryable, account_id: int, refund_id: int, *, payment_id: int, amount: int, currency: str, reason: str | None,
    application_fee_reversed: int, now: datetime,
) -> Record:  # fmt: skip
    row = await db.fetchrow(
        """
        INSERT INTO refund
            (account_id, id, payment_id, amount_minor, currency, reason, status, application_fee_reversed_minor,
             created_at, updated_at)
        VALUES ($1, $2, $3, $4, $5, $6, 'pending', $7, $8, $8)
        RETURNING *
        """,
        account_id, refund_id, payment_id, amount, currency, reason, application_fee_reversed, now,
    )  # fmt: skip
    assert row is not None
    return row


async def find(db: Queryable, account_id: int, refund_id: int) -> Record:
    row = await db.fetchrow("SELECT * FROM refund WHERE account_id = $1 AND id = $2", account_id, refund_id)
    assert row is not None
    return row


async def finish(
    db: Queryable, account_id: int, refund_id: int, *, status: str, failure: str | None, reference: str | None,
    now: datetime,
) -> Record:  # fmt: skip
    row = await db.fetchrow(
        """
        UPDATE refund
        SET status = $3, failure_reason = $4, processor_reference = $5, updated_at = $6
        WHERE account_id = $1 AND id = $2 AND status = 'pending'
        RETURNING *
        """,
        account_id, refund_id, status, failure, reference, now,
    )  # fmt: skip
    assert row is not None
    return row


async def hold(
    db: Queryable, account_id: int, payment_id: int, amount: int, application_fee: int, now: datetime
) -> Record:
    """Part of a payment is on its way back: nothing else may refund it."""
    row = await db.fetchrow(
        """
        UPDATE payment
        SET refunding_minor = refunding_minor + $3, application_fee_back_minor = application_fee_back_minor + $4,
            updated_at = $5
        WHERE account_id = $1 AND id = $2
        RETURNING *
        """,
        account_id, payment_id, amount, application_fee, now,
    )  # fmt: skip
    assert row is not None
    return row


async def settle(db: Queryable, account_id: int, payment_id: int, amount: int, now: datetime) -> Record:
    """It is back with the customer. A payment of which nothing is left is refunded."""
    row = await db.fetchrow(
        """
        UPDATE payment
        SET refunding_minor = refunding_minor - $3, refunded_minor = refunded_minor + $3,
            status = CASE WHEN refunded_minor + $3 = amount_minor THEN 'refunded' ELSE status END, updated_at = $4
        WHERE account_id = $1 AND id = $2
        RETURNING *
        """,
        account_id, payment_id, amount, now,
    )  # fmt: skip
    assert row is not None
    return row


async def give_up(
    db: Queryable, account_id: int, payment_id: int, amount: int, application_fee: int, now: datetime
) -> Record:
    """It stayed with the merchant after all."""
    row = await db.fetchrow(
        """
        UPDATE payment
        SET refunding_minor = refunding_minor - $3, application_fee_back_minor = application_fee_back_minor - $4,
            updated_at = $5
        WHERE account_id = $1 AND id = $2
        RETURNING *
        """,
        account_id, payment_id, amount, application_fee, now,
    )  # fmt: skip
    assert row is not None
    return row
