"""The chain of seals: hashes over blocks of journals, each block hashed with the head before it.

A head that was noted elsewhere proves everything up to it. Sealing is due work; checking the chain is the audit's.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from bursar.core.crashpoints import crashpoint
from bursar.db.pool import Database, Record
from bursar.db.sweep import Desk, Sweep

LARGEST_BLOCK = 1000

# How long a journal may wait for its seal: blocks are then worth their row.
PATIENCE = timedelta(minutes=1)

_OLDEST = """
-- When the oldest journal that no seal covers was recorded.
SELECT created_at
FROM journal
WHERE txid >= coalesce((SELECT upto_txid FROM seal ORDER BY number DESC LIMIT 1), 0)
ORDER BY txid
LIMIT 1
"""

_BLOCKS = """
-- Each block as it was sealed beside what its journals say now, in order, some at a time.
SELECT s.number, s.from_txid, s.upto_txid, s.head, s.totals,
       found.digest IS NOT DISTINCT FROM s.digest AS intact,
       s.head = seal_head(coalesce(previous.head, ''), s.number, s.from_txid, s.upto_txid, s.digest)
           AND s.from_txid = coalesce(previous.upto_txid, 0) AS chained
FROM seal s
LEFT JOIN seal previous ON previous.number = s.number - 1
LEFT JOIN LATERAL (
    SELECT sha256(string_agg(journal_digest(j), '' ORDER BY j.txid, j.id)) AS digest
    FROM journal j
    WHERE j.txid >= s.from_txid AND j.txid < s.upto_txid
) AS found ON true
WHERE s.number > $1
ORDER BY s.number
LIMIT $2
"""

_DIFFERENCE = """
-- Which journals of a block are not as they were sealed.
SELECT coalesce(sealed.id, found.id) AS id,
       CASE WHEN found.id IS NULL THEN 'is gone' WHEN sealed.id IS NULL THEN 'was added' ELSE 'was changed' END AS what
FROM (SELECT t.id, t.print FROM seal s, unnest(s.ids, s.prints) AS t (id, print) WHERE s.number = $1) AS sealed
FULL JOIN (
    SELECT j.id, substr(journal_digest(j), 1, 8) AS print
    FROM journal j, seal s
    WHERE s.number = $1 AND j.txid >= s.from_txid AND j.txid < s.upto_txid
) AS found USING (id)
WHERE sealed.print IS DISTINCT FROM found.print
ORDER BY id
LIMIT 5
"""

_TOTALS = """
-- The service accounts' totals over all sealed journals, and as the newest seal has them.
SELECT (SELECT s.totals FROM seal s ORDER BY s.number DESC LIMIT 1) AS sealed,
       coalesce((
           SELECT jsonb_object_agg(t.name, t.total)
           FROM (
               SELECT j.currency || ' ' || g.account AS name, sum(g.amount) AS total
               FROM journal j, unnest(j.accounts, j.amounts) AS g (account, amount)
               WHERE g.account NOT IN ('main', 'pending', 'reserve')
                 AND j.txid < (SELECT max(s.upto_txid) FROM seal s)
               GROUP BY j.currency, g.account
           ) AS t
       ), '{}') AS found
"""


class _Fetches(Protocol):
    async def fetch(self, query: str, *args: Any) -> list[Record]: ...
    async def fetchrow(self, query: str, *args: Any) -> Record | None: ...


@dataclass(frozen=True, slots=True)
class Block:
    """One seal, and what is wrong with it: '' when nothing is."""

    number: int
    head: str
    wrong: str


async def seal(db: Database, largest: int = LARGEST_BLOCK) -> int:
    """Seals the next block and returns how many journals it has; 0 when none are waiting, or another is at it."""
    crashpoint("seal.before")
    sealed: int = await db.fetchval("SELECT ledger_seal($1)", largest)
    crashpoint("seal.after")
    return sealed


async def is_due(db: Database, now: datetime) -> bool:
    oldest: datetime | None = await db.fetchval(_OLDEST)
    return oldest is not None and oldest <= now - PATIENCE


async def _run(desk: Desk, now: datetime) -> int:
    return await seal(desk.db) if await is_due(desk.db, now) else 0


SWEEP = Sweep("seals", _run)


async def newest_head(db: _Fetches) -> str | None:
    row = await db.fetchrow("SELECT head FROM seal ORDER BY number DESC LIMIT 1")
    return row["head"].hex() if row else None


async def blocks(db: _Fetches, at_once: int = 50) -> AsyncIterator[Block]:
    """Every block in order, checked against its journals and the block before it."""
    last = 0
    while rows := await db.fetch(_BLOCKS, last, at_once):
        for row in rows:
            yield Block(row["number"], row["head"].hex(), await _wrong(db, row, last))
            last = row["number"]


async def wrong_totals(db: _Fetches) -> str:
    """What is wrong with the totals that the newest seal keeps, or ''."""
    row = await db.fetchrow(_TOTALS)
    assert row is not None
    sealed: Mapping[str, int] | None = row["sealed"]
    found: Mapping[str, int] = row["found"]
    if sealed is None:
        return ""
    differing = [name for name in {*sealed, *found} if sealed.get(name, 0) != found.get(name, 0)]
    return f"the newest seal's total of {min(differing)} is not that of its journals" if differing else ""


async def _wrong(db: _Fetches, row: Record, previous: int) -> str:
    number = row["number"]
    if number != previous + 1:
        return f"seal {previous + 1} is gone"
    if not row["intact"]:
        journals = await db.fetch(_DIFFERENCE, number)
        where = ", ".join(f"journal {journal['id']} {journal['what']}" for journal in journals)
        return f"seal {number} does not fit its journals: {where or 'its own digest was changed'}"
    if not row["chained"]:
        return f"seal {number} does not follow from the one before it"
    return ""
