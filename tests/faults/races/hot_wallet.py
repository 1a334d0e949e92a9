"""One wallet, 32 clients, each posting the next debit when the last was answered."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

from tests.faults.races.aftermath import PROCESSES, available, judge
from tests.faults.report import Report
from tests.support.house import house
from tests.support.wire import Reply

SECONDS = {"push": 6, "full": 60, "soak": 300}
CLIENTS = 32
# What a machine of two cores of its own does; a push shares its machine, and is not held to it.
LEAST_PER_S, P99_MS = 300, 250


async def run(tier: str, seed: int) -> Report:
    del seed
    report = Report("hot wallet")
    async with house(*PROCESSES) as serving:
        merchant = await serving.open_account()
        path = f"/accounts/{merchant.merchant_id}/wallet-adjustments"
        opened = await serving.ops("POST", path, {"currency": "GBP", "amount": 1_000_000, "bucket": "available"})
        assert opened.status == 201, opened
        replies: list[Reply] = []
        until = time.monotonic() + SECONDS[tier]

        async def client() -> None:
            while time.monotonic() < until:
                replies.append(
                    await serving.ops("POST", path, {"currency": "GBP", "amount": -1, "bucket": "available"})
                )

        started = time.monotonic()
        await asyncio.gather(*(client() for _ in range(CLIENTS)))
        rate = len(replies) / (time.monotonic() - started)
        times = sorted(reply.took_s * 1000 for reply in replies)
        p99 = times[int(len(times) * 0.99)]
        report.count("debits", len(replies))
        bad = Counter(reply.status for reply in replies if reply.status != 201)
        report.expect(not bad, f"answers that are no success: {bad}")
        report.notes.append(f"{rate:.0f} debits a second, p99 {p99:.0f} ms")
        if tier != "push":
            report.expect(rate >= LEAST_PER_S, f"only {rate:.0f} debits a second")
            report.expect(p99 <= P99_MS, f"p99 is {p99:.0f} ms")
        left = await available(serving, merchant)
        report.expect(left == 1_000_000 - len(replies), f"{left} is left after {len(replies)} debits of one")
        await judge(serving, report)
    return report
