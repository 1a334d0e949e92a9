"""What is removed once it is old: the delivery log, notices, callbacks that were applied. Events are kept.

Only what is done has an age: what still waits for an attempt, or for a person, stays however old it is. Each round
finds its rows by an index of exactly those, oldest first, and is short. (`http.sweeps` removes expired keys.)
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from bursar.db import tallies
from bursar.db.clock import instance_now
from bursar.db.pool import Connection
from bursar.db.sweep import Desk, Sweep
from bursar.settings import Settings

BATCH = 500
PAUSE_S = 60.0
LOCK = 0x6B656570  # "keep": one worker at a time is enough

DELIVERIES = """
DELETE FROM delivery
WHERE (account_id, id) IN (
    SELECT account_id, id
    FROM delivery
    WHERE next_attempt_at IS NULL AND account_id >= 1001 AND updated_at < $1
    ORDER BY updated_at
    LIMIT $2
)
  AND next_attempt_at IS NULL  -- still, should somebody be sending it again just now
RETURNING account_id, id, channel, source_account_id, source_id, txid
"""

ATTEMPTS = """
DELETE FROM delivery_attempt
WHERE (account_id, delivery_id) IN (SELECT * FROM unnest($1::bigint[], $2::bigint[]))
"""

IPNS = """
DELETE FROM ipn
WHERE (account_id, id) IN (SELECT * FROM unnest($1::bigint[], $2::bigint[]))
"""

NOTICES = """
DELETE FROM notice
WHERE (account_id, id) IN (
    SELECT account_id, id
    FROM notice
    WHERE next_attempt_at IS NULL AND created_at < $1
    ORDER BY created_at
    LIMIT $2
)
RETURNING id
"""

CALLBACKS = """
-- Those in quarantine wait for a person.
DELETE FROM processor_inbox
WHERE (account_id, provider, event_id) IN (
    SELECT account_id, provider, event_id
    FROM processor_inbox
    WHERE state = 'done' AND finished_at < $1
    ORDER BY finished_at
    LIMIT $2
)
RETURNING event_id
"""


async def _deliveries(db: Connection, before: datetime) -> int:
    """With every attempt, and with the notification that an IPN's delivery was made from."""
    await tallies.hold(db, tallies.DELIVERIES)
    gone = await db.fetch(DELIVERIES, before, BATCH)
    await tallies.deleted(db, tallies.DELIVERIES, [(row["account_id"], row["txid"]) for row in gone])
    await db.execute(ATTEMPTS, [row["account_id"] for row in gone], [row["id"] for row in gone])
    ipns = [row for row in gone if row["channel"] == "ipn"]
    await db.execute(IPNS, [row["source_account_id"] for row in ipns], [row["source_id"] for row in ipns])
    return len(gone)


async def _notices(db: Connection, before: datetime) -> int:
    return len(await db.fetch(NOTICES, before, BATCH))


async def _callbacks(db: Connection, before: datetime) -> int:
    return len(await db.fetch(CALLBACKS, before, BATCH))


Remove = Callable[[Connection, datetime], Awaitable[int]]


def _rules(settings: Settings) -> tuple[tuple[int, Remove], ...]:
    """Days to keep, and what."""
    return (
        (settings.delivery_log_days, _deliveries),
        (settings.notice_days, _notices),
        (settings.callback_days, _callbacks),
    )


async def remove_old(desk: Desk, now: datetime) -> int:
    """One round of everything; the number of rows removed, besides those that belong to them."""
    removed = 0
    for days, remove in _rules(desk.settings):
        async with desk.db.transaction() as db:
            if await db.fetchval("SELECT pg_try_advisory_xact_lock($1)", LOCK):
                removed += await remove(db, now - timedelta(days=days))
    return removed


async def _remove_always(desk: Desk, _: asyncio.Event) -> None:
    while True:
        while await remove_old(desk, await instance_now(desk.db)):
            pass
        await asyncio.sleep(PAUSE_S)


SWEEP = Sweep("retention", remove_old, beside=_remove_always)
