"""The worker's part: making deliveries of what happened, sending them, and replaying a period."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from bursar.db.clock import CLOCK_LOCK
from bursar.db.pool import Record
from bursar.db.sweep import Desk, Sweep, repeat
from bursar.events import catalogue, fanout, lanes
from bursar.events.fanout import fan_out
from bursar.events.keyring import Keyring
from bursar.events.sender import Sender
from bursar.events.transport import Limits, Transport, rules_of
from bursar.features.api_keys.service import seal_context as api_key_context
from bursar.features.webhooks import queries, service

REPLAY_BATCH = 500


def new_sender(desk: Desk, *, commanded: bool = False) -> Sender:
    """A sender with this worker's keys and rules. Where the clock can be moved, retries keep exactly to it."""
    settings = desk.settings
    limits = Limits(settings.delivery_connect_s, settings.delivery_total_s)

    async def disable(account_id: int, webhook_id: int, reason: str) -> None:
        await service.disable(desk, account_id, webhook_id, reason)

    return Sender(
        desk.db,
        Keyring(desk.opener, service.seal_context, api_key_context),
        Transport(rules_of(settings), limits),
        disable,
        jitter=not settings.is_test,
        commanded=commanded,
        lease=timedelta(seconds=settings.delivery_lease_s),
    )


async def _send_all(desk: Desk, _: datetime) -> int:
    """Everything that is due, while the clock is being moved."""
    made = 0
    while batch := await fan_out(desk.db, commanded=True):
        made += batch
    async with new_sender(desk, commanded=True) as sender:
        return made + await sender.drain()


async def _send_always(desk: Desk, bell: asyncio.Event) -> None:
    async with new_sender(desk) as sender:
        await sender.run(bell)


async def _replay(desk: Desk, _: datetime) -> int:
    return await replay_batch(desk, commanded=True)


async def _replay_always(desk: Desk, bell: asyncio.Event) -> None:
    await repeat(lambda: replay_batch(desk, commanded=False), bell)


async def replay_batch(desk: Desk, *, commanded: bool) -> int:
    """Makes deliveries for the next events of the oldest replay; those that exist are begun anew."""
    async with desk.db.transaction() as db:
        free = "SELECT $1::boolean OR pg_try_advisory_xact_lock_shared($2)"
        if not await db.fetchval(free, commanded, CLOCK_LOCK):
            return 0
        replay = await queries.lock_running_replay(db)
        if replay is None:
            return 0
        endpoint = await queries.find(db, replay["account_id"], replay["webhook_id"])
        events = await queries.events_to_replay(db, replay, REPLAY_BATCH)
        if endpoint is None or endpoint["status"] == "disabled":
            events, wanted = [], []
        else:
            wanted = [(event, endpoint) for event in events if _wanted(replay, endpoint, event)]
        now = await db.fetchval("SELECT instance_now()")
        await fanout.make(db, await fanout.drafts_for(db, wanted), now, again=True)
        reached = events[-1]["event_id"] if events else replay["reached"]
        await queries.advance_replay(db, replay, reached, len(wanted), done=len(events) < REPLAY_BATCH)
    desk.wake()
    return max(1, len(events))


def _wanted(replay: Record, endpoint: Record, event: Record) -> bool:
    types = replay["types"]
    asked = not types or any(catalogue.matches(pattern, event["type"]) for pattern in types)
    wants = catalogue.wants(endpoint["events"], event["type"], include_additive=endpoint["include_additive"])
    return asked and wants


SWEEPS = (
    Sweep("replays", _replay, beside=_replay_always),
    Sweep("deliveries", _send_all, lanes.next_due, _send_always),
)
