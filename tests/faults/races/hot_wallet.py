"""One wallet, 32 clients, each posting the next debit when the last was answered."""

from __future__ import annotations

import asyncio
import json

from bench import load

from tests.faults.races.aftermath import PROCESSES, available, judge
from tests.faults.report import Report
from tests.support.house import house
from tests.support.wire import request

SECONDS = {"push": 6.0, "full": 60.0, "soak": 300.0}
CLIENTS = 32
# The goals are those of a machine with two cores of its own; a push shares its machine, and is held to less.
LEAST_PER_S = {"push": 30, "full": 300, "soak": 300}
P99_MS = {"push": 5_000, "full": 250, "soak": 250}


async def run(tier: str, seed: int) -> Report:
    del seed
    report = Report("hot wallet")
    async with house(*PROCESSES) as serving:
        merchant = await serving.open_account()
        path = f"/accounts/{merchant.merchant_id}/wallet-adjustments"
        opened = await serving.ops("POST", path, {"currency": "GBP", "amount": 1_000_000, "bucket": "available"})
        assert opened.status == 201, opened
        headers = {"Authorization": f"Bearer {serving.operator_key}", "Content-Type": "application/json"}
        body = json.dumps({"currency": "GBP", "amount": -1, "bucket": "available"}).encode()
        debit = request("POST", f"/ops/v1{path}", headers, body)
        found = await asyncio.to_thread(load.run, [debit], serving.port, CLIENTS, SECONDS[tier], repeat=True)
        debits = found.statuses.get("201", 0)
        report.count("debits", debits)
        report.expect(found.statuses.keys() == {"201"}, f"answers: {found.statuses}")
        report.notes.append(f"{found.per_second:.0f} debits a second, p99 {found.p99_ms:.0f} ms")
        report.expect(found.per_second >= LEAST_PER_S[tier], f"only {found.per_second:.0f} debits a second")
        report.expect(found.p99_ms <= P99_MS[tier], f"p99 is {found.p99_ms:.0f} ms")
        left = await available(serving, merchant)
        report.expect(left == 1_000_000 - debits, f"{left} is left after {debits} debits of one")
        await judge(serving, report)
    return report
