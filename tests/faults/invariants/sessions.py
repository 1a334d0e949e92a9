"""O2: no session of the service is left in the middle of a transaction, and no lock without its owner at work."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import asyncpg

PATIENCE_S = 10.0


async def left_behind(url: str) -> list[str]:
    """What is there now and still there after a while."""
    session = await asyncpg.connect(url)
    try:
        until = time.monotonic() + PATIENCE_S
        idle, locks = await _idle(session), await _locks(session)
        while (idle or locks) and time.monotonic() < until:
            await asyncio.sleep(0.25)
            idle &= await _idle(session)
            locks &= await _locks(session)
    finally:
        await session.close()
    return [f"O2: session {pid} of {name} is idle in a transaction" for pid, name, _ in idle] + [
        f"O2: an advisory lock {number} is held by session {pid} for {PATIENCE_S:.0f} s" for pid, number, _ in locks
    ]


async def _idle(session: Any) -> set[tuple[int, str, str]]:
    rows = await session.fetch(
        """
        SELECT pid, application_name, xact_start::text AS since FROM pg_stat_activity
        WHERE state LIKE 'idle in transaction%' AND datname = current_database()
        """
    )
    return {(row["pid"], row["application_name"], row["since"]) for row in rows}


async def _locks(session: Any) -> set[tuple[int, int, str]]:
    """With the statement that the holder last began: a worker takes and gives back its locks all the time."""
    rows = await session.fetch(
        """
        SELECT l.pid, l.objid::bigint AS number, a.query_start::text AS since
        FROM pg_locks l JOIN pg_stat_activity a USING (pid)
        WHERE l.locktype = 'advisory' AND l.granted
        """
    )
    return {(row["pid"], row["number"], row["since"]) for row in rows}
