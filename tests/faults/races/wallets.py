"""Money that is asked for more often than it is there: refunds of one payment, and of several from one wallet."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable

import asyncpg

from tests.faults.races.aftermath import PROCESSES, available, judge
from tests.faults.races.twins import paid
from tests.faults.report import Report
from tests.support.house import House, house

SPENDINGS = {"brief": 2, "push": 50, "full": 500, "soak": 2000}
REFUNDS = {"brief": 4, "push": 50, "full": 500, "soak": 2000}
LONGEST_S = {"brief": 15, "push": 10, "full": 100, "soak": 2000}
Round = Callable[[House, random.Random, Report], Awaitable[None]]
AT_ONCE_SPENT, AT_ONCE_REFUNDED = 64, 32
REFUSALS = {
    (422, "refund_exceeds_transaction"), (422, "not_refundable"), (422, "insufficient_balance"),
    (503, "service_unavailable"),
}  # fmt: skip


async def run(tier: str, seed: int) -> Report:
    report = Report("double spending")
    chance = random.Random(seed)
    async with house(*PROCESSES) as serving:
        await _repeated(_spend, serving, SPENDINGS[tier], LONGEST_S[tier], chance, report)
        await _repeated(_refund, serving, REFUNDS[tier], LONGEST_S[tier], chance, report)
        await judge(serving, report)
    return report


async def _repeated(
    one: Round, serving: House, rounds: int, longest_s: float, chance: random.Random, report: Report
) -> None:
    until = time.monotonic() + longest_s
    for number in range(rounds):
        await one(serving, chance, report)
        if time.monotonic() > until:
            report.notes.append(f"stopped for lack of time after {number + 1} of {rounds} rounds")
            return


async def _spend(serving: House, chance: random.Random, report: Report) -> None:
    """A hundred pounds in the wallet, four payments of fifty, and 64 refunds of them at once, of 1 to 50 each."""
    merchant = await serving.open_account()
    payments = await asyncio.gather(*(paid(serving, merchant, 50.0) for _ in range(4)))
    spare = float(await available(serving, merchant) - 100)
    adjusted = {"currency": "GBP", "amount": -spare, "bucket": "available"}
    await serving.ops("POST", f"/accounts/{merchant.merchant_id}/wallet-adjustments", adjusted)
    asked = [(chance.choice(payments)["id"], chance.randint(1, 50)) for _ in range(AT_ONCE_SPENT)]
    replies = await asyncio.gather(
        *(
            serving.send(merchant, "POST", f"/transactions/{number}/refund", {"amount": pounds})
            for number, pounds in asked
        )
    )
    report.count("refunds from one wallet", len(replies))
    given = sum(pounds for (_, pounds), reply in zip(asked, replies, strict=True) if reply.status < 300)
    refused = Counter((reply.status, reply.code) for reply in replies if reply.status >= 300)
    report.expect(refused.keys() <= REFUSALS, f"refused: {refused}")
    report.expect(0 < given <= 100, f"{given} of 100 was spent")
    left = await available(serving, merchant)
    report.expect(left == 100 - given, f"{left} is left of 100 after {given} was spent")


async def _refund(serving: House, chance: random.Random, report: Report) -> None:
    """A payment of a hundred pounds, and 32 refunds of 1 to 60 at once."""
    merchant = await serving.open_account()
    await serving.ops(
        "POST", f"/accounts/{merchant.merchant_id}/wallet-adjustments",
        {"currency": "GBP", "amount": 1000, "bucket": "available"},
    )  # fmt: skip
    payment = await paid(serving, merchant)
    amounts = [chance.randint(1, 60) for _ in range(AT_ONCE_REFUNDED)]
    path = f"/transactions/{payment['id']}/refund"
    replies = await asyncio.gather(*(serving.send(merchant, "POST", path, {"amount": amount}) for amount in amounts))
    report.count("refunds", len(replies))
    refused = Counter((reply.status, reply.code) for reply in replies if reply.status >= 300)
    report.expect(refused.keys() <= REFUSALS, f"refused: {refused}")
    given = sum(amount for amount, reply in zip(amounts, replies, strict=True) if reply.status < 300)
    report.expect(0 < given <= 100, f"{given} of 100 was given back")
    counted = await _settled(serving, payment["id"])
    report.expect(counted == given * 100, f"{counted} was refunded and {given} was told")


async def _settled(serving: House, payment_id: int) -> int:
    owner = await asyncpg.connect(serving.urls.owner)
    try:
        return int(
            await owner.fetchval(
                "SELECT coalesce(sum(amount_minor), 0) FROM refund WHERE payment_id = $1 AND status <> 'failed'",
                payment_id,
            )
        )
    finally:
        await owner.close()
