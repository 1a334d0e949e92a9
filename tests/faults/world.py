"""An instance with its shops, customers and receivers: what the parts of the suite play with."""

from __future__ import annotations

import asyncio
import hashlib
import random
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bursar.core.tokens import derive_key
from bursar.processors.protocol import Rejected, Unknown
from bursar.processors.simulator_client import SimulatorClient
from tests.events.receivers import Received, Receiver, receiver
from tests.faults.instance import Instance, running
from tests.faults.shop import PATIENCE_S, Account, NeverAnswered, Shop
from tests.faults.witness import Witness
from tests.support.wire import Reply, wire

OK, DECLINED, AT_ONCE, PROOF = "4242424242424242", "4000000000000002", "4000000000000077", "4100000000000019"
QUIET_S = 120.0  # far more than it takes on a machine that is busy with something else

# Work that is due by a moment, by kind; of deliveries only those that somebody will attempt.
_DUE = """
SELECT * FROM (
    SELECT 'callback' AS kind, count(*) AS n FROM simulator.callback WHERE delivered_at IS NULL AND due_at <= $1
    UNION ALL
    SELECT 'processing', count(*) FROM simulator.payment WHERE state = 'processing' AND settles_at <= $1
    UNION ALL
    SELECT 'inbox', count(*) FROM processor_inbox WHERE state = 'new' AND due_at <= $1
    UNION ALL
    SELECT 'operation', count(*) FROM operation WHERE state IN ('calling', 'unknown') AND due_at <= $1
    UNION ALL
    SELECT 'event', count(*) FROM event WHERE NOT fanned_out
    UNION ALL
    SELECT 'ipn', count(*) FROM ipn WHERE NOT fanned_out
    UNION ALL
    SELECT 'delivery', count(*)
    FROM delivery d
    JOIN destination p USING (account_id, place)
    WHERE d.next_attempt_at <= $1 AND NOT p.paused
    UNION ALL
    SELECT 'payment', count(*) FROM payment WHERE due_at <= $1 AND account_id > 1000
    UNION ALL
    SELECT 'case', count(*) FROM review_case WHERE due_at <= $1
    UNION ALL
    SELECT 'command', count(*) FROM worker_command WHERE done_at IS NULL
) AS due
WHERE n > 0
"""


class NotQuiet(Exception):
    """Work that is due was not done in time."""


