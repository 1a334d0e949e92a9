"""Opposites at the same moment: a customer pays what its merchant cancels; more customers than a link has payments."""

from __future__ import annotations

import asyncio
import random
import time
from typing import TypeAlias

import asyncpg

from tests.faults.races.aftermath import PROCESSES, judge
from tests.faults.report import Report
from tests.support.house import House, house
from tests.support.service import Party, new_key
from tests.support.till import OK, order
from tests.support.wire import request

CANCELS = {"push": 50, "full": 500, "soak": 2000}
LINKS = {"push": 20, "full": 200, "soak": 1000}
LONGEST_S = {"push": 10, "full": 40, "soak": 2000}
SETTLED_S = 90.0
BUSY = 503  # a process that has more to do than it can answer soon; nothing has come of it
Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


async def run(tier: str, seed: int) -> Report:
    report = Report("opposites")
    chance = random.Random(seed)
    async with house(*PROCESSES) as serving:
        merchant = await serving.open_account()
        looking = await asyncpg.connect(serving.urls.owner)
        try:
            until = time.monotonic() + LONGEST_S[tier]
            for _ in range(CANCELS[tier]):
                if time.monotonic() < until:
                    await _cancelled_or_paid(serving, merchant, looking, chance, report)
            until = time.monotonic() + LONGEST_S[tier]
            for _ in range(LINKS[tier]):
                if time.monotonic() < until:
                    await _shared_link(serving, merchant, looking, chance, report)
        finally:
            await looking.close()
        await judge(serving, report)
    return report


async def _pay(serving: House, reference: str, after_s: float) -> tuple[int, str]:
    await asyncio.sleep(after_s)
    reply = await serving.ops("POST", f"/simulator/checkouts/{reference}/pay", {"card": OK})
    return reply.status, reply.data["status"] if reply.status == 200 else str(reply.code)


async def _cancelled_or_paid(
    serving: House, merchant: Party, looking: Connection, chance: random.Random, report: Report
) -> None:
    made = await serving.send(merchant, "POST", "/hosted-payments", order(f"race-{new_key()}"))
    payment = made.data
    if chance.random() < 0.7:
        path = payment["checkout_url"].partition(str(serving.port))[2]
        started = await serving.wire.send(request("POST", f"{path}/start", {}))
        report.expect(started.status == 303, f"the checkout did not start: {started.status}")

    async def cancel(after_s: float) -> tuple[int, str]:
        await asyncio.sleep(after_s)
        reply = await serving.send(merchant, "POST", f"/transactions/{payment['id']}/cancel", {})
        return reply.status, str(reply.code)

    paying = [_pay(serving, payment["payment_reference"], chance.uniform(0, 0.03)) for _ in range(2)]
    cancelling = [cancel(chance.uniform(0, 0.03)) for _ in range(3)]
    told = await asyncio.gather(*paying, *cancelling)
    report.count("cancelled or paid")
    report.expect(all(status < 500 or status == BUSY for status, _ in told), f"answers: {told}")
    status = await _final(looking, payment["id"])
    captures = await looking.fetchval(
        "SELECT count(*) FROM journal WHERE kind = 'payment' AND ref = $1", str(payment["id"])
    )
    if told_paid := any(answer == (200, "succeeded") for answer in told[:2]):
        report.expect(status == "succeeded", f"told succeeded, and it is {status}: {told}")
    if any(code == 200 for code, _ in told[2:]) and not told_paid:
        report.expect(status == "cancelled", f"told cancelled, and it is {status}: {told}")
    report.expect(status in ("succeeded", "cancelled", "failed"), f"it ended as {status}: {told}")
    report.expect(captures == (status == "succeeded"), f"{captures} captures of a payment that is {status}")


async def _final(looking: Connection, payment_id: int) -> str:
    """Its status once nothing more is to come, as far as waiting can tell."""
    until = time.monotonic() + SETTLED_S
    while True:
        status = str(await looking.fetchval("SELECT status FROM payment WHERE id = $1", payment_id))
        if status in ("succeeded", "cancelled", "failed") or time.monotonic() > until:
            return status
        await asyncio.sleep(0.05)


async def _shared_link(
    serving: House, merchant: Party, looking: Connection, chance: random.Random, report: Report
) -> None:
    """Sixteen customers, and a link that is paid so many times at the most; sometimes it is cancelled meanwhile."""
    most = chance.randint(1, 4)
    made = await serving.send(
        merchant, "POST", "/payment-links",
        {"amount": 25, "currency": "GBP", "details": "Deposit", "max_payments": most},
    )  # fmt: skip
    link = made.data["payment_link"]
    work = [_pay(serving, link["reference"], chance.uniform(0, 0.05)) for _ in range(16)]

    async def cancel() -> tuple[int, str]:
        await asyncio.sleep(chance.uniform(0, 0.1))
        reply = await serving.send(merchant, "PATCH", f"/payment-links/{link['id']}", {"status": "cancelled"})
        return reply.status, str(reply.code)

    told = await asyncio.gather(*work, *([cancel()] if chance.random() < 0.5 else []))
    report.count("shared links")
    report.expect(all(status < 500 or status == BUSY for status, _ in told), f"answers: {told}")
    paid = await looking.fetchval(
        "SELECT count(*) FROM payment WHERE link_id = $1 AND status = 'succeeded'", link["id"]
    )
    counted = await looking.fetchval("SELECT payments FROM payment_link WHERE id = $1", link["id"])
    report.expect(paid <= most, f"a link for {most} payments was paid {paid} times")
    report.expect(paid == counted, f"a link counts {counted} payments and has {paid}")
