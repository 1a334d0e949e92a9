"""Reads that are the same and wait together: who shares with whom, and that nobody misses what was written before."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import pytest_asyncio

from bursar.core.errors import NotFound
from bursar.http.caller import load_account
from bursar.http.context import Account, Caller, Ctx
from bursar.http.exchange import Exchange
from bursar.http.idempotency import Stored
from bursar.http.reads import Reads
from bursar.http.routes import Read, Route
from tests.http.sending import read, write
from tests.support.service import Party, Service, new_key

pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass
class Looks:
    """A read whose looks are counted, each of which waits until it is let on."""

    bursar: Service
    caller: Caller
    ends: Callable[[int], Awaitable[Any]] | None = None
    reads: Reads = field(default_factory=Reads)
    begun: list[asyncio.Event] = field(default_factory=list)

    async def handle(self, _: Ctx, __: None) -> Any:
        gate = asyncio.Event()
        self.begun.append(gate)
        number = len(self.begun)
        await gate.wait()
        return await self.ends(number) if self.ends else {"look": number}

    def ask(self, path: str = "/looks", query: bytes = b"", caller: Caller | None = None) -> asyncio.Task[Stored]:
        route = Route(method="GET", path="/looks", name="looks", summary="", tag="", handler=Read(self.handle))
        exchange = Exchange(self.bursar.instance, route, new_key(), "GET", path, {}, sandbox=False)
        exchange.caller = caller or self.caller
        exchange.account = exchange.caller.owner
        return asyncio.create_task(self.reads.run(exchange, query))

    async def until_begun(self, count: int) -> asyncio.Event:
        while len(self.begun) < count:  # noqa: ASYNC110 - a look at a list
            await asyncio.sleep(0)
        return self.begun[count - 1]

    async def replies(self, *asked: asyncio.Task[Stored]) -> list[bytes]:
        """Lets every look on until these are answered."""
        while not all(task.done() for task in asked):
            for gate in self.begun:
                gate.set()
            await asyncio.sleep(0)
        return [task.result().body for task in asked]


async def owner(bursar: Service, party: Party) -> Account:
    account = await load_account(bursar.db, party.merchant_id)
    assert account is not None
    return account


@pytest_asyncio.fixture(loop_scope="module")
async def looks(bursar: Service, merchant: Party) -> Looks:
    return Looks(bursar, Caller(1, "secret", frozenset(), await owner(bursar, merchant), merchant.secret_key))


def shown(look: int) -> bytes:
    return b'{"success":true,"data":{"look":%d}}' % look


class TestWhoShares:
    async def test_those_who_ask_while_a_look_is_under_way_share_the_next(self, looks: Looks) -> None:
        first = looks.ask()
        await looks.until_begun(1)
        later = [looks.ask() for _ in range(3)]
        assert await looks.replies(first, *later) == [shown(1), shown(2), shown(2), shown(2)]
        assert await looks.replies(looks.ask()) == [shown(3)]

    async def test_those_who_ask_at_once_share_one(self, looks: Looks) -> None:
        assert await looks.replies(*(looks.ask() for _ in range(3))) == [shown(1)] * 3

    async def test_only_if_they_ask_the_same_of_the_same(self, bursar: Service, looks: Looks) -> None:
        other = await owner(bursar, await bursar.open_account())
        same_again = Caller(1, "secret", frozenset(), looks.caller.owner, looks.caller.secret)
        asked = [
            looks.ask(),
            looks.ask("/looks/1"),
            looks.ask(query=b"page=2"),
            looks.ask(caller=Caller(2, "secret", frozenset(), other, "other")),
            looks.ask(caller=same_again),  # looked up anew: perhaps because something about it changed
        ]
        assert sorted(await looks.replies(*asked)) == [shown(number) for number in range(1, 6)]

    async def test_nothing_is_kept(self, looks: Looks) -> None:
        await looks.replies(looks.ask(), looks.ask())
        assert not looks.reads._waiting
        await asyncio.sleep(0)
        assert not looks.reads._running


class TestWhatGoesWrong:
    async def test_a_declared_error_is_everybody_s(self, looks: Looks) -> None:
        async def missing(_: int) -> None:
            raise NotFound

        looks.ends = missing
        asked = [looks.ask() for _ in range(3)]
        await looks.replies(*asked)
        assert [task.result().status for task in asked] == [404, 404, 404]

    async def test_a_defect_is_everybody_s_under_their_own_request_id(self, looks: Looks) -> None:
        defect = RuntimeError("a defect")

        async def broken(_: int) -> None:
            raise defect

        looks.ends = broken
        asked = [looks.ask() for _ in range(3)]
        bodies = await looks.replies(*asked)
        assert [task.result().status for task in asked] == [500, 500, 500]
        assert len(set(bodies)) == 3
        depth, trace = 0, defect.__traceback__
        while trace is not None:
            depth, trace = depth + 1, trace.tb_next
        assert depth <= 5, "raised once, and not again for each who waited"

    async def test_one_who_goes_away_takes_nobody_along(self, looks: Looks) -> None:
        first = looks.ask()
        await looks.until_begun(1)
        gone, stays = looks.ask(), looks.ask()
        await asyncio.sleep(0)
        gone.cancel()
        assert await looks.replies(first, stays) == [shown(1), shown(2)]
        assert gone.cancelled()

    async def test_nor_does_one_who_was_first(self, looks: Looks) -> None:
        first, second = looks.ask(), looks.ask()
        await looks.until_begun(1)
        first.cancel()
        assert await looks.replies(second) == [shown(1)]


class TestWhatWasWrittenBefore:
    @pytest.mark.parametrize("family", ["legacy", "commerce"])
    async def test_is_always_seen(self, bursar: Service, merchant: Party, family: str) -> None:
        """Many write and read at once, all the same question; each must see all that was answered before they asked."""
        text, written = new_key(), 0

        async def write_and_read() -> None:
            nonlocal written
            for _ in range(5):
                assert (await write(bursar, family, merchant, body={"text": text})).status_code == 201
                written += 1
                known = written
                reply = await read(bursar, family, merchant, text)
                assert reply.json()["data"]["count"] >= known

        await asyncio.gather(*(write_and_read() for _ in range(8)))
        assert (await read(bursar, family, merchant, text)).json()["data"]["count"] == 40

    async def test_and_replies_have_ids_of_their_own(self, bursar: Service, merchant: Party) -> None:
        replies = await asyncio.gather(*(read(bursar, "legacy", merchant, "x") for _ in range(8)))
        assert len({reply.headers["Service-Request-Id"] for reply in replies}) == 8
        assert len({reply.content for reply in replies}) == 1
