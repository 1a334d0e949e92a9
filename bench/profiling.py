"""`make bench-profile CASE=create`: where one case spends its time. A flame graph of the Python process (SVG, in
bench/results), its hottest functions, the processor time of each process, and PostgreSQL's dearest statements.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable
from pathlib import Path

import uvloop
from rich.table import Table

from bench import deliveries, load, outcomes, payments, receiver, requests, sampling
from bench.ledger import cases as ledger
from bench.ledger.wallets import HOT_PLATFORM, PLATFORMS, SHOPS, open_wallets
from bench.load import Result
from bench.report import RESULTS, console
from bench.stage import Stage, stage

Case = Callable[[Stage, float, str], Result]


def create(staged: Stage, seconds: float, folded: str) -> Result:
    app = staged.start("app", BENCH_PROFILE=folded)
    creating = payments.Creating.on(staged, app)
    asyncio.run(_forget_statements(staged))
    return creating.load(payments.CONNECTIONS, seconds)


def read(staged: Stage, seconds: float, folded: str) -> Result:
    return _get(staged, seconds, folded, "/v2/hosted-payments/{id}")


def list_(staged: Stage, seconds: float, folded: str) -> Result:
    return _get(staged, seconds, folded, "/v2/transactions?per_page=25")


def empty_read(staged: Stage, seconds: float, folded: str) -> Result:
    return _get(staged, seconds, folded, "/v2/bench-read")


def _get(staged: Stage, seconds: float, folded: str, path: str) -> Result:
    quiet = staged.serve()
    creating = payments.Creating.on(staged, quiet)
    creating.load(payments.CONNECTIONS, 0.5)
    ids = asyncio.run(payments.newest(staged, creating.merchant["merchant_id"]))
    app = staged.start("app", BENCH_PROFILE=folded)
    wanted = [requests.get(path.format(id=number), creating.merchant["secret_key"]) for number in ids]
    asyncio.run(_forget_statements(staged))
    take = lambda: load.run(wanted, app.port, payments.CONNECTIONS, seconds, repeat=True)  # noqa: E731
    return staged.measured(take, api=app.pids)


def outcome(staged: Stage, seconds: float, folded: str) -> Result:
    uvloop.run(outcomes.prepare(staged))
    worker = outcomes.start_worker(staged, BENCH_PROFILE=folded)
    asyncio.run(_forget_statements(staged))
    return outcomes.apply(staged, worker, int(outcomes.SLOWEST * seconds), hot=False)


def post(staged: Stage, seconds: float, folded: str) -> Result:
    uvloop.run(open_wallets(staged, [*SHOPS, *PLATFORMS, HOT_PLATFORM]))
    asyncio.run(_forget_statements(staged))
    with sampling.sampled(folded):
        return ledger.ours(staged, seconds, hot=False, grouped=True)


def deliver(staged: Stage, _: float, folded: str) -> Result:
    async def run() -> Result:
        desk = await deliveries.open_desk(staged)
        await _forget_statements(staged)
        try:
            return await deliveries.deliver(staged, desk, there, 0)
        finally:
            await desk.db.close()

    with receiver.running() as there, sampling.sampled(folded):
        return uvloop.run(run())


CASES: dict[str, Case] = {
    "create": create,
    "read": read,
    "list": list_,
    "empty-read": empty_read,
    "outcome": outcome,
    "ledger": post,
    "deliver": deliver,
}


async def _watch_statements(staged: Stage) -> None:
    connection = await staged.connect(staged.admin)
    await connection.execute("CREATE EXTENSION pg_stat_statements")
    await connection.close()


async def _forget_statements(staged: Stage) -> None:
    connection = await staged.connect(staged.admin)
    await connection.execute("SELECT pg_stat_statements_reset()")
    await connection.close()


async def _dearest_statements(staged: Stage, most: int = 10) -> list[tuple[float, int, float, str]]:
    connection = await staged.connect(staged.admin)
    rows = await connection.fetch(
        """
        SELECT total_exec_time AS spent, calls, mean_exec_time AS mean,
               left(regexp_replace(query, '\\s+', ' ', 'g'), 100)
        FROM pg_stat_statements
        WHERE query NOT LIKE '%pg_stat_statements%' AND query <> 'CHECKPOINT'
        ORDER BY total_exec_time DESC
        LIMIT $1
        """,
        most,
    )
    await connection.close()
    return [(row[0], row[1], row[2], row[3]) for row in rows]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.profiling", description=__doc__)
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--seconds", type=float, default=5.0)
    options = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    folded = RESULTS / f"{options.case}.folded"
    with stage(shared_preload_libraries="pg_stat_statements") as staged:
        asyncio.run(_watch_statements(staged))
        result = CASES[options.case](staged, options.seconds, str(folded))
        statements = asyncio.run(_dearest_statements(staged))
    _show(options.case, result, statements, folded)


def _show(name: str, result: Result, statements: list[tuple[float, int, float, str]], folded: Path) -> None:
    stacks = folded.read_text()
    functions = Table("function", "itself", "with callees", title=f"{name}: where Python was")
    for function, own, whole in sampling.hottest(stacks):
        functions.add_row(function, f"{own:.1%}", f"{whole:.1%}")
    dearest = Table("ms in all", "calls", "ms each", "statement", title="PostgreSQL's dearest statements")
    for spent, calls, mean, query in statements:
        dearest.add_row(f"{spent:.0f}", str(calls), f"{mean:.3f}", query)
    console.print(functions)
    console.print(dearest)
    spent_us = ", ".join(f"{who} {micros:.0f}" for who, micros in result.cpu_us.items())
    console.print(f"{result.per_second:,.0f}/s while sampled; processor time each, µs: {spent_us}")
    picture = folded.with_suffix(".svg")
    picture.write_text(sampling.flame_graph(stacks, f"{name}: {result.per_second:,.0f}/s while sampled"))
    console.print(f"Flame graph: {picture}")


if __name__ == "__main__":
    main()
