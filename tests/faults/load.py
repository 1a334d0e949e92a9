"""A signed load over HTTP: customers of several shops who order, pay, come back, change their minds and are refunded.

Every choice is by dice with a seed. What misbehaves beside the service (the processor on order, half of the receivers,
callbacks that are forged or wrong) belongs to the load, too.
"""

from __future__ import annotations

import asyncio
import json
import random
import secrets
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from bursar.processors.protocol import Rejected, Unknown
from bursar.processors.signing import LinkKeys, sign_callback
from tests.faults.report import Report
from tests.faults.shop import LOST, Account, NeverAnswered
from tests.faults.world import AT_ONCE, DECLINED, OK, PROOF, World
from tests.support.wire import request

BAD = ("hang", "drip", "reset", "redirect", "gone", "busy", "fail", "tls", "huge", "dripping-body", "not-http")
FAULTS = (
    ("payment", "timeout"), ("payment", "error"), ("payment", "duplicate_callback"), ("payment", "late_callback"),
    ("payment", "out_of_order"), ("refund", "timeout"), ("refund", "error"), ("refund", "duplicate_callback"),
    ("refund", "late_callback"), ("cancel", "timeout"), ("cancel", "error"), ("cancel", "out_of_order"),
    ("cancel", "duplicate_callback"), ("start", "timeout"), ("start", "error"),
)  # fmt: skip


@asynccontextmanager
async def loaded(made: World, seed: int, *, shops: int = 4, customers: int = 6) -> AsyncIterator[Load]:
    """Customers come for as long as the block lasts, and whoever is there at its end is seen through to theirs. If the
    block fails or the suite is stopped, they are sent home.
    """
    load = Load(made, random.Random(seed + 1))
    await load.open(shops)
    running = asyncio.create_task(load.run(customers))
    try:
        yield load
        load.stopped.set()
        await made.instance.end_all_leases()
        await made.seen_through(running)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@dataclass
