"""An API process killed between intent and outcome: the worker brings every payment to its true state."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

import httpx
import pytest

from bursar.db.clock import CLOCK_LOCK, instance_now
from tests.support import signing
from tests.support.service import OPERATOR_KEY, Party, new_key
from tests.support.till import DECLINED, OK, Till

pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass
class Victim:
    """An API process of its own, on the same database."""

    till: Till
    process: asyncio.subprocess.Process
    client: httpx.AsyncClient

    async def dies_during(self, request: httpx.Request) -> None:
        """In the silence that was ordered of the simulator: it has acted, and nobody has heard."""
        sending = asyncio.create_task(self.client.send(request))
        ordered = "SELECT EXISTS (SELECT FROM simulator.fault WHERE remaining > 0)"
        async with asyncio.timeout(10):
            while await self.till.service.db.fetchval(ordered):  # noqa: ASYNC110 - another process is at work
                await asyncio.sleep(0.02)
        assert not sending.done(), "it was answered too soon"
        self.process.send_signal(signal.SIGKILL)
        await self.process.wait()
        with pytest.raises(httpx.HTTPError):
            await sending

    async def dies_of(self, request: httpx.Request) -> None:
        """At the crash point that it was started with."""
        with pytest.raises(httpx.HTTPError):
            await self.client.send(request)
        assert await self.process.wait() == -signal.SIGKILL


@asynccontextmanager
async def victim(till: Till, crashpoint: str = "") -> AsyncIterator[Victim]:
    settings = till.service.settings
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("BURSAR_")},
        "BURSAR_ENV": "test",
        "BURSAR_BASE_URL": settings.public_url,
        "BURSAR_DATABASE_URL": settings.database_url.get_secret_value(),
        "BURSAR_OPERATOR_KEY": OPERATOR_KEY,
        "BURSAR_KEY_PEPPER": settings.key_pepper.hex(),
        "BURSAR_SEAL_PUBLIC_KEY": settings.seal_public_key.hex(),
        "BURSAR_SIMULATOR_PORT": str(settings.simulator_port),
        "BURSAR_LOG_LEVEL": "error",
        "BURSAR_CRASHPOINT": crashpoint,
    }
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "bursar", "api", "--fd", str(listener.fileno()), env=environment,
            pass_fds=[listener.fileno()],
        )  # fmt: skip
    try:
        async with httpx.AsyncClient(base_url=url, timeout=30) as client:
            assert (await client.get("/health/live")).status_code == 200
            yield Victim(till, process, client)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def leases_end(till: Till) -> None:
    """As if the dead process's time were over."""
    owner = await till.owner()
    try:
        await owner.execute("UPDATE operation SET lease_until = clock_timestamp() - interval '1 second'")
    finally:
        await owner.close()


async def test_a_refund(till: Till, merchant: Party) -> None:
    payment = await till.create(merchant)
    await till.pay(payment)
    await till.fault("refund", "timeout")
    path, raw, key = f"/v2/transactions/{payment['id']}/refund", b'{"amount": 10}', new_key()
    headers = {
        "Authorization": f"Bearer {merchant.secret_key}", "Content-Type": "application/json", "Idempotency-Key": key,
        **signing.legacy(merchant.secret_key, raw),
    }  # fmt: skip
    async with victim(till) as api:
        await api.dies_during(api.client.build_request("POST", path, content=raw, headers=headers))
    assert await till.available(merchant) == Decimal("39.04")  # set aside
    assert (await till.transaction(merchant, payment))["refunded_amount"] == 0
    twin = await till.service.client.post(path, content=raw, headers=headers)
    assert twin.json()["error"]["code"] == "duplicate_request"
    await leases_end(till)
    await till.run_due()
    assert (await till.transaction(merchant, payment))["refunded_amount"] == 10
    again = await till.service.client.post(path, content=raw, headers=headers)
    assert again.json()["data"]["refund"]["status"] == "succeeded"
    assert (await till.events(merchant)).count("transaction.refunded") == 1
    await till.books_agree()


async def test_a_cancellation(till: Till, merchant: Party) -> None:
    payment = await till.create(merchant)
    await till.service.client.post(payment["checkout_url"] + "/start")
    await till.fault("cancel", "timeout")
    path, raw = f"/v2/transactions/{payment['id']}/cancel", b"{}"
    headers = {
        "Authorization": f"Bearer {merchant.secret_key}", "Content-Type": "application/json",
        "Idempotency-Key": new_key(), **signing.legacy(merchant.secret_key, raw),
    }  # fmt: skip
    async with victim(till) as api:
        await api.dies_during(api.client.build_request("POST", path, content=raw, headers=headers))
    assert await till.status(merchant, payment) == "pending"
    await leases_end(till)
    await till.run_due()
    assert await till.status(merchant, payment) == "cancelled"
    assert await till.events(merchant) == ["transaction.created", "transaction.cancelled"]


