"""Tidying up after requests: keys past their retention, counters of past minutes, lists that have grown."""

from __future__ import annotations

from datetime import datetime

from bursar.db import tallies
from bursar.db.sweep import Desk, Sweep

BATCH = 1000


EXPIRED_KEYS = """
-- Answered keys past their retention. One that still runs is left to whoever runs it.
DELETE FROM idempotency_key
WHERE (account_id, family, scope, key) IN (
    SELECT account_id, family, scope, key
    FROM idempotency_key
    WHERE expires_at <= $1 AND status IS NOT NULL
    ORDER BY expires_at
    LIMIT $2
)
  AND expires_at <= $1 AND status IS NOT NULL  -- still, should somebody be taking it over just now
"""


async def _expire_keys(desk: Desk, now: datetime) -> int:
    done = await desk.db.execute(EXPIRED_KEYS, now, BATCH)
    return int(done.split()[1])


async def _drop_counters(desk: Desk, _: datetime) -> int:
    done = await desk.db.execute(
        "DELETE FROM rate_counter WHERE window_start < clock_timestamp() - interval '10 minutes'"
    )
    return int(done.split()[1])


SWEEPS = (Sweep("idempotency_keys", _expire_keys), Sweep("rate_counters", _drop_counters), tallies.SWEEP)
