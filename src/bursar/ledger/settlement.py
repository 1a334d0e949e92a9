"""Settlement: funds whose day has come move from pending to main. Due work; safe to run twice or in parallel."""

from __future__ import annotations

from datetime import datetime

from bursar.core.crashpoints import crashpoint
from bursar.db.pool import Database, persist
from bursar.db.sweep import Desk, Sweep
from bursar.ledger.journals import settlement
from bursar.ledger.post import Posting, post

# One call's worth: enough to be quick, few enough that no wallet is locked for long.
BATCH = 200

_DUE = """
-- The parts whose day has come, oldest first; those of which nothing is left are tidied up with them.
SELECT account_id, currency, source
FROM unsettled
WHERE settles_at <= $1
ORDER BY settles_at
LIMIT $2
"""


async def settle_due(db: Database, now: datetime, batch: int = BATCH) -> int:
    """Settles up to `batch` parts and says how many it found. Of two workers at the same part, one finds it gone."""
    due = await db.fetch(_DUE, now, batch)
    journals = [settlement(**row) for row in due]

    async def work() -> list[Posting]:
        return await post(db, journals)

    if due:
        crashpoint("settlement.before")
        await persist(work)
        crashpoint("settlement.after")
    return len(due)


async def next_settlement(db: Database) -> datetime | None:
    """When the next part settles."""
    moment: datetime | None = await db.fetchval("SELECT min(settles_at) FROM unsettled")
    return moment


async def _run(desk: Desk, now: datetime) -> int:
    return await settle_due(desk.db, now)


SWEEP = Sweep("settlements", _run, next_settlement)
