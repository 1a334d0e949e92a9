"""A running simulator for tests: its real application over real HTTP on loopback, and a shop that it can tell things.

The shop stands for the service: it has the address for callbacks, with the real inbox behind it, and a page that
customers return to.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import falcon
import falcon.asgi

from bursar.db.clock import instance_now, move_to
from bursar.db.embedded import Urls
from bursar.db.pool import Database
from bursar.processors import inbox
from bursar.processors.protocol import BankDetails, Callback, PaymentState, Payout, Refund, Started, StartPayment
from bursar.processors.simulator.serve import http_server, opened
from bursar.processors.simulator_client import SimulatorClient
from bursar.settings import Settings
from tests.support.service import test_settings

ACCOUNT_ID = 1042
GOOD_CARD = "4242424242424242"


def a_key() -> str:
    return secrets.token_hex(12)


@dataclass
class Rig:
    """What the contract needs of a processor under test: the processor, a customer, a clock, and ears."""

    processor: SimulatorClient
    db: Database
    settings: Settings
    shop_url: str
    heard: list[Callback] = field(default_factory=list)
    deaf: bool = False  # the shop answers callbacks with an error
    sent: list[StartPayment] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.keep = inbox.keeper(self.db)

    async def start(self, amount_minor: int = 10_000, currency: str = "GBP", key: str | None = None) -> Started:
        wanted = StartPayment(
            key=key or a_key(),
            account_id=ACCOUNT_ID,
            our_reference=f"PAY-{secrets.token_hex(4)}",
            amount_minor=amount_minor,
            currency=currency,
            description="Two tickets, stalls",
            merchant_name="Harbour Theatre",
            return_url=f"{self.shop_url}/returned",
        )
        self.sent.append(wanted)
        return await self.processor.start(wanted)

    async def pay(self, reference: str, card: str = GOOD_CARD, **more: Any) -> PaymentState:
        return await self.processor.pay(reference, card, **{"key": a_key(), **more})

    async def paid(self, amount_minor: int = 10_000) -> str:
        """A payment that succeeded."""
        started = await self.start(amount_minor)
        assert (await self.pay(started.reference)).status == "succeeded"
        return started.reference

    def refund_of(self, reference: str, amount_minor: int, key: str | None = None, currency: str = "GBP") -> Refund:
        return Refund(key=key or a_key(), payment_reference=reference, amount_minor=amount_minor, currency=currency)

    async def payout_to(self, account_number: str = "55779911", key: str | None = None, **more: Any) -> Payout:
        facts: dict[str, Any] = {"our_reference": f"PO-{secrets.token_hex(4)}", "amount_minor": 5_000, **more}
        return Payout(
            key=key or a_key(),
            account_id=ACCOUNT_ID,
            currency="GBP",
            bank=BankDetails(account_name="Harbour Theatre", sort_code="200000", account_number=account_number),
            arrives_at=await instance_now(self.db) + timedelta(days=2),
            **facts,
        )

    async def fault(self, operation: str, kind: str, count: int = 1) -> None:
        await self.processor.order_fault(operation, kind, count)

    async def hear(self) -> list[str]:
        """Everything that is due now was told; what was heard so far, by kind."""
        await self.processor.run_due()
        return [callback.kind for callback in self.heard]

    async def advance(self, seconds: int) -> None:
        await move_to(self.db, await instance_now(self.db) + timedelta(seconds=seconds))

    async def moved(self) -> dict[str, int]:
        """The statement: amounts by kind of movement."""
        return {line["kind"]: line["amount_minor"] for line in await self.processor.statement()}


class _Returned:
    async def on_get(self, _: falcon.asgi.Request, response: falcon.asgi.Response) -> None:
        response.content_type = falcon.MEDIA_HTML
        response.text = "<!doctype html><html lang=en><title>Shop</title><h1>Back at the shop</h1>"


class _Ears:
    """The address for callbacks; what comes is kept in the inbox and noted by the test."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig

    async def on_post(self, request: falcon.asgi.Request, response: falcon.asgi.Response) -> None:
        raw = await request.bounded_stream.read()
        if self._rig.deaf:
            response.status = 503
            return
        response.status = await inbox.receive(self._rig.keep, self._rig.processor, request.headers_lower, raw)
        if response.status == 200:
            self._rig.heard.append(self._rig.processor.read_callback(raw))


@asynccontextmanager
async def _serving(app: Any, listener: socket.socket) -> AsyncIterator[None]:
    server = http_server(app)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        while not server.started:  # noqa: ASYNC110 - uvicorn offers nothing to wait for
            await asyncio.sleep(0.005)
        yield
    finally:
        server.should_exit = True
        await task
        listener.close()


@asynccontextmanager
async def running_shop(urls: Urls, simulator_url: str, **more: Any) -> AsyncIterator[Rig]:
    """The shop alone, for a simulator that runs, or will, at an address."""
    listener = socket.create_server(("127.0.0.1", 0))
    shop_url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    values = {"processor_timeout_s": 0.5, "base_url": shop_url, "simulator_url": simulator_url, **more}
    settings = test_settings(urls, **values)
    db = await Database.open(urls.service, size=6, name="test shop")
    rig = Rig(SimulatorClient.of(settings), db, settings, shop_url)
    app = falcon.asgi.App()
    app.add_route(inbox.PATH.format(provider="simulator"), _Ears(rig))
    app.add_route("/returned", _Returned())
    try:
        async with _serving(app, listener):
            yield rig
    finally:
        await db.close()


@asynccontextmanager
async def running_simulator(urls: Urls, **more: Any) -> AsyncIterator[Rig]:
    """The shop and, in this process, the simulator."""
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    async with running_shop(urls, url, **more) as rig, opened(rig.settings) as (_, app), _serving(app, listener):
        yield rig
