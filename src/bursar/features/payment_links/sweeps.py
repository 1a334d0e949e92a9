"""Links whose time is over."""

from __future__ import annotations

from datetime import datetime

from bursar.db.pool import Database
from bursar.db.sweep import Desk, Sweep
from bursar.features.payment_links import queries

BATCH = 500


async def _expire(desk: Desk, now: datetime) -> int:
    return await queries.expire(desk.db, now, BATCH)


async def _next_expiry(db: Database) -> datetime | None:
    return await queries.next_expiry(db)


SWEEPS = (Sweep("payment_links", _expire, _next_expiry),)
