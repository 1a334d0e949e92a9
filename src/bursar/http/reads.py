"""Reads. Those that are the same and wait together are answered by one look at the database and one rendering; but for
one object by its key, whose statement is shared as it is.

Whoever asks may join only a look that has not begun yet; what comes while one is under way shares the next. So a
reader always sees what was answered, to anybody, before they asked. There is no timer, and nothing is kept.
"""

from __future__ import annotations

import asyncio
from typing import TypeAlias

from bursar.core.errors import ApiError
from bursar.db.pool import persist
from bursar.http.context import Ctx
from bursar.http.exchange import Exchange
from bursar.http.idempotency import Stored
from bursar.http.reply import broken, failed, render
from bursar.http.routes import Read

# What was asked, by whom, of which account. Callers and accounts are told apart as objects: of two that were loaded
# one after the other, the later may know of a change.
_Question: TypeAlias = tuple[str, str, bytes, int, int]
_Asker: TypeAlias = "tuple[Exchange, asyncio.Future[Stored | Exception]]"


class Reads:
    def __init__(self) -> None:
        self._waiting: dict[_Question, list[_Asker]] = {}  # for a look that has not begun
        self._running: set[asyncio.Task[None]] = set()

    async def run(self, exchange: Exchange, query: bytes) -> Stored:
        question = (exchange.route.name, exchange.target_path, query, id(exchange.caller), id(exchange.account))
        asker: _Asker = (exchange, asyncio.get_running_loop().create_future())
        waiting = self._waiting.get(question)
        if waiting is None:
            self._waiting[question] = [asker]
            looking = asyncio.create_task(self._answer(question))
            self._running.add(looking)
            looking.add_done_callback(self._running.discard)
        else:
            waiting.append(asker)
        outcome = await asker[1]
        return outcome if isinstance(outcome, Stored) else broken(outcome, exchange.request_id, exchange.route)

    async def _answer(self, question: _Question) -> None:
        """Looks for as long as somebody waits. A task of its own: no client that goes away takes it along."""
        try:
            while askers := self._waiting[question]:
                self._waiting[question] = []
                outcome = await _outcome(askers[0][0])
                for _, answer in askers:
                    if not answer.done():  # else its client went away
                        answer.set_result(outcome)
        finally:
            del self._waiting[question]  # in the same step as the last look at it


async def look(exchange: Exchange, ctx: Ctx) -> Stored:
    handler, query = exchange.route.handler, exchange.validated_query()
    assert isinstance(handler, Read)
    return render(exchange.route, await persist(lambda: handler.handle(ctx, query)), ctx)


async def _outcome(exchange: Exchange) -> Stored | Exception:
    """The reply; or what broke, as a value: one exception is not raised in several tasks."""
    try:
        ctx = exchange.ctx(exchange.instance.db)
        ctx.shown = exchange.instance.shown
        return await look(exchange, ctx)
    except ApiError as error:
        return failed(error)
    except Exception as error:
        return error
