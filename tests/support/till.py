"""A running instance with the processor simulator beside it: everything it takes to be paid, over real HTTP."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import asyncpg
import httpx

from bursar.db.embedded import Urls
from bursar.features.payments.audit import CHECKS
from bursar.ledger import audit
from bursar.processors.simulator import serve
from bursar.processors.simulator_client import SimulatorClient
from tests.support.service import Party, Service, running_service

OK, DECLINED, NO_MONEY = "4242424242424242", "4000000000000002", "4000000000009995"
THREE_D, THREE_D_DECLINED = "4000002760003184", "4000008400001629"
AT_ONCE, PROOF = "4000000000000077", "4100000000000019"


def order(identifier: str = "order-1", **fields: Any) -> dict[str, Any]:
    """A valid body of POST /hosted-payments."""
    return {
        "identifier": identifier, "amount": 49.99, "currency": "GBP", "details": "Two books",
        "ipn_url": "http://127.0.0.1:9/ipn", "success_url": "http://shop.example/paid",
        "cancel_url": "http://shop.example/cancelled", "customer_name": "Ada Lovelace",
        "customer_email": "ada@example.com", **fields,
    }  # fmt: skip


@dataclass
class Till:
    """The service with its simulator, and what a shop and its customers do with them."""

    service: Service
    simulator: SimulatorClient

    async def create(self, merchant: Party, identifier: str = "order-1", **fields: Any) -> dict[str, Any]:
        reply = await self.service.send(merchant, "POST", "/hosted-payments", order(identifier, **fields))
        assert reply.status_code == 201, reply.text
        made: dict[str, Any] = reply.json()["data"]
        return made

    async def pay(self, payment: dict[str, Any], card: str = OK, **fields: Any) -> dict[str, Any]:
        """The customer pays, as the operator plays it."""
        reply = await self.ops_pay(payment["payment_reference"], card, **fields)
        assert reply.status_code == 200, reply.text
        data: dict[str, Any] = reply.json()["data"]
        return data

    async def ops_pay(self, reference: str, card: str = OK, **fields: Any) -> httpx.Response:
        return await self.service.ops("POST", f"/simulator/checkouts/{reference}/pay", {"card": card, **fields})

    async def started(self, payment: dict[str, Any]) -> str:
        """The customer presses Pay; the processor's reference for what is opened there."""
        reply = await self.service.client.post(payment["checkout_url"] + "/start")
        assert reply.status_code == 303, reply.text
        assert reply.headers["location"].startswith(self.service.settings.simulator_public_url)
        reference = await self.service.db.fetchval(
            "SELECT processor_reference FROM payment WHERE id = $1", payment["id"]
        )
        assert isinstance(reference, str)
        return reference

    async def fault(self, operation: str, kind: str, count: int = 1) -> None:
        body = {"operation": operation, "kind": kind, "count": count}
        reply = await self.service.ops("POST", "/simulator/faults", body)
        assert reply.status_code == 201, reply.text

    async def order_start_fault(self) -> None:
        """The next checkout cannot be opened: an order that only tests have."""
        await self.simulator.order_fault("start", "error")

    async def refund(self, merchant: Party, payment: dict[str, Any], **fields: Any) -> httpx.Response:
        return await self.service.send(merchant, "POST", f"/transactions/{payment['id']}/refund", fields)

    async def cancel(self, merchant: Party, payment: dict[str, Any]) -> httpx.Response:
        return await self.service.send(merchant, "POST", f"/transactions/{payment['id']}/cancel", {})

    async def transaction(self, merchant: Party, payment: dict[str, Any]) -> dict[str, Any]:
        reply = await self.service.get(merchant, f"/transactions/{payment['id']}")
        assert reply.status_code == 200, reply.text
        data: dict[str, Any] = reply.json()["data"]["transaction"]
        return data

    async def status(self, merchant: Party, payment: dict[str, Any]) -> str:
        return str((await self.transaction(merchant, payment))["status"])

    async def wallet(self, merchant: Party, currency: str = "GBP") -> dict[str, Decimal]:
        """The buckets of a wallet, in major units."""
        row = await self.service.db.fetchrow(
            "SELECT main, pending, reserve FROM wallet WHERE account_id = $1 AND currency = $2",
            merchant.merchant_id,
            currency,
        )
        values = dict(row) if row else {"main": 0, "pending": 0, "reserve": 0}
        return {name: Decimal(value) / 100 for name, value in values.items()}

    async def available(self, merchant: Party, currency: str = "GBP") -> Decimal:
        found = await self.wallet(merchant, currency)
        return found["main"] + found["pending"]

    async def events(self, merchant: Party, *families: str) -> list[str]:
        """The types of the account's events, in order; of these families only, if any are named."""
        rows = await self.service.db.fetch(
            "SELECT type FROM event WHERE account_id = $1 ORDER BY id", merchant.merchant_id
        )
        wanted = families or ("transaction", "hosted_payment", "payment_link", "balance")
        return [row["type"] for row in rows if row["type"].partition(".")[0] in wanted]

    async def ipns(self, merchant: Party) -> list[str]:
        rows = await self.service.db.fetch(
            "SELECT type FROM ipn WHERE account_id = $1 ORDER BY id", merchant.merchant_id
        )
        return [row["type"] for row in rows]

    async def run_due(self) -> None:
        """Everything that is due now, the simulator's callbacks included."""
        reply = await self.service.ops("POST", "/jobs/run", {})
        assert reply.status_code == 200, reply.text

    async def advance(self, **time: float) -> None:
        factors = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86400}
        seconds = int(sum(factors[name] * value for name, value in time.items()))
        reply = await self.service.ops("POST", "/clock/advance", {"seconds": seconds})
        assert reply.status_code == 200, reply.text

    async def forget_callbacks(self) -> None:
        """Whatever the processor has told, or is about to tell, is lost."""
        owner = await self.owner()
        try:
            await self.simulator.run_due()
            await owner.execute("DELETE FROM processor_inbox")
            await owner.execute("DELETE FROM simulator.callback")
        finally:
            await owner.close()

    async def owner(self) -> asyncpg.Connection[Any]:
        """The database as its owner, for what only a fault could do."""
        return await asyncpg.connect(self.service.urls.owner)

    async def books_agree(self) -> None:
        """The processor's statement is what our clearing account says, and the audit finds nothing."""
        moved = sum(line["amount_minor"] for line in await self.simulator.statement())
        cleared = await self.service.db.fetchval(
            """
            SELECT coalesce(sum(leg.amount), 0)::bigint
            FROM journal, unnest(accounts, amounts) AS leg (account, amount)
            WHERE leg.account = 'processor_clearing'
            """
        )
        assert moved == -cleared
        assert await self.audited() == []

    async def audited(self) -> list[str]:
        """The checks that found something."""
        async with audit.session(self.service.urls.service) as session:
            report = await audit.verify(session, more=CHECKS)
        return [check.name for check in report.checks if not check.ok]


@asynccontextmanager
async def running_till(urls: Urls, *, worker: bool = True, **settings: Any) -> AsyncIterator[Till]:
    """The service, its worker and its simulator, each on a port of its own."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    chosen = {"simulator_port": listener.getsockname()[1], "processor_timeout_s": 1.0, **settings}
    async with (
        running_service(urls, worker=worker, **chosen) as service,
        serve.opened(service.settings) as (_, app),
    ):
        server = serve.http_server(app)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            while not server.started:  # noqa: ASYNC110 - uvicorn offers nothing to wait for
                await asyncio.sleep(0.005)
            yield Till(service, SimulatorClient.of(service.settings))
        finally:
            server.should_exit = True
            await serving
            listener.close()