async def test_on_the_way_to_the_processor(till: Till, merchant: Party) -> None:
    """The processor has a checkout that we know nothing of; the customer pays there all the same."""
    payment = await till.create(merchant)
    await till.simulator.order_fault("start", "timeout")
    async with victim(till) as api:
        path = payment["checkout_url"].removeprefix(till.service.base_url) + "/start"
        await api.dies_during(api.client.build_request("POST", path))
    assert (await till.transaction(merchant, payment))["np_main_trx"] is None
    reference = await till.service.db.fetchval(
        "SELECT reference FROM simulator.payment WHERE merchant_reference = $1", payment["payment_reference"]
    )
    await till.simulator.pay(reference, OK, key="one")
    await till.run_due()
    shown = await till.transaction(merchant, payment)
    assert (shown["status"], shown["np_main_trx"]) == ("succeeded", reference)
    assert await till.available(merchant) == Decimal("49.04")
    await till.books_agree()


async def test_while_the_customer_is_played(till: Till, merchant: Party) -> None:
    """The operator's own call: whatever came of it is learnt all the same."""
    payment = await till.create(merchant)
    await till.fault("payment", "timeout")
    async with victim(till) as api:
        request = api.client.build_request(
            "POST", f"/ops/v1/simulator/checkouts/{payment['payment_reference']}/pay", json={"card": OK},
            headers={"Authorization": f"Bearer {OPERATOR_KEY}"},
        )  # fmt: skip
        await api.dies_during(request)
    await leases_end(till)
    await till.run_due()
    assert await till.status(merchant, payment) == "succeeded"
    assert (await till.events(merchant)).count("transaction.succeeded") == 1
    await till.books_agree()


@pytest.mark.parametrize("crashpoint", ["learn.before_commit", "learn.after_commit"])
@pytest.mark.parametrize(("card", "status"), [(OK, "succeeded"), (DECLINED, "failed")])
async def test_a_played_customer_s_outcome_is_told_again(
    till: Till, merchant: Party, crashpoint: str, card: str, status: str
) -> None:
    """Who asks again is told what became of the card, not that the checkout is closed because it was paid."""
    payment = await till.create(merchant)
    path = f"/ops/v1/simulator/checkouts/{payment['payment_reference']}/pay"
    asked: dict[str, Any] = {
        "json": {"card": card},
        "headers": {"Authorization": f"Bearer {OPERATOR_KEY}", "Idempotency-Key": "1"},
    }
    async with victim(till, crashpoint) as api:
        await api.dies_of(api.client.build_request("POST", path, **asked))
    await till.run_due()  # the processor tells, too
    await leases_end(till)
    await till.run_due()
    again = await till.service.client.post(path, **asked)
    assert (again.status_code, again.json()["data"]["status"]) == (200, status)
    attempts = "SELECT count(*) FROM payment_attempt WHERE payment_id = $1"
    assert await till.service.db.fetchval(attempts, payment["id"]) == 1
    await till.books_agree()


async def test_an_order_to_move_the_clock(till: Till) -> None:
    """Farther than any operation may stay unknown: the order moves the clock over its own operation's head."""
    key = {"Authorization": f"Bearer {OPERATOR_KEY}", "Idempotency-Key": new_key()}
    asked: dict[str, Any] = {"json": {"seconds": 8 * 86_400}, "headers": key}
    before = await instance_now(till.service.db)
    owner = await till.owner()
    try:
        await owner.execute("SELECT pg_advisory_lock($1)", CLOCK_LOCK)  # the worker waits until the caller is dead
        async with victim(till, "call.before") as api:
            await api.dies_of(api.client.build_request("POST", "/ops/v1/clock/advance", **asked))
        await leases_end(till)
    finally:
        await owner.close()
    async with asyncio.timeout(60):
        while True:
            again = await till.service.client.post("/ops/v1/clock/advance", **asked)
            if again.status_code != 409:
                break
            assert again.json()["error"]["code"] == "duplicate_request"
            await asyncio.sleep(0.05)
    assert (again.status_code, again.headers["idempotency-replayed"]) == (200, "true")
    assert timedelta(days=8) <= await instance_now(till.service.db) - before < timedelta(days=8, minutes=5)
