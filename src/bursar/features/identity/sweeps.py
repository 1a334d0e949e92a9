"""What falls due with verification links: their expiry, and the simulated check of a test instance."""

from __future__ import annotations

from datetime import datetime

from bursar.db.sweep import Desk, Sweep
from bursar.events import outbox
from bursar.features.identity import queries, service
from bursar.http.acting import acting_on, announce

BATCH = 500


async def _expire(desk: Desk, now: datetime) -> int:
    return await queries.expire_due(desk.db, now, BATCH)


async def _check(desk: Desk, now: datetime) -> int:
    """Plays the identity provider: each submission gets the outcome that was chosen on the page."""
    done = 0
    for place in await queries.due_checks(desk.db, now, BATCH):
        async with desk.db.transaction() as db:
            row = await queries.lock(db, place["account_id"], place["id"])
            if row is None or row["status"] != "processing" or row["check_due_at"] is None:
                continue  # somebody was faster
            ctx = await acting_on(db, place["account_id"], desk.settings, desk.vault)
            await service.decide(ctx, place["account_id"], place["id"], row["simulated_outcome"])
            await outbox.write(db, ctx.events)
        await announce(desk.db, ctx)
        done += 1
    if done:
        desk.wake()
    return done


SWEEPS = (
    Sweep("verification_links", _expire, queries.next_due),
    Sweep("identity_checks", _check),
)
