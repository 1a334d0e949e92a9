"""Dry runs: the same handlers in one transaction that is always rolled back, with what would have happened.

Test keys act on the instance's fixture accounts, shown under the caller's own id; live keys on their own rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bursar.core.errors import ApiError, InvalidCredentials, ServiceUnavailable
from bursar.db.clock import instance_now
from bursar.db.pool import Connection
from bursar.events import outbox
from bursar.http.caller import Callers
from bursar.http.context import Caller, Ctx
from bursar.http.exchange import Exchange
from bursar.http.idempotency import Stored
from bursar.http.reply import failed, render
from bursar.http.routes import Batched, Local, Processor, Read

FIXTURE_MERCHANT, FIXTURE_PLATFORM, FIXTURE_CONNECTED = 1, 2, 3


async def stand_in(callers: Callers, caller: Caller) -> Caller:
    """The caller as the fixture account of its kind, under its own names."""
    fixture = await callers.account(FIXTURE_PLATFORM if caller.is_platform else FIXTURE_MERCHANT)
    if fixture is None:
        raise ServiceUnavailable("The sandbox fixture is missing.")
    owner = caller.owner
    shown = replace(fixture, public_id=owner.public_id, public_key=owner.public_key, client_key=owner.client_key)
    return replace(caller, owner=shown)


def refuse_test_key(caller: Caller) -> None:
    if caller.kind == "test":
        raise InvalidCredentials("Test keys work under /sandbox/v2 only.", details={"hint": "use /sandbox/v2"})


async def run(exchange: Exchange) -> Stored:
    async with exchange.instance.sandbox_db.acquire() as db:
        everything = db.transaction()
        await everything.start()
        try:
            ctx = exchange.ctx(db, await instance_now(db))
            return await _dry(exchange, ctx, db)
        finally:
            await everything.rollback()


async def _dry(exchange: Exchange, ctx: Ctx, db: Connection) -> Stored:
    try:
        result = await _result(exchange, ctx, db)
        await outbox.write(db, ctx.events)
        for witness in exchange.instance.witnesses:
            ctx.effects += await witness(db, ctx.account.account_id)
    except ApiError as error:
        return failed(error)
    return render(exchange.route, result, ctx)


async def _result(exchange: Exchange, ctx: Ctx, db: Connection) -> Any:
    handler = exchange.route.handler
    if isinstance(handler, Read):
        return await handler.handle(ctx, exchange.validated_query())
    body = exchange.admitted_body()
    if isinstance(handler, Local):
        return await handler.handle(ctx, body)
    if isinstance(handler, Processor):
        intent = await handler.begin(ctx, body)
        ctx.effects.append({"type": "processor_call", "operation": handler.kind})
        return await handler.finish(ctx, intent, await handler.dry_run(intent))
    assert isinstance(handler, Batched)
    ctx.id = await db.fetchval("SELECT nextval($1::text::regclass)", handler.sequence)
    prepared = handler.prepare(ctx, body)
    [outcome] = await handler.apply(db, [prepared.row])
    return prepared.answer if outcome is None else outcome
