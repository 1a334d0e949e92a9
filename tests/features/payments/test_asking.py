"""What the worker asks of a processor when callbacks come: about each payment once, however many are about it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from bursar.core.crypto import Opener, Sealer, Vault
from bursar.db.clock import instance_now
from bursar.db.embedded import Urls
from bursar.db.sweep import Desk
from bursar.features.payments import callbacks
from tests.support.service import Party
from tests.support.till import DECLINED, OK, Till, running_till

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def till(module_urls: Urls) -> AsyncIterator[Till]:
    """Without a worker: the tests do its work."""
    async with running_till(module_urls, worker=False) as running:
        yield running


@dataclass
class Passage:
    """A way to the simulator on which one sees what is asked."""

    url: str
    asked: list[str] = field(default_factory=list)


@asynccontextmanager
async def watched(simulator_url: str) -> AsyncIterator[Passage]:
    there = urlsplit(simulator_url)

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                if data.startswith(b"GET "):
                    passage.asked.append(data.split(b" ", 2)[1].decode())
                writer.write(data)
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, forth = await asyncio.open_connection(there.hostname, there.port)
        await asyncio.gather(pass_on(reader, forth), pass_on(back, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    passage = Passage(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    async with server:
        yield passage


def desk_of(till: Till, simulator_url: str) -> Desk:
    settings = till.service.settings.model_copy(update={"simulator_url": simulator_url})
    return Desk(
        db=till.service.db,
        settings=settings,
        vault=Vault(settings.key_pepper, Sealer(settings.seal_public_key)),
        opener=Opener(settings.seal_private_key),
        wake=lambda: None,
    )


async def told(till: Till, count: int) -> None:
    """Until so many callbacks wait in the inbox."""
    async with asyncio.timeout(20):
        while await till.service.db.fetchval("SELECT count(*) FROM processor_inbox WHERE state = 'new'") < count:
            await till.simulator.run_due()
            await asyncio.sleep(0.02)


async def test_a_payment_with_several_callbacks_is_asked_about_once(till: Till, merchant: Party) -> None:
    payments = [await till.create(merchant, f"order-{n}") for n in range(2)]
    references = [await till.started(payment) for payment in payments]
    for reference in references:
        await till.simulator.pay(reference, DECLINED, key="one")
        await till.simulator.pay(reference, OK, key="two")
    await told(till, 4)
    async with watched(till.service.settings.simulator_public_url) as passage:
        assert await callbacks.run(desk_of(till, passage.url), await instance_now(till.service.db)) == 4
    assert sorted(passage.asked) == sorted(f"/v1/payments/{reference}" for reference in references)
    assert await till.service.db.fetchval("SELECT count(*) FROM processor_inbox WHERE state = 'done'") == 4
    assert {await till.status(merchant, payment) for payment in payments} == {"succeeded"}
    assert await till.ipns(merchant) == ["transaction.failed", "transaction.succeeded"] * 2
    await till.books_agree()


async def test_what_is_known_already_is_not_written_again(till: Till, merchant: Party) -> None:
    payment = await till.create(merchant)
    await till.pay(payment)  # which asks by itself; the callback comes later
    await told(till, 1)
    version = "SELECT xmin::text FROM payment WHERE id = $1"
    before = await till.service.db.fetchval(version, payment["id"])
    url = till.service.settings.simulator_public_url
    assert await callbacks.run(desk_of(till, url), await instance_now(till.service.db)) == 1
    assert await till.service.db.fetchval(version, payment["id"]) == before
    assert await till.events(merchant) == ["transaction.created", "transaction.succeeded"]