@dataclass
class World:
    instance: Instance
    shop: Shop
    customer: SimulatorClient
    receiver: Receiver
    witness: Witness
    processor_secret: bytes = b""
    accounts: list[Account] = field(default_factory=list)

    # Accounts and endpoints ----------------------------------------------------------------------------------------

    async def open_account(self, kind: str = "merchant", **fields: Any) -> Account:
        body = {"kind": kind, "name": f"A {kind}", "email": f"{secrets.token_hex(6)}@example.com", **fields}
        reply = await self.shop.ops("POST", "/accounts", body, key=self.shop.new_key("account"), op="open_account")
        assert reply.status == 201, reply.body
        given = reply.data
        made = Account(given["account_id"], given["merchant_id"], given["secret_key"])
        self.accounts.append(made)
        self.witness.note("secret", value=made.secret_key)
        return made

    async def endpoint(self, who: Account, behaviour: str = "ok", events: tuple[str, ...] = ("*",)) -> int:
        """A webhook of the account at the receiver; the path says how it behaves."""
        url = self.receiver.url(f"/{behaviour}/{who.merchant_id}/{len(who.endpoints)}")
        if behaviour == "tls":  # which is not spoken there
            url = url.replace("http://", "https://")
        body = {"url": url, "events": list(events)}
        key = self.shop.new_key("hook")
        reply = await self.shop.write(who, "POST", "/v2/webhooks", body, key=key, op="endpoint")
        assert reply.status == 201, reply
        made = reply.data["webhook"]
        who.endpoints[made["id"]] = made["secret"]
        self.witness.note("endpoint", who=who.merchant_id, id=made["id"], url=url, secret=made["secret"])
        self.witness.note("secret", value=made["secret"])
        return int(made["id"])

    # What shops do -------------------------------------------------------------------------------------------------

    def order(self, key: str, amount: float = 49.99, **fields: Any) -> dict[str, Any]:
        return {
            "identifier": key, "amount": amount, "currency": "GBP", "details": "Two books",
            "ipn_url": self.receiver.url("/ok/ipn"), "success_url": "http://shop.example/paid",
            "cancel_url": "http://shop.example/cancelled", "customer_name": "Ada Lovelace",
            "customer_email": "ada@example.com", **fields,
        }  # fmt: skip

    async def create(self, who: Account, key: str | None = None, **fields: Any) -> dict[str, Any]:
        key = key or self.shop.new_key("create")
        reply = await self.shop.write(
            who, "POST", "/v2/hosted-payments", self.order(key, **fields), key=key, op="create"
        )
        assert reply.status == 201, reply
        made: dict[str, Any] = reply.data
        return made

    async def create_link(self, who: Account, **fields: Any) -> dict[str, Any]:
        key = self.shop.new_key("link")
        body = {"amount": 25, "currency": "GBP", "details": key, **fields}
        reply = await self.shop.write(who, "POST", "/v2/payment-links", body, key=key, op="link")
        assert reply.status == 201, reply
        made: dict[str, Any] = reply.data["payment_link"]
        return made

    async def refund(self, who: Account, payment_id: int, amount: float | None = None) -> Reply:
        key = self.shop.new_key("refund")
        body: dict[str, Any] = {"reason": key} if amount is None else {"reason": key, "amount": amount}
        return await self.shop.write(who, "POST", f"/v2/transactions/{payment_id}/refund", body, key=key, op="refund")

    async def cancel(self, who: Account, payment_id: int) -> Reply:
        key = self.shop.new_key("cancel")
        return await self.shop.write(who, "POST", f"/v2/transactions/{payment_id}/cancel", {}, key=key, op="cancel")

    async def fault(self, operation: str, kind: str, count: int = 1) -> None:
        await self.customer.order_fault(operation, kind, count)

    # What customers do ---------------------------------------------------------------------------------------------

    async def start(self, checkout_url: str) -> Reply:
        return await self.shop.page("POST", checkout_url + "/start", op="start")

    async def started(self, payment: dict[str, Any]) -> str:
        """The customer goes to the processor's page; the processor's reference."""
        await self.start(payment["checkout_url"])
        return await self.reference_of(payment["id"])

    async def reference_of(self, payment_id: int) -> str:
        rows = await self.instance.fetch("SELECT processor_reference AS r FROM payment WHERE id = $1", payment_id)
        assert [row["r"] is not None for row in rows] == [True], f"payment {payment_id} was not started"
        return str(rows[0]["r"])

    async def pay(self, reference: str, card: str = OK) -> str:
        """On the processor's page; pressed again, under the same key, until the processor has answered."""
        key = secrets.token_hex(8)
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                state = await self.customer.pay(reference, card, key=key)
            except Rejected as refusal:
                return refusal.code
            except Unknown:
                if time.monotonic() > until:
                    raise NeverAnswered(f"paying {reference}") from None
                await asyncio.sleep(0.1)
            else:
                self.witness.note("paid", reference=reference, status=state.status, captured=state.captured_minor)
                return state.status

    async def paid(self, who: Account, card: str = OK, **fields: Any) -> dict[str, Any]:
        """A payment that is known to be paid."""
        payment = await self.create(who, **fields)
        await self.pay(await self.started(payment), card)
        await self.status_is(payment["id"], "succeeded")
        return payment

    # Time and quiet ------------------------------------------------------------------------------------------------

    async def status_is(self, payment_id: int, status: str, within_s: float = QUIET_S) -> None:
        async with asyncio.timeout(within_s):
            while True:
                rows = await self.instance.fetch("SELECT status FROM payment WHERE id = $1", payment_id)
                if rows and rows[0]["status"] == status:
                    return
                await asyncio.sleep(0.03)

    async def advance(self, seconds: int) -> None:
        self.witness.note("clock", seconds=seconds)
        reply = await self.shop.ops("POST", "/clock/advance", {"seconds": seconds}, key=self.shop.new_key("clock"))
        assert reply.status < 300, reply.body

    async def jump(self, seconds: int) -> None:
        """The instance's clock is suddenly ahead; whatever that makes due is done by the worker as it finds it."""
        self.witness.note("clock", seconds=seconds)
        [before] = await self.instance.fetch("SELECT clock_offset FROM instance")
        await self.instance.fetch(
            "UPDATE instance SET clock_offset = greatest(clock_offset, $1 + $2 * interval '1 s')",
            before["clock_offset"],
            seconds,
        )
        await self.instance.fetch("SELECT pg_notify('bursar_wake', '')")  # or it would take a poll to find it

    async def seen_through(self, task: asyncio.Task[None], within_s: float = PATIENCE_S + 60) -> None:
        """Until a task ends whose customers wait for answers. The clock jumps when all there is to wait for is the next
        look at what became of a call, which may be minutes away.
        """
        until = time.monotonic() + within_s
        while not (await asyncio.wait([task], timeout=0.2))[0]:
            if time.monotonic() > until:
                raise NotQuiet(f"customers still wait for an answer after {within_s:.0f} s")
            busy = (await self.due()).keys() - {"delivery"}  # no customer waits for those, and some take for ever
            if not busy and (pause := await self._next_look()) is not None:
                await self.jump(pause)
        await task

    async def _next_look(self) -> int | None:
        [row] = await self.instance.fetch(
            """
            SELECT ceil(extract(epoch FROM min(due_at) - instance_now()))::bigint AS s FROM operation
            WHERE state IN ('calling', 'unknown')
            """
        )
        return None if row["s"] is None else max(1, row["s"])

    async def due(self, ahead_s: int = 0) -> dict[str, int]:
        [row] = await self.instance.fetch("SELECT instance_now() + $1 * interval '1 s' AS now", ahead_s)
        return {each["kind"]: each["n"] for each in await self.instance.fetch(_DUE, row["now"])}

    async def quiet(self, within_s: float = QUIET_S, ahead_s: int = 0) -> None:
        """Until nothing is due; with `ahead_s`, the clock is moved over what falls due in that time."""
        until = time.monotonic() + within_s
        while left := await self.due():
            if time.monotonic() > until:
                raise NotQuiet(f"still due after {within_s:.0f} s: {left}")
            await asyncio.sleep(0.04)
        if ahead_s and await self.due(ahead_s):
            await self.advance(ahead_s)
            await self.quiet(max(1.0, until - time.monotonic()))


def _noting(witness: Witness) -> Any:
    def note(received: Received) -> None:
        witness.note(
            "delivery",
            path=received.path,
            headers=received.headers,
            body=received.body.decode(errors="replace"),
            digest=hashlib.sha256(received.body).hexdigest(),
        )

    return note


@asynccontextmanager
async def world(
    seed: int,
    database_settings: dict[str, str] | None = None,
    place: Path | None = None,
    *,
    proxied: bool = False,
    **settings: str,
) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        proxy_seed = seed if proxied else None
        instance = await stack.enter_async_context(running(database_settings, place, proxy_seed, **settings))
        sink = await stack.enter_async_context(receiver())
        calls = await stack.enter_async_context(wire(instance.port, timeout_s=12.0))
        witness = Witness(instance.directory / "witness.jsonl")
        stack.callback(witness.close)
        sink.on_request = _noting(witness)
        pepper = bytes.fromhex(instance.environment["BURSAR_KEY_PEPPER"])
        secret = derive_key(pepper, "bursar processor simulator")
        customer = SimulatorClient(instance.simulator_url, secret, 10.0)
        shop = Shop(calls, witness, random.Random(seed))
        yield World(instance, shop, customer, sink, witness, secret)
