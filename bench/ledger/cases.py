"""The ledger's cases: 32 tasks of one process, and the peers in pgbench."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import uvloop

from bench import checks, report
from bench.ledger import pgledger, scripts
from bench.ledger.wallets import HOT_PLATFORM, PLATFORMS, SHOPS, open_wallets
from bench.load import Result, result_of
from bench.report import Case, Part
from bench.stage import Stage, stage
from bursar.db.pool import Database
from bursar.ledger import journals
from bursar.ledger.lines import Journal
from bursar.ledger.post import post
from bursar.ledger.writer import Writer

CLIENTS = 32
ROUNDS_MOST = 1  # of what is there for information
WHERE = (("spread", scripts.SPREAD), ("hot", scripts.HOT))

_numbers = itertools.count(1)
_settles_at = datetime.now(UTC) + timedelta(days=2)


def run(seconds: float, times: int) -> Part:
    with stage() as staged:
        uvloop.run(open_wallets(staged, [*SHOPS, *PLATFORMS, HOT_PLATFORM]))
        missing = asyncio.run(pgledger.prepare(staged))
        found = report.rounds(_held(staged, seconds, with_pgledger=not missing), times)
        found |= report.rounds(_for_information(staged, 1.0), min(times, ROUNDS_MOST))
        books = asyncio.run(checks.books(staged))
    return Part(
        f"The ledger in process, {CLIENTS} tasks",
        _cases(found),
        missing=missing,
        checks={"ledger, books": books},
    )


def _held(staged: Stage, seconds: float, *, with_pgledger: bool) -> dict[str, Callable[[], Result]]:
    """Spread and hot of one kind stand side by side, so that whatever else the machine does meets both."""
    found: dict[str, Callable[[], Result]] = {}
    for name, _ in WHERE:
        if with_pgledger:
            found[f"pgledger, {name}"] = partial(staged.floor, pgledger.script(hot=name == "hot"), CLIENTS, seconds)
    for name, who in WHERE:
        found[f"accounts as rows, {name}"] = partial(staged.floor, scripts.account_rows(who), CLIENTS, seconds)
    for name, _ in WHERE:
        found[f"ledger, {name}"] = partial(ours, staged, seconds, hot=name == "hot", grouped=True)
    return found


def _for_information(staged: Stage, seconds: float) -> dict[str, Callable[[], Result]]:
    found: dict[str, Callable[[], Result]] = {}
    for name, _ in WHERE:
        found[f"one transaction each, {name}"] = partial(ours, staged, seconds, hot=name == "hot", grouped=False)
    for one, label in ((True, "by hand, one statement"), (False, "by hand, statements")):
        for name, who in WHERE:
            script = scripts.by_hand(who, one_statement=one)
            found[f"{label}, {name}"] = partial(staged.floor, script, CLIENTS, seconds)
    return found


def _cases(found: dict[str, list[Result]]) -> list[Case]:
    """Each case with what it is held against."""
    held: dict[str, dict[str, str]] = {
        "ledger, spread": {
            "ledger_vs_pgledger_spread": "pgledger, spread",
            "ledger_vs_account_rows_spread": "accounts as rows, spread",
        },
        "ledger, hot": {
            "ledger_vs_pgledger_hot": "pgledger, hot",
            "ledger_vs_account_rows_hot": "accounts as rows, hot",
            "ledger_hot_vs_spread": "ledger, spread",
        },
        "one transaction each, spread": {"ledger_single_vs_one_statement": "by hand, one statement, spread"},
        "one transaction each, hot": {"ledger_single_hot_vs_one_statement": "by hand, one statement, hot"},
    }
    return [
        Case(
            name, rounds, {ratio: floor for ratio, floor in held.get(name, {}).items() if floor in found}
        )
        for name, rounds in found.items()
    ]  # fmt: skip


# Our side ------------------------------------------------------------------------------------------------------


def payment(hot: bool) -> Journal:
    return journals.payment(
        account_id=random.choice(SHOPS),
        transaction_id=next(_numbers),
        currency="GBP",
        amount=10_000,
        processing_fee=170,
        application_fee=500,
        platform_id=HOT_PLATFORM if hot else random.choice(PLATFORMS),
        settles_at=_settles_at,
    )


def ours(staged: Stage, seconds: float, *, hot: bool, grouped: bool) -> Result:
    return uvloop.run(_ours(staged, seconds, hot, grouped))


async def _ours(staged: Stage, seconds: float, hot: bool, grouped: bool) -> Result:
    db = await Database.open(staged.urls.service, size=8, wait_s=30)
    writer = Writer(db)

    async def single(journal: Journal) -> Any:
        async with db.transaction() as connection:
            return await post(connection, [journal])

    do = writer.post if grouped else single
    await _load(lambda: do(payment(hot)), 0.3)
    result = await staged.measured_async(lambda: _load(lambda: do(payment(hot)), seconds))
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
    return result_of(times, time.perf_counter() - started)