class Load:
    world: World
    dice: random.Random
    shops: list[Account] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    stopped: asyncio.Event = field(default_factory=asyncio.Event)
    known: list[dict[str, Any]] = field(default_factory=list)  # payments made, for callbacks that are wrong
    troubles: list[str] = field(default_factory=list)

    async def open(self, shops: int) -> None:
        """Shops with endpoints, half of which misbehave; some are connected to a platform."""
        platform = await self.world.open_account("platform")
        await self.world.endpoint(platform)
        for number in range(shops):
            fields = {"platform": platform.account_id} if number % 2 else {}
            shop = await self.world.open_account(**fields)
            await self.world.endpoint(shop)
            bad = BAD[number % len(BAD)]
            # Some never recover, and get few events: a failing place is tried one at a time, all its ten times.
            await self.world.endpoint(shop, bad, ("payment_link.paid",) if bad in ("fail", "tls") else ("*",))
            self.shops.append(shop)

    async def run(self, customers: int) -> None:
        """Until stopped; then whatever was begun is brought to its end."""
        await asyncio.gather(*(self._customers() for _ in range(customers)), self._mischief(), self._liars())

    async def _customers(self) -> None:
        while not self.stopped.is_set():
            shop = self.dice.choice(self.shops)
            journey = self.dice.choices((self._buy, self._link, self._again), weights=(8, 1, 1))[0]
            try:
                await journey(shop)
            except (NeverAnswered, AssertionError, TimeoutError) as error:
                self.troubles.append(f"{journey.__name__}: {type(error).__name__}: {str(error)[:200]}")

    # Journeys ------------------------------------------------------------------------------------------------------

    async def _buy(self, shop: Account) -> None:
        amount = self.dice.randrange(100, 20_000) / 100
        ipn = self.dice.choice(("ok", "ok", "ok", *BAD[:3]))
        payment = await self.world.create(shop, amount=amount, ipn_url=self.world.receiver.url(f"/{ipn}/ipn"))
        self.done["payments"] += 1
        self.known.append({"shop": shop, **payment})
        what = self.dice.random()
        if what < 0.08:
            return  # never comes back
        if what < 0.16:
            await self.world.cancel(shop, payment["id"])
            self.done["cancels"] += 1
            return
        reference = await self._to_processor(payment["checkout_url"], payment["id"])
        if reference is None:
            return
        closing = self.dice.random() < 0.06  # a cancel that meets the payment
        both = [self._pay(shop, payment, reference)]
        if closing:
            both.append(self._change_mind(shop, payment["id"]))
        await asyncio.gather(*both)
        await self._afterwards(shop, payment["id"], amount)

    async def _to_processor(self, url: str, payment_id: int) -> str | None:
        """Presses the button until the processor's page opens; a customer gives up in the end."""
        for _ in range(8):
            reply = await self.world.start(url)
            if (reply.headers.get("location") or "").startswith(self.world.instance.simulator_url):
                with suppress(AssertionError):
                    return await self.world.reference_of(payment_id)
            await asyncio.sleep(0.2)
        return None

    async def _pay(self, shop: Account, payment: dict[str, Any], reference: str) -> None:
        card = self.dice.choices((OK, DECLINED, AT_ONCE, PROOF), weights=(70, 15, 12, 3))[0]
        status = await self.world.pay(reference, card)
        self.done["card payments"] += 1
        if card == DECLINED and status == "requires_payment":
            await self.world.pay(reference, OK)
        if self.dice.random() < 0.5:
            await self.world.shop.page("GET", payment["checkout_url"] + "/return", op="return")

    async def _change_mind(self, shop: Account, payment_id: int) -> None:
        await self.world.cancel(shop, payment_id)
        self.done["cancels"] += 1

    async def _afterwards(self, shop: Account, payment_id: int, amount: float) -> None:
        reply = await self.world.shop.read(shop, f"/v2/transactions/{payment_id}")
        self.done["reads"] += 1
        if self.dice.random() < 0.3:
            await self.world.shop.read(shop, "/v2/balances")
            self.done["reads"] += 1
        if reply.status != 200 or reply.data["transaction"]["status"] != "succeeded":
            return
        if self.dice.random() < 0.35:
            part = round(amount / 2, 2) if self.dice.random() < 0.6 else None
            tries = [self.world.refund(shop, payment_id, part) for _ in range(self.dice.choice((1, 1, 2)))]
            for reply in await asyncio.gather(*tries):
                self.done["refunds" if reply.status == 200 else "refunds refused"] += 1
            await self.world.shop.read(shop, f"/v2/transactions/{payment_id}")

    async def _link(self, shop: Account) -> None:
        link = await self.world.create_link(shop)
        self.done["links"] += 1
        reply = await self.world.start(link["checkout_url"])
        if not (reply.headers.get("location") or "").startswith(self.world.instance.simulator_url):
            return
        query = "SELECT processor_reference AS r FROM payment WHERE link_id = $1 AND processor_reference IS NOT NULL"
        for row in await self.world.instance.fetch(query, link["id"]):
            await self.world.pay(row["r"])
            self.done["card payments"] += 1

    async def _again(self, shop: Account) -> None:
        """One order sent several times at once under one key, then with another body."""
        key = self.world.shop.new_key("twin")
        body = self.world.order(key, self.dice.randrange(100, 5000) / 100)
        path = "/v2/hosted-payments"
        copies = [
            self.world.shop.write(shop, "POST", path, body, key=key, op="create")
            for _ in range(self.dice.randrange(2, 6))
        ]
        await asyncio.gather(*copies)
        other = {**body, "amount": body["amount"] + 1}
        reply = await self.world.shop.write(shop, "POST", path, other, key=key, op="create")
        assert reply.status == 409, reply
        self.done["twins"] += len(copies)

    # Mischief ------------------------------------------------------------------------------------------------------

    async def _mischief(self) -> None:
        """Orders the simulator's faults, a few at a time."""
        while not self.stopped.is_set():
            operation, kind = self.dice.choice(FAULTS)
            with suppress(Unknown, Rejected):
                await self.world.fault(operation, kind)
                self.done["processor faults"] += 1
            with suppress(TimeoutError):
                async with asyncio.timeout(0.25):
                    await self.stopped.wait()

    async def _liars(self) -> None:
        """Callbacks that are forged, or signed and wrong: nothing may come of them but a case for a person."""
        keys = LinkKeys.of(self.world.processor_secret)
        while not self.stopped.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(0.4):
                    await self.stopped.wait()
            if not self.known:
                continue
            lie = self.dice.choice(("amount", "currency", "merchant", "unknown", "forged"))
            raw, event_id = await self._lie(lie)
            if raw is None:
                continue
            headers = sign_callback("0" * 64 if lie == "forged" else keys.callbacks, event_id, raw)
            sent = request(
                "POST", "/processors/simulator/callbacks", {"Content-Type": "application/json", **headers}, raw
            )
            with suppress(*LOST):
                reply = await self.world.shop.wire.send(sent)
                if lie == "forged" and reply.status != 401:
                    self.troubles.append(f"a forged callback was answered {reply.status}")
                if lie != "forged" and reply.status == 200:
                    self.world.witness.note("lie", event=event_id, lie=lie)
                self.done["false callbacks"] += 1

    async def _lie(self, lie: str) -> tuple[bytes | None, str]:
        payment = self.dice.choice(self.known[-50:])
        rows = await self.world.instance.fetch(
            "SELECT processor_reference AS r, amount_minor, currency FROM payment WHERE id = $1", payment["id"]
        )
        if not rows or rows[0]["r"] is None:
            return None, ""
        event_id = f"sev_lie{secrets.token_hex(8)}"
        facts: dict[str, Any] = {
            "event_id": event_id,
            "kind": "payment.succeeded",
            "account_id": payment["shop"].merchant_id,
            "our_reference": payment["payment_reference"],
            "reference": rows[0]["r"],
            "amount_minor": rows[0]["amount_minor"],
            "currency": rows[0]["currency"],
            "at": "2026-01-01T00:00:00Z",
        }
        changes: dict[str, dict[str, Any]] = {
            "amount": {"amount_minor": 1},
            "currency": {"currency": "USD"},
            "merchant": {"account_id": self.shops[0].merchant_id + 100_000},
            "unknown": {"reference": "sim_" + "0" * 20, "our_reference": "PAY-0000011"},
            "forged": {},
        }
        return json.dumps(facts | changes[lie]).encode(), event_id

    # Afterwards ----------------------------------------------------------------------------------------------------

    def heal_receivers(self) -> None:
        """Most of those that misbehaved recover; some keep failing, so that something is given up, too."""
        paths = {received.path for received in self.world.receiver.requests}
        for path in paths:
            if path.split("/")[1] not in ("ok", "gone", "fail", "tls"):
                self.world.receiver.mood[path] = "ok"
        for behaviour in BAD:
            self.world.receiver.mood.setdefault(f"/{behaviour}/ipn", "ok")

    def tell(self, report: Report) -> None:
        for what, count in sorted(self.done.items()):
            report.count(what, count)
        for trouble in self.troubles[:20]:
            report.broke(trouble)
