"""Posting payments: through the ledger, by hand in SQL, and in a ledger whose accounts are rows. One run, one server.

    python -m bench.ledger

A payment of 100.00 with a processing fee and an application fee: one journal, four entries, two wallets, two unsettled
parts. 32 clients. Spread: 1,000 shops and 1,000 platforms. Hot: the same shops, one platform in every payment.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any

import asyncpg
import uvloop

from bench import report
from bench.ledger import scripts
from bench.load import Result
from bench.report import Case
from bench.stage import Stage, stage
from bursar.db.pool import Database
from bursar.ledger import audit, journals
from bursar.ledger.lines import Journal
from bursar.ledger.post import post
from bursar.ledger.writer import Writer

CLIENTS = 32
SHOPS = range(1, 1001)
PLATFORMS = range(1001, 2001)
HOT_PLATFORM = 2001
PEERS = ("by_hand.sql", "account_rows.sql")

_numbers = itertools.count(1)
_settles_at = datetime.now(UTC) + timedelta(days=2)


def run(seconds: float = 2.0, rounds: int = 2) -> dict[str, Any]:
    """Every case, its rounds interleaved with the others'; prints the table and returns the figures."""
    found: dict[str, list[Result]] = {}
    others = _busy_cores()
    with stage() as staged:
        asyncio.run(_prepare(staged))
        for _ in range(rounds):
            for name, measure in _measurements(staged, seconds).items():
                found.setdefault(name, []).append(measure())
        sound = asyncio.run(_sound(staged))
    cases = _cases(found)
    report.show(cases, f"The ledger, {CLIENTS} clients, payments a second")
    return {
        "figures": {case.name: round(case.best.per_second) for case in cases},
        "ratios": report.ratios(cases),
        "sound": sound,
        "cores_busy_beforehand": others,  # with the work of others: above a few tenths, the figures say little
    }


def _busy_cores(seconds: float = 1.0) -> float:
    """How many cores other programs keep busy."""

    def ticks() -> tuple[int, int]:
        cpu = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        return sum(cpu), cpu[3] + cpu[4]

    total, idle = ticks()
    time.sleep(seconds)
    total_after, idle_after = ticks()
    return round((os.cpu_count() or 1) * (1 - (idle_after - idle) / max(1, total_after - total)), 2)


def _measurements(staged: Stage, seconds: float) -> dict[str, Callable[[], Result]]:
    def ours(hot: bool, grouped: bool) -> Callable[[], Result]:
        return lambda: uvloop.run(_ours(staged, seconds, hot=hot, grouped=grouped))

    def peer(script: str) -> Callable[[], Result]:
        return lambda: staged.pgbench(script, CLIENTS, seconds)

    # Spread and hot of one kind stand side by side, so that whatever else the machine does meets both.
    where = (("spread", scripts.SPREAD), ("hot", scripts.HOT))
    found: dict[str, Callable[[], Result]] = {}
    for grouped, label in ((True, "grouped"), (False, "one transaction each")):
        found |= {f"{label}, {name}": ours(name == "hot", grouped) for name, _ in where}
    for one, label in ((True, "by hand, one statement"), (False, "by hand, statements")):
        found |= {f"{label}, {name}": peer(scripts.by_hand(who, one_statement=one)) for name, who in where}
    return found | {f"accounts as rows, {name}": peer(scripts.account_rows(who)) for name, who in where}


def _cases(found: dict[str, list[Result]]) -> list[Case]:
    """Each case with what it is held against; the goals are those of the ledger, the rest is for information."""
    held: dict[str, tuple[str, str, float | None]] = {
        "grouped, spread": ("accounts as rows, spread", "ledger_spread_vs_account_rows", 4.0),
        "grouped, hot": ("grouped, spread", "ledger_hot_vs_spread", 0.9),
        "one transaction each, spread": ("by hand, one statement, spread", "ledger_single_vs_one_statement", None),
        "one transaction each, hot": ("by hand, one statement, hot", "ledger_single_hot_vs_one_statement", None),
        "by hand, one statement, hot": ("by hand, one statement, spread", "by_hand_hot_vs_spread", None),
        "accounts as rows, hot": ("grouped, hot", "account_rows_hot_vs_ledger_hot", None),
    }
    cases = []
    for name, rounds in found.items():
        floor, ratio, goal = held.get(name, (None, None, None))
        cases.append(Case(name, rounds, floor=floor, ratio=ratio, goal=goal))
    return cases


async def _prepare(staged: Stage) -> None:
    """The peers' tables, and our wallets, so that nobody's first payment counts more than the others."""
    connection = await asyncpg.connect(staged.urls.owner)
    for name in PEERS:
        await connection.execute(files("bench.ledger").joinpath(name).read_text())
    await connection.close()
    db = await Database.open(staged.urls.service, size=1)
    owners = [*SHOPS, *PLATFORMS, HOT_PLATFORM]
    opening = [
        journals.adjustment(account_id=owner, adjustment_id=owner, currency="GBP", amount=1_000_000) for owner in owners
    ]
    for start in range(0, len(opening), 500):
        await post(db, opening[start : start + 500])
    await db.close()


def payment(hot: bool) -> Journal:
    return journals.payment(
        account_id=random.choice(SHOPS),
        transaction_id=next(_numbers),
        currency="GBP",
        amount=10_000,
        processing_fee=270,
        application_fee=500,
        platform_id=HOT_PLATFORM if hot else random.choice(PLATFORMS),
        settles_at=_settles_at,
    )


async def _ours(staged: Stage, seconds: float, *, hot: bool, grouped: bool) -> Result:
    db = await Database.open(staged.urls.service, size=8, wait_s=30)
    writer = Writer(db)

    async def single(journal: Journal) -> Any:
        async with db.transaction() as connection:
            return await post(connection, [journal])

    do = writer.post if grouped else single
    await _load(lambda: do(payment(hot)), 0.5)
    result = await _load(lambda: do(payment(hot)), seconds)
    await db.close()
    return result


async def _load(do: Callable[[], Awaitable[Any]], seconds: float) -> Result:
    times: list[float] = []
    started = time.perf_counter()

    async def client() -> None:
        began = time.perf_counter()
        while began < started + seconds:
            await do()
            ended = time.perf_counter()
            times.append(ended - began)
            began = ended

    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    rate = len(times) / (time.perf_counter() - started)
    times.sort()
    return Result(rate, times[len(times) // 2] * 1000, times[int(len(times) * 0.99)] * 1000, len(times), {})


async def _sound(staged: Stage) -> bool:
    """What was posted under load is audited like any other ledger."""
    async with audit.session(staged.urls.service) as session:
        return (await audit.verify(session)).ok
