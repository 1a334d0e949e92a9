"""Batched writes: one transaction for all requests of a route that wait together.

A bad row never fails its neighbours: when the shared transaction fails, each row is run again alone. When its
connection is lost, all are tried again, and each row's key settles whether the first try was committed after all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import asyncpg

from bursar.core.crashpoints import crashpoint
from bursar.core.errors import ApiError, DuplicateRequest, ServiceUnavailable
from bursar.db.clock import instance_now
from bursar.db.group import GroupCommit
from bursar.db.pool import Connection, Queryable, Record, persist
from bursar.db.rows import Rows
from bursar.events import outbox
from bursar.http import idempotency, metrics
from bursar.http.context import Ctx
from bursar.http.envelope import Answer
from bursar.http.exchange import Exchange
from bursar.http.idempotency import Claim, Held, Stored
from bursar.http.reply import render
from bursar.http.routes import Batched, Prepared


class Batches:
    """One group commit per batched route of this process."""

    def __init__(self, *, together: bool) -> None:
        self._together = together
        self._groups: dict[str, GroupCommit[tuple[Exchange, Any], Stored]] = {}
        self._drawing: dict[str, asyncio.Task[Record]] = {}

    def foresee(self, exchange: Exchange, handler: Batched) -> None:
        """Draws for a request that may be alone in its batch, while it is still being judged."""
        name = exchange.route.name
        group = self._groups.get(name)
        if group is None or group.at_work or name in self._drawing:
            return
        drawing = asyncio.create_task(_draw(exchange.instance.db, handler.sequence, 1))
        exchange.drawing = self._drawing[name] = drawing
        drawing.add_done_callback(lambda _: self._drawn(name))

    def _drawn(self, name: str) -> None:
        drawing = self._drawing.pop(name)
        if not drawing.cancelled():
            drawing.exception()  # of a request that was refused meanwhile nobody else would look

    async def run(self, exchange: Exchange, handler: Batched) -> Stored:
        body = await _body_unless_held(exchange)
        if isinstance(body, Stored):
            return body
        if not self._together:
            return await _alone(handler, exchange, body)
        group = self._groups.get(exchange.route.name)
        if group is None:
            group = GroupCommit(lambda items: _flush(handler, items))
            self._groups[exchange.route.name] = group
        return await group.submit((exchange, body))


async def _body_unless_held(exchange: Exchange) -> Any:
    """A used key is answered before its body is judged, so a bad body is looked at only when the key is new."""
    try:
        return exchange.admitted_body()
    except ApiError:
        async with exchange.instance.db.acquire() as db:
            assert exchange.claim is not None
            held = await idempotency.find(db, exchange.claim)
            if held is None:
                raise
            return exchange.answer(held, await instance_now(db))


async def _flush(handler: Batched, items: Sequence[tuple[Exchange, Any]]) -> Sequence[Stored | Exception]:
    metrics.batch_rows.observe(len(items))
    try:
        return await persist(lambda: _together(handler, items))
    except ServiceUnavailable as unavailable:
        return [unavailable] * len(items)
    except Exception as error:
        if len(items) == 1:
            return [error]
    results: list[Stored | Exception] = []
    for exchange, body in items:
        try:
            results.append(await _alone(handler, exchange, body))
        except Exception as error:  # each request gets its own answer
            results.append(error)
    return results


async def _alone(handler: Batched, exchange: Exchange, body: Any) -> Stored:
    [result] = await persist(lambda: _together(handler, [(exchange, body)]))
    if isinstance(result, Exception):
        raise result
    return result


async def _together(handler: Batched, items: Sequence[tuple[Exchange, Any]]) -> list[Stored | Exception]:
    instance = items[0][0].instance
    batch = _Batch(handler, items)
    foreseen = await _foreseen(items)
    async with instance.db.acquire() as db:
        batch.prepare(db, foreseen or await _draw(db, handler.sequence, len(items)))
        crashpoint("batch.before_commit")
        if not await batch.write_at_once(db):
            async with db.transaction():
                await batch.write(db)
                crashpoint("batch.before_commit")
            await batch.answer_held(db)
        crashpoint("batch.after_commit")
    for position in batch.written:
        instance.after_commit(batch.contexts[position])
    return [result for result in batch.results if result is not None]


async def _draw(db: Queryable, sequence: str, count: int) -> Record:
    """Ids and the time come first, so that a reply's bytes are known when its row is written."""
    drawn = await db.fetchrow("SELECT moment, ids FROM batch_draw($1::text::regclass, $2)", sequence, count)
    assert drawn is not None
    return drawn


