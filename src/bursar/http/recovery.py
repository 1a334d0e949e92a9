"""Finishing what a caller could not: operations whose process died, or whose processor did not answer.

The processor is asked again under the same key, so asking is safe; after a day without an answer a person must look.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import datetime, timedelta

import structlog

from bursar.core.crashpoints import crashpoint
from bursar.db.clock import instance_now
from bursar.db.pool import Connection, Database, Record, persist
from bursar.db.sweep import Desk, Sweep
from bursar.events import outbox
from bursar.http import idempotency, operations
from bursar.http.acting import acting_on
from bursar.http.families import FAMILIES, OPERATOR
from bursar.http.idempotency import Claim, Stored
from bursar.http.reply import render
from bursar.http.routes import Outside, Processor, Route, Unknown

log = structlog.get_logger()

LOOKS = (timedelta(seconds=5), timedelta(seconds=30), timedelta(minutes=2), timedelta(minutes=10), timedelta(hours=1))
GIVE_UP = timedelta(hours=23)
BATCH = 20

# An operation that waits for an order to the worker is nobody's until that is carried out. Looked at on the way, while
# the order itself moves the clock, it would be put off from look to look and given up before it can have an outcome.
_FREE = """
state IN ('calling', 'unknown') AND (lease_until IS NULL OR lease_until < clock_timestamp())
      AND NOT EXISTS (
          SELECT FROM worker_command AS command
          WHERE command.id = (intent ->> 'command_id')::bigint AND command.done_at IS NULL
      )
"""

_CLAIM = f"""
-- Operations that are due and that nobody holds: take the lease, in real time.
UPDATE operation
SET lease_until = clock_timestamp() + interval '30 seconds', attempts = attempts + 1
WHERE (account_id, id) IN (
    SELECT account_id, id
    FROM operation
    WHERE due_at <= $1 AND {_FREE}
    ORDER BY due_at
    LIMIT $2
)
  AND state IN ('calling', 'unknown')
  AND (lease_until IS NULL OR lease_until < clock_timestamp())
RETURNING *
"""  # noqa: S608 - our own text

_NEXT_DUE = f"SELECT min(due_at) FROM operation WHERE {_FREE}"  # noqa: S608


def recovery_sweep(routes: Iterable[Route]) -> Sweep:
    by_kind = {route.handler.kind: route for route in routes if isinstance(route.handler, Processor)}

    async def run(desk: Desk, now: datetime) -> int:
        rows = await desk.db.fetch(_CLAIM, now, BATCH)
        await asyncio.gather(*(_resume(desk, by_kind.get(row["kind"]), row) for row in rows))
        return len(rows)

    return Sweep("operations", run, _next_due)


async def _next_due(db: Database) -> datetime | None:
    moment: datetime | None = await db.fetchval(_NEXT_DUE)
    return moment


async def _resume(desk: Desk, route: Route | None, row: Record) -> None:
    """Asks again and writes the outcome. What goes wrong is this operation's alone: it is looked at again later."""
    if route is None:
        log.error("operation.unknown_kind", kind=row["kind"], operation_id=row["id"])
        return
    try:
        await _finish(desk, route, row)
    except (Unknown, TimeoutError, OSError):
        await _look_later(desk, row)
    except Exception:
        log.exception("operation.not_finished", kind=row["kind"], operation_id=row["id"])
        await _look_later(desk, row)


async def _finish(desk: Desk, route: Route, row: Record) -> None:
    handler = route.handler
    assert isinstance(handler, Processor)
    crashpoint("recovery.before_call")
    async with asyncio.timeout(handler.timeout_s):
        outcome = await handler.call(Outside(desk.db, desk.settings, desk.wake, may_wait=False), row["intent"])
    crashpoint("recovery.after_call")

    async def write() -> None:
        async with desk.db.transaction("recovery") as db:
            if not await operations.take(db, row["account_id"], row["id"]):
                return
            ctx = await acting_on(
                db, row["account_id"], desk.settings, desk.vault, request_id=row["request_id"],
                idempotency_key=row["key"],
            )  # fmt: skip
            reply = render(route, await operations.outcome_of(handler.finish(ctx, row["intent"], outcome)), ctx)
            await outbox.write(db, ctx.events)
            await _complete_key(db, row, route, reply)
            await operations.done(db, row["account_id"], row["id"], ctx.now)
        desk.wake()

    await persist(write)


async def _complete_key(db: Connection, row: Record, route: Route, reply: Stored) -> None:
    """The caller's key gets its reply, unless it was already answered that the outcome is pending."""
    if row["key"] is None:
        return
    family = FAMILIES.get(row["family"], OPERATOR)
    claim = Claim(row["owner_id"], family, row["scope"], row["key"], b"", route.keep)
    if reply.status >= 400 and not family.errors_consume:
        await idempotency.release_unanswered(db, claim)
    else:
        await idempotency.complete(db, claim, reply)


async def _look_later(desk: Desk, row: Record) -> None:
    async with desk.db.transaction() as db:
        now = await instance_now(db)
        if not await operations.take(db, row["account_id"], row["id"]):
            return
        if now - row["created_at"] > GIVE_UP:
            await operations.to_review(db, row["account_id"], row["id"], now)
            log.error("operation.review", kind=row["kind"], operation_id=row["id"], account_id=row["account_id"])
            return
        wait = LOOKS[min(row["attempts"], len(LOOKS) - 1)]
        await operations.unknown(db, row["account_id"], row["id"], now, now + wait)
