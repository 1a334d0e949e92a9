"""Deliveries in the database, as their owner sees them; the worker's side is `events.lanes`."""

from __future__ import annotations

from datetime import datetime

from bursar.db import tallies
from bursar.db.listing import Listing
from bursar.db.pool import Queryable, Record

DELIVERIES = Listing(
    select="SELECT * FROM delivery",
    scope="account_id = $1",
    filters={
        "status": "status = {}",
        "event_type": "type = {}",
        "event_id": "event_id = {}",
        "webhook_id": "webhook_id = {}",
        "channel": "channel = {}",
        "exhausted": "exhausted = {}",
    },
    total=tallies.DELIVERIES.total(),
)


async def find(db: Queryable, account_id: int, delivery_id: int) -> Record | None:
    """A delivery with what it sends."""
    return await db.fetchrow(
        """
        SELECT delivery.*, event.body, ipn.fields, coalesce(webhook.url, ipn.url) AS url,
               webhook.status AS webhook_status
        FROM delivery
        LEFT JOIN event ON channel = 'webhook' AND event.account_id = source_account_id AND event.id = source_id
        LEFT JOIN ipn ON channel = 'ipn' AND ipn.account_id = source_account_id AND ipn.id = source_id
        LEFT JOIN webhook ON webhook.account_id = delivery.account_id AND webhook.id = webhook_id
        WHERE delivery.account_id = $1 AND delivery.id = $2
        """,
        account_id,
        delivery_id,
    )


async def attempts(db: Queryable, account_id: int, delivery_id: int) -> list[Record]:
    return await db.fetch(
        "SELECT * FROM delivery_attempt WHERE account_id = $1 AND delivery_id = $2 ORDER BY number",
        account_id,
        delivery_id,
    )


async def begin_anew(db: Queryable, account_id: int, delivery_id: int, now: datetime) -> Record | None:
    """Due at once, with the whole schedule before it again."""
    return await db.fetchrow(
        """
        UPDATE delivery
        SET status = 'pending', step = 0, exhausted = false, next_attempt_at = $3, updated_at = $3
        WHERE account_id = $1 AND id = $2
        RETURNING *
        """,
        account_id,
        delivery_id,
        now,
    )
