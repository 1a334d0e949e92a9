"""Compliance requests that nobody answered in time."""

from __future__ import annotations

from datetime import datetime

from bursar.db.sweep import Desk, Sweep
from bursar.events import outbox
from bursar.features.compliance import queries, service
from bursar.http.acting import acting_on

BATCH = 100


async def _overdue(desk: Desk, now: datetime) -> int:
    done = 0
    for place in await queries.overdue(desk.db, now, BATCH):
        async with desk.db.transaction() as db:
            ctx = await acting_on(db, place["account_id"], desk.settings, desk.vault)
            done += await service.overdue(ctx, place["id"])
            await outbox.write(db, ctx.events)
    if done:
        desk.wake()
    return done


SWEEPS = (Sweep("compliance_requests", _overdue, queries.next_due),)
