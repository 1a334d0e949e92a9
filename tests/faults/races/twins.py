"""One key, fifty copies at once: one effect, and every reply is the same bytes or 409 `duplicate_request`.

Through two API processes, one of which is killed now and then; once with group commit and once without.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import asyncpg

from tests.faults.races.aftermath import PROCESSES, judge
from tests.faults.report import Report
from tests.support.house import House, house
from tests.support.service import Party, new_key
from tests.support.till import OK, order
from tests.support.wire import Reply, request, signed

ROUNDS = {"brief": 8, "push": 100, "full": 1000, "soak": 5000}
ROUNDS_OF_ONE = 40  # merchant, who may have so many webhooks and no more
COPIES = 50
PATIENCE_S = 60.0
KILLS_AT_ONCE = 3
KILL_EVERY_S = 12.0  # after those: a process that keeps dying sooner after its start is given up by the supervisor
LONGEST_S = {"brief": 40, "push": 50, "full": 180, "soak": 4000}


@dataclass(frozen=True)
class Family:
    """A way to write: the request under a key, and the query that counts its effects."""

    name: str
    request: Callable[[str, str], bytes]  # of a word of its own, and the key
    counted: str
    replays: bool = True


async def run(tier: str, seed: int) -> Report:
    report = Report("same key at once")
    chance = random.Random(seed)
    for group_commit in ("true", "false"):
        async with house(*PROCESSES, group_commit=group_commit) as serving:
            await _race(serving, tier, chance, report)
            await judge(serving, report)
    return report


def _families(serving: House, merchant: Party) -> list[Family]:
    secret = merchant.secret_key

    def operator(word: str, key: str) -> bytes:
        body = {"currency": "GBP", "amount": 1, "bucket": "available", "note": word}
        headers = {"Authorization": f"Bearer {serving.operator_key}", "Content-Type": "application/json"}
        path = f"/ops/v1/accounts/{merchant.merchant_id}/wallet-adjustments"
        return request("POST", path, {**headers, "Idempotency-Key": key}, json.dumps(body).encode())

    def webhook(word: str, key: str) -> bytes:
        body = {"url": "https://example.com/hook", "events": ["*"], "description": word}
        return signed(secret, "POST", "/v2/webhooks", body, key=key)

    def ticket(word: str, key: str) -> bytes:
        return signed(secret, "POST", "/v2/support/tickets", {"subject": word, "body": "Help."}, key=key)

    return [
        Family(
            "hosted payment, batched",
            lambda word, key: signed(secret, "POST", "/v2/hosted-payments", order(word), key=key),
            "SELECT count(*) FROM payment WHERE identifier = $1",
        ),
        Family("ticket, local", ticket, "SELECT count(*) FROM support_ticket WHERE subject = $1"),
        Family("webhook, with a secret", webhook, "SELECT count(*) FROM webhook WHERE description = $1"),
        Family("operator", operator, "SELECT count(*) FROM journal WHERE note = $1"),
    ]


async def _race(serving: House, tier: str, chance: random.Random, report: Report) -> None:
    counting = await asyncpg.connect(serving.urls.owner)
    kills, killed_at, until = 0, 0.0, time.monotonic() + LONGEST_S[tier] / 2
    try:
        for number in range(ROUNDS[tier] // 2):
            if number % ROUNDS_OF_ONE == 0:
                families = _families(serving, await serving.open_account())
            family = families[number % len(families)]
            allowed = kills < KILLS_AT_ONCE or time.monotonic() - killed_at > KILL_EVERY_S
            kill = allowed and chance.random() < 0.1
            await _round(serving, counting, family, report, kill_after_s=chance.uniform(0, 0.05) if kill else None)
            if kill:
                kills, killed_at = kills + 1, time.monotonic()
            if time.monotonic() > until:
                report.notes.append(f"stopped for lack of time after {number + 1} rounds")
                break
    finally:
        await counting.close()


async def _round(serving: House, counting: Any, family: Family, report: Report, *, kill_after_s: float | None) -> None:
    word, key = f"twin-{new_key()}", new_key()
    content = family.request(word, key)
    copies = [asyncio.create_task(_until_final(serving, content)) for _ in range(COPIES)]
    if kill_after_s is not None:
        await asyncio.sleep(kill_after_s)
        os.kill(min(serving.api_pids()), signal.SIGKILL)  # the older of the two
        report.count("kills")
    replies = await asyncio.gather(*copies)
    again = await _until_final(serving, content)
    report.count("rounds")
    report.count("requests", COPIES + 1)
    effects = await counting.fetchval(family.counted, word)
    report.expect(effects == 1, f"{family.name}: {effects} effects of one key")
    good = {(reply.status, reply.body) for reply in (*replies, again) if reply.status < 300}
    report.expect(len(good) == 1, f"{family.name}: {len(good)} different replies {good}")
    rest = {(reply.status, reply.code) for reply in replies if reply.status >= 300}
    report.expect(rest <= {(409, "duplicate_request")}, f"{family.name}: {rest}")
    replayed = again.headers.get("idempotency-replayed") == "true"
    report.expect(replayed, f"{family.name}: the reply afterwards is {again.status}, and not a repeat")


async def _until_final(serving: House, content: bytes) -> Reply:
    """A careful client: again after a cut or a 503, until there is an answer that counts."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        reply = await serving.wire.persistent(content)
        if reply.status != 503:
            return reply
        await asyncio.sleep(0.1)
    raise AssertionError("nothing but 503")


async def paid(serving: House, merchant: Party, amount: float = 100.0) -> dict[str, Any]:
    """A payment that a customer has paid."""
    made = await serving.send(merchant, "POST", "/hosted-payments", order(f"paid-{new_key()}", amount=amount))
    assert made.status == 201, made
    reply = await serving.ops("POST", f"/simulator/checkouts/{made.data['payment_reference']}/pay", {"card": OK})
    assert reply.data["status"] == "succeeded", reply
    data: dict[str, Any] = made.data
    return data