async def _foreseen(items: Sequence[tuple[Exchange, Any]]) -> Record | None:
    """What was drawn ahead, once, for a request that is alone after all."""
    exchange = items[0][0]
    drawing, exchange.drawing = exchange.drawing, None
    return await drawing if drawing is not None and len(items) == 1 else None


NOT_SO_SIMPLE = "BU001"  # what the database says when not every row and key of a statement was new


@lru_cache
def _at_once(rows: Rows) -> str:
    """Keys, rows and events in one statement, which is its own transaction: all of them, or none."""
    return f"""
    WITH patience AS MATERIALIZED ({idempotency.PATIENCE}),
    claimed AS ({idempotency.NEW.insert(1, after="patience")} RETURNING 1),
    told AS ({outbox.EVENTS.insert(2)}),
    written AS ({rows.insert(3)} RETURNING 1)
    SELECT batch_complete((SELECT count(*) FROM claimed), (SELECT count(*) FROM written), cardinality($1))
    """  # noqa: S608 - declared pieces


class _Batch:
    """The rows of one shared transaction, by position."""

    def __init__(self, handler: Batched, items: Sequence[tuple[Exchange, Any]]) -> None:
        self.handler = handler
        self.items = items
        self.contexts: list[Ctx] = []
        self.prepared: dict[int, Prepared] = {}
        self.replies: dict[int, Stored] = {}
        self.held: list[int] = []
        self.written: list[int] = []
        self.results: list[Stored | Exception | None] = [None] * len(items)

    def claim(self, position: int) -> Claim:
        claim = self.items[position][0].claim
        assert claim is not None
        return claim

    def prepare(self, db: Connection, drawn: Record) -> None:
        now, ids = drawn
        for position, (exchange, body) in enumerate(self.items):
            exchange.tried.add(now)
            ctx = exchange.ctx(db, now)
            ctx.id = ids[position]
            self.contexts.append(ctx)
            try:
                prepared = self.handler.prepare(ctx, body)
            except ApiError as error:
                self.results[position] = error
                continue
            self.prepared[position] = prepared
            self.replies[position] = render(exchange.route, prepared.answer, ctx)

    async def write_at_once(self, db: Connection) -> bool:
        """All of it in one statement; False, and nothing written, when there is a conflict to be looked at."""
        rows, positions = self.handler.rows, list(self.prepared)
        if rows is None or not positions:
            return rows is not None
        now = self.contexts[0].now
        try:
            await db.execute(
                _at_once(rows),
                [idempotency.new_row(self.claim(position), self.replies[position], now) for position in positions],
                [event for position in positions for event in self.contexts[position].events],
                [rows.row(self.prepared[position].values or {}) for position in positions],
            )
        except asyncpg.LockNotAvailableError:
            return False
        except asyncpg.PostgresError as error:
            if error.sqlstate != NOT_SO_SIMPLE:
                raise
            return False
        for position in positions:
            self.results[position] = self.replies[position]
        self.written = positions
        return True

    async def write(self, db: Connection) -> None:
        positions = list(self.prepared)
        if not positions:
            return
        free = await idempotency.claim_many(
            db,
            [self.claim(position) for position in positions],
            [self.replies[position] for position in positions],
            self.contexts[0].now,
        )
        fresh = [position for index, position in enumerate(positions) if index in free]
        self.held = [position for index, position in enumerate(positions) if index not in free]
        if not fresh:
            return
        outcomes = await self.handler.apply(db, [self.prepared[position].row for position in fresh])
        refused: list[Claim] = []
        for position, outcome in zip(fresh, outcomes, strict=True):
            await self._settle(db, position, outcome, refused)
        if refused:
            await idempotency.release_many(db, refused)
        await outbox.write(db, [event for position in self.written for event in self.contexts[position].events])

    async def _settle(
        self, db: Connection, position: int, outcome: Answer | ApiError | None, refused: list[Claim]
    ) -> None:
        if isinstance(outcome, ApiError):
            refused.append(self.claim(position))
            self.results[position] = outcome
            return
        if outcome is None:
            self.results[position] = self.replies[position]
            self.written.append(position)
            return
        reply = render(self.items[position][0].route, outcome, self.contexts[position])
        await idempotency.correct(db, self.claim(position), reply)
        self.results[position] = reply

    async def answer_held(self, db: Connection) -> None:
        for position in self.held:
            exchange = self.items[position][0]
            claim = self.claim(position)
            held = await idempotency.find(db, claim)
            try:
                self.results[position] = _held_reply(held, exchange, self.contexts[position])
            except ApiError as error:
                self.results[position] = error


def _held_reply(held: Held | None, exchange: Exchange, ctx: Ctx) -> Stored:
    if held is None:
        raise DuplicateRequest
    return exchange.answer(held, ctx.now)
