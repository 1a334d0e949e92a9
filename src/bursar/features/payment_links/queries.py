"""Payment links in the database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from bursar.db import tallies
from bursar.db.listing import Listing
from bursar.db.pool import Queryable, Record
from bursar.db.rows import Rows

LINKS = Listing(
    select="SELECT * FROM payment_link",
    scope="account_id = $1",
    filters={"status": "status = {}"},
    total=tallies.PAYMENT_LINKS.total(),
    versioned="payment_link",
)


NEW = Rows(
    "payment_link",
    given=(
        "account_id", "id", "reference", "amount_minor", "currency", "details", "ipn_url", "success_url", "cancel_url",
        "customer_name", "customer_email", "metadata", "application_fee_minor", "max_payments", "key_account_id",
        "key_id", "expires_at", "created_at",
    ),
    derived={"updated_at": "created_at"},
)  # fmt: skip
_INSERT = NEW.insert()


async def insert_many(db: Queryable, rows: Sequence[Mapping[str, Any]]) -> None:
    await db.execute(_INSERT, [NEW.row(values) for values in rows])


async def find(db: Queryable, account_id: int, link_id: int) -> Record | None:
    return await db.fetchrow("SELECT * FROM payment_link WHERE account_id = $1 AND id = $2", account_id, link_id)


async def account_of(db: Queryable, link_id: int) -> int | None:
    """Whose link it is: for the operator."""
    return cast(
        "int | None",
        await db.fetchval("SELECT account_id FROM payment_link WHERE id = $1 AND account_id >= 1001", link_id),
    )


async def lock(db: Queryable, account_id: int, link_id: int) -> Record | None:
    return await db.fetchrow(
        "SELECT * FROM payment_link WHERE account_id = $1 AND id = $2 FOR NO KEY UPDATE", account_id, link_id
    )


async def open_payments(db: Queryable, account_id: int, link_id: int) -> list[Record]:
    """Its payments that are neither paid nor closed, oldest first."""
    return await db.fetch(
        """
        SELECT *
        FROM payment
        WHERE account_id = $1 AND link_id = $2 AND status = 'pending'
        ORDER BY id
        """,
        account_id,
        link_id,
    )


async def count_opened(db: Queryable, account_id: int, link_id: int) -> int:
    """The number of the checkout that is being made for it."""
    return cast(
        "int",
        await db.fetchval(
            "UPDATE payment_link SET opened = opened + 1 WHERE account_id = $1 AND id = $2 RETURNING opened",
            account_id,
            link_id,
        ),
    )


async def paid_once(db: Queryable, account_id: int, link_id: int, now: datetime) -> Record:
    """One payment more; the last one it takes makes it paid, unless it was closed meanwhile."""
    row = await db.fetchrow(
        """
        UPDATE payment_link
        SET payments = payments + 1, updated_at = $3,
            status = CASE WHEN status = 'pending' AND payments + 1 >= max_payments THEN 'paid' ELSE status END
        WHERE account_id = $1 AND id = $2
        RETURNING *
        """,
        account_id,
        link_id,
        now,
    )
    assert row is not None
    return row


async def close_open(db: Queryable, account_id: int, link_id: int, now: datetime) -> None:
    """Has the worker close what is open behind a link. Locked in the order that everybody locks payments in."""
    await db.execute(
        """
        UPDATE payment
        SET closing = 'cancel', due_at = $3, updated_at = $3
        WHERE account_id = $1 AND id IN (
            SELECT id
            FROM payment
            WHERE account_id = $1 AND link_id = $2 AND status = 'pending' AND closing IS NULL
            ORDER BY id
            FOR NO KEY UPDATE
        )
        """,
        account_id,
        link_id,
        now,
    )


async def has_open(db: Queryable, account_id: int, link_id: int) -> bool:
    """Whether something behind the link can still be paid."""
    return cast(
        "bool",
        await db.fetchval(
            """
            SELECT EXISTS (
                SELECT FROM payment
                WHERE account_id = $1 AND link_id = $2 AND status = 'pending' AND closing IS NULL
            )
            """,
            account_id,
            link_id,
        ),
    )


async def cancel(db: Queryable, account_id: int, link_id: int, now: datetime) -> Record:
    row = await db.fetchrow(
        """
        UPDATE payment_link
        SET status = 'cancelled', updated_at = $3
        WHERE account_id = $1 AND id = $2
        RETURNING *
        """,
        account_id,
        link_id,
        now,
    )
    assert row is not None
    return row


async def expire(db: Queryable, now: datetime, limit: int) -> int:
    """Ends links whose time is over, once nothing behind them can still be paid."""
    done = await db.execute(
        """
        UPDATE payment_link AS link
        SET status = 'expired', updated_at = $1
        WHERE (account_id, id) IN (
            SELECT account_id, id
            FROM payment_link
            WHERE status = 'pending' AND expires_at <= $1
            ORDER BY expires_at
            LIMIT $2
        )
          AND status = 'pending'
          AND NOT EXISTS (
              SELECT FROM payment
              WHERE payment.account_id = link.account_id AND payment.link_id = link.id AND payment.status = 'pending'
          )
        """,
        now,
        limit,
    )
    return int(done.split()[1])


async def next_expiry(db: Queryable) -> datetime | None:
    """The next to come; one that is overdue waits for a payment, not for the clock."""
    return cast(
        "datetime | None",
        await db.fetchval(
            "SELECT min(expires_at) FROM payment_link WHERE status = 'pending' AND expires_at > instance_now()"
        ),
    )
