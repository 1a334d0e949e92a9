"""Instance time: the database's clock, plus an offset that only a test instance may move."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import cast

from bursar.db.pool import Database, Queryable

CLOCK_LOCK = 0x636C6F63  # "cloc": shared by whoever does due work, held alone by whoever moves the clock


async def instance_now(db: Queryable) -> datetime:
    return cast("datetime", await db.fetchval("SELECT instance_now()"))


async def clock_offset(db: Queryable) -> timedelta:
    return cast("timedelta", await db.fetchval("SELECT clock_offset FROM instance"))


async def move_to(db: Database, moment: datetime) -> None:
    """Sets the instance clock to `moment` (it goes on running from there); never backwards."""
    await db.execute(
        """
        UPDATE instance
        SET clock_offset = greatest(clock_offset, $1::timestamptz - now())
        """,
        moment,
    )
