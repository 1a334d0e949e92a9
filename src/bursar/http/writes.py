"""Local and processor writes. Each commits its effect together with its key, its events and its stored reply.

`local`     one transaction.
`processor` intent, committed; the call, with no connection held; outcome, committed. A worker can do the last two.

The third kind, which shares its transaction with others, is in `http.batched`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any, TypeVar

from bursar.core.crashpoints import crashpoint
from bursar.core.errors import ApiError, ServiceUnavailable
from bursar.db.clock import instance_now
from bursar.db.pool import Connection, persist
from bursar.events import outbox
from bursar.http import audit, idempotency, operations
from bursar.http.admission import ADMISSION
from bursar.http.context import Ctx
from bursar.http.exchange import Exchange
from bursar.http.idempotency import Stored
from bursar.http.reply import failed, render
from bursar.http.routes import Local, Outside, Processor, Unknown

T = TypeVar("T")

LEASE_MARGIN_S = 10.0  # how long after its time-out a caller still holds its operation
FIRST_LOOK = timedelta(seconds=5)


async def _persist(exchange: Exchange, work: Callable[[], Awaitable[T]]) -> T:
    """Tries until it is written. Without a key nobody could know whether a lost try was committed: no second one."""
    return await persist(work, after_loss=exchange.claim is not None)


async def _claimed(exchange: Exchange, db: Connection) -> tuple[Ctx, Stored | None]:
    """A context in the open transaction, and the reply if the request's key was used before."""
    wanted = exchange.claim
    if wanted is None:
        return exchange.ctx(db, await instance_now(db)), None
    now, held = await idempotency.claim(db, wanted)
    if held is None:
        exchange.tried.add(now)
        return exchange.ctx(db, now), None
    return exchange.ctx(db, now), exchange.answer(held, now)


async def _close(exchange: Exchange, ctx: Ctx, db: Connection, reply: Stored) -> None:
    """The last statements of a write: its events, its audit record, its stored reply."""
    await outbox.write(db, ctx.events)
    await audit.record(exchange, ctx, db, reply.status)
    if exchange.claim is not None:
        secret = exchange.secret if exchange.route.shows_secret and reply.status < 400 else None
        await idempotency.complete(db, exchange.claim, reply, secret=secret)


# Local ---------------------------------------------------------------------------------------------------------


async def run_local(exchange: Exchange, handler: Local) -> Stored:
    async def attempt() -> Stored:
        async with exchange.instance.db.transaction("local") as db:
            ctx, reply = await _claimed(exchange, db)
            if reply is not None:
                return reply
            reply = await _effect(exchange, ctx, db, handler)
            await _close(exchange, ctx, db, reply)
        exchange.instance.after_commit(ctx)
        return reply

    return await _persist(exchange, attempt)


async def _effect(exchange: Exchange, ctx: Ctx, db: Connection, handler: Local) -> Stored:
    """Runs the handler; where errors consume the key, they become the reply and only the effect is undone."""
    if not exchange.route.family.errors_consume:
        return render(exchange.route, await handler.handle(ctx, exchange.admitted_body()), ctx)
    try:
        async with db.transaction():
            return render(exchange.route, await handler.handle(ctx, exchange.admitted_body()), ctx)
    except ApiError as error:
        ctx.events.clear()
        return failed(error)


# Processor -----------------------------------------------------------------------------------------------------


async def run_processor(exchange: Exchange, handler: Processor) -> Stored:
    instance = exchange.instance
    started = await _persist(exchange, lambda: _begin(exchange, handler))
    if isinstance(started, Stored):
        return started
    operation_id, intent = started
    try:
        crashpoint("call.before")
        with ADMISSION.away():
            async with asyncio.timeout(handler.timeout_s):
                outcome = await handler.call(Outside(instance.db, instance.settings, instance.hints.wake), intent)
        crashpoint("call.after")
    except (Unknown, TimeoutError, OSError):
        return await persist(lambda: _leave_pending(exchange, handler, operation_id, intent))
    return await persist(lambda: _finish(exchange, handler, operation_id, intent, outcome))


async def _begin(exchange: Exchange, handler: Processor) -> Stored | tuple[int, Mapping[str, Any]]:
    async with exchange.instance.db.transaction("begin") as db:
        ctx, reply = await _claimed(exchange, db)
        if reply is not None:
            return reply
        try:
            async with db.transaction():
                intent = await handler.begin(ctx, exchange.admitted_body())
        except ApiError as error:
            if not exchange.route.family.errors_consume:
                raise
            ctx.events.clear()
            reply = failed(error)
            await _close(exchange, ctx, db, reply)
            return reply
        operation_id = await operations.begin(
            db, ctx, handler.kind, intent, exchange.claim, handler.timeout_s + LEASE_MARGIN_S
        )
        await outbox.write(db, ctx.events)
    exchange.instance.after_commit(ctx)
    return operation_id, intent


async def _finish(
    exchange: Exchange, handler: Processor, operation_id: int, intent: Mapping[str, Any], outcome: Any
) -> Stored:
    async with exchange.instance.db.transaction("finish") as db:
        ctx = exchange.ctx(db, await instance_now(db))
        if not await operations.take(db, ctx.account.account_id, operation_id):
            return await _as_stored(exchange, db)  # the worker was faster
        reply = render(exchange.route, await operations.outcome_of(handler.finish(ctx, intent, outcome)), ctx)
        await _close_operation(exchange, ctx, db, reply)
        await operations.done(db, ctx.account.account_id, operation_id, ctx.now)
    exchange.instance.after_commit(ctx)
    return reply


async def _close_operation(exchange: Exchange, ctx: Ctx, db: Connection, reply: Stored) -> None:
    """An outcome that is an error keeps its effects (the released hold) but not the key, unless errors consume it."""
    if reply.status >= 400 and exchange.claim is not None and not exchange.route.family.errors_consume:
        await outbox.write(db, ctx.events)
        await audit.record(exchange, ctx, db, reply.status)
        await idempotency.release_many(db, [exchange.claim])
        return
    await _close(exchange, ctx, db, reply)


async def _leave_pending(
    exchange: Exchange, handler: Processor, operation_id: int, intent: Mapping[str, Any]
) -> Stored:
    """Nobody knows what the processor did: the reply shows the object pending, and the worker looks again."""
    async with exchange.instance.db.transaction("pending") as db:
        ctx = exchange.ctx(db, await instance_now(db))
        if not await operations.take(db, ctx.account.account_id, operation_id):
            return await _as_stored(exchange, db)
        reply = render(exchange.route, await handler.pending(ctx, intent), ctx)
        await _close(exchange, ctx, db, reply)
        await operations.unknown(db, ctx.account.account_id, operation_id, ctx.now, ctx.now + FIRST_LOOK)
    exchange.instance.after_commit(ctx)
    exchange.instance.hints.wake()
    return reply


async def _as_stored(exchange: Exchange, db: Connection) -> Stored:
    """What another finisher wrote. An error that gave the key back left no reply: the next try will tell."""
    held = await idempotency.find(db, exchange.claim) if exchange.claim is not None else None
    if held is None or held.reply is None:
        raise ServiceUnavailable(headers={"Retry-After": "1"})
    return held.reply
