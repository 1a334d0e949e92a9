"""A writer per process for callers who want a posting and nothing else in its transaction.

Journals that arrive while others are being committed go together in the next call, so a wallet that all of them touch
is locked and written once. Natural keys make a second try safe, whatever became of the first.
"""

from __future__ import annotations

from collections.abc import Sequence

import asyncpg

from bursar.db.group import GroupCommit
from bursar.db.pool import COLLIDED, LOST, Database, persist
from bursar.ledger.lines import Journal
from bursar.ledger.post import Posting, post


class Writer:
    def __init__(self, db: Database, *, lanes: int = 2, largest: int = 32) -> None:
        self._db = db
        self._group: GroupCommit[Journal, Posting] = GroupCommit(self._flush, lanes=lanes, largest=largest, shared=True)

    async def post(self, journal: Journal) -> Posting:
        """Posts and commits one journal; what it met (posted, existing, insufficient) is in the result."""
        return await self._group.submit(journal)

    async def _flush(self, journals: Sequence[Journal]) -> Sequence[Posting | Exception]:
        try:
            return await persist(lambda: post(self._db, journals))
        except (*COLLIDED, *LOST):
            raise
        except asyncpg.PostgresError as error:
            # One of them is impossible. Only that one shall fail.
            if len(journals) == 1:
                return [error]
            return [result for journal in journals for result in await self._flush([journal])]
