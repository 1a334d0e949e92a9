"""`make bench-growth`: whether anything slows down with 10 million payments of one account and 100,000 accounts.

    python -m bench.growth [--rows 10000000] [--accounts 100000]

Two instances run side by side, one of them nearly empty. Each request is asked of both in turn, over one connection
each, so that both have the same chances; the tenth percentile counts, since what else the machine does can only add to
it. Creates go over 32 connections. A case may take 1.5 times as long; totals that are filtered and pages past row
10,000 are only reported.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from rich.table import Table

from bench import filling, load, requests
from bench.filling import NEWEST
from bench.report import console
from bench.stage import Server, Stage, stage
from bursar.db import tallies
from bursar.db.pool import Database
from bursar.features.payments import reference
from bursar.features.payments.audit import CHECKS
from bursar.ledger import audit, seals

ROWS, ACCOUNTS = 10_000_000, 100_000
SMALL_ROWS, SMALL_ACCOUNTS = 12_000, 100  # enough for a page 400
BYTES_A_ROW = 1_000  # on the disk, with indexes, journals, entries, events and the log of all that
LIMIT = 1.5
TIMES = 150  # of each request
SLOW_S = 0.2  # from here on, a few times are enough
CREATE_S = 3.0
CONNECTIONS = 32


@dataclass(frozen=True)
class Case:
    """A request of the merchant, or of the platform. One that is only reported has no limit."""

    path: str
    limited: bool = True
    platform: bool = False


CASES = {
    "read a payment": Case("/hosted-payments/{payment}"),
    "read a transaction": Case("/transactions/{payment}"),
    "transactions, newest": Case("/transactions"),
    "transactions, page 400": Case("/transactions?page=400"),
    "transactions, page in the middle": Case("/transactions?page={middle}", limited=False),
    "transactions, last page": Case("/transactions?page={last}", limited=False),
    "transactions, oldest": Case("/transactions?sort=id"),
    "transactions, by date": Case("/transactions?sort=-created_at"),
    "transactions, by status": Case("/transactions?sort=status"),
    "transactions, succeeded": Case("/transactions?status=succeeded", limited=False),
    "transactions, none pending": Case("/transactions?status=pending", limited=False),
    "transactions, of a minute": Case("/transactions?from={from}&to={to}"),
    "transactions, of a day": Case("/transactions?from={day}&to={day}", limited=False),
    "transactions, q is a reference": Case("/transactions?q={reference}"),
    "transactions, q is an identifier": Case("/transactions?q=order-77"),
    "transactions, q is an address": Case("/transactions?q=customer77%40example.com"),
    "transactions, q is in none": Case("/transactions?q=zebra"),
    "hosted payments, newest": Case("/hosted-payments"),
    "hosted payments, of an order": Case("/hosted-payments?identifier=order-77"),
    "balances": Case("/balances"),
    "wallet transactions, newest": Case("/wallet-transactions"),
    "wallet transactions, by date": Case("/wallet-transactions?sort=-created_at"),
    "wallet transactions, page 80": Case("/wallet-transactions?page=80"),
    "wallet transactions, fees": Case("/wallet-transactions?category=fee", limited=False),
    "events, newest": Case("/events"),
    "account": Case("/account"),
    "connected accounts, newest": Case("/connected-accounts", platform=True),
    "connected accounts, by date": Case("/connected-accounts?sort=created_at", platform=True),
    "connected accounts, in review": Case("/connected-accounts?status=review", limited=False, platform=True),
    "connected account": Case("/connected-accounts/{account}", platform=True),
}


@dataclass
class Side:
    """One of the two instances."""

    staged: Stage
    server: Server
    merchant: dict[str, Any]
    platform: dict[str, Any]
    names: dict[str, str]
    connection: http.client.HTTPConnection

    def ask(self, case: Case) -> float:
        """How long one reply takes, in milliseconds."""
        secret = (self.platform if case.platform else self.merchant)["secret_key"]
        started = time.perf_counter()
        self.connection.request(
            "GET", "/v2" + case.path.format(**self.names), headers={"Authorization": f"Bearer {secret}"}
        )
        reply = self.connection.getresponse()
        body = reply.read()
        took = (time.perf_counter() - started) * 1000
        if reply.status != 200:
            raise RuntimeError(f"GET {case.path}: {reply.status} {body[:200]!r}")
        return took

    def create(self) -> float:
        """Creates per second."""
        made = requests.creates(self.merchant["secret_key"], int(CREATE_S * 9_000))
        return load.run(made, self.server.port, CONNECTIONS, CREATE_S).per_second


def run(rows: int = ROWS, accounts: int = ACCOUNTS) -> dict[str, Any]:
    """How long each case takes at both sizes, in milliseconds (creates: microseconds a piece), and how they compare."""
    started = time.monotonic()
    _check_disk(rows)
    found: dict[str, dict[str, Any]] = {}
    with _side("small", SMALL_ROWS, SMALL_ACCOUNTS) as small, _side("large", rows, accounts) as large:
        filled = time.monotonic() - started
        for name, case in CASES.items():
            found[name] = _compared(*_timed(small, large, case), limited=case.limited)
        creates = [(small.create(), large.create()) for _ in range(3)]
        best = [1e3 / max(rates) for rates in zip(*creates, strict=True)]
        found["create, 32 connections"] = _compared(best[0], best[1], limited=True)
        audits = [asyncio.run(_audit(side.staged)) for side in (small, large)]
        for name in audits[0]:
            found[name] = _compared(audits[0][name], audits[1][name], limited=True)
    return {
        "rows": rows,
        "accounts": accounts,
        "fill_s": round(filled),
        "took_s": round(time.monotonic() - started),
        "cases": found,
        "over_the_limit": [name for name, figures in found.items() if figures["within_limit"] is False],
    }


def _compared(small: float, large: float, *, limited: bool) -> dict[str, Any]:
    ratio = large / small
    return {
        "small_ms": round(small, 3),
        "large_ms": round(large, 3),
        "ratio": round(ratio, 2),
        "within_limit": ratio <= LIMIT if limited else None,
    }


def _timed(small: Side, large: Side, case: Case) -> tuple[float, float]:
    slowest = max(side.ask(case) for side in (small, large) for _ in range(2)) / 1000
    times = TIMES if slowest < SLOW_S else 5
    pairs = [(small.ask(case), large.ask(case)) for _ in range(times)]
    few, many = (sorted(column)[times // 10] for column in zip(*pairs, strict=True))
    return few, many


@contextmanager
def _side(name: str, rows: int, accounts: int) -> Iterator[Side]:
    with stage() as staged:
        server = staged.serve()
        merchant = server.merchant(name)
        email = f"{name}@platform.example"
        platform = server.operator("/accounts", {"kind": "platform", "name": name, "email": email})
        console.print(f"{name}: {rows:,} payments, {accounts:,} accounts")
        plan = asyncio.run(filling.fill_payments(staged.urls.owner, merchant["merchant_id"], rows))
        account = asyncio.run(filling.fill_accounts(staged.urls.owner, platform, accounts))
        asyncio.run(_catch_up(staged))
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        yield Side(staged, server, merchant, platform, _names(plan) | {"account": account}, connection)
        connection.close()


def _names(plan: filling.Plan) -> dict[str, str]:
    """What stands for the braces in the cases' paths."""
    number, minute = plan.first_payment + plan.rows // 2, NEWEST - timedelta(hours=1)
    return {
        "payment": str(number),
        "reference": reference.make(reference.PAYMENT, number),
        "middle": str(plan.rows // 50),
        "last": str(plan.rows // 25),
        "from": f"{minute:%Y-%m-%dT%H:%M:%SZ}",
        "to": f"{minute:%Y-%m-%dT%H:%M:59Z}",
        "day": f"{minute:%Y-%m-%d}",
    }


async def _catch_up(staged: Stage) -> None:
    """What the worker would have done: lists counted, journals sealed."""
    db = await Database.open(staged.urls.service, size=2)
    while await tallies.count_all(db):
        pass
    while await seals.seal(db):
        pass
    await db.close()
    connection = await staged.connect(staged.urls.admin)
    await connection.execute("CHECKPOINT")
    await connection.close()


async def _audit(staged: Stage) -> dict[str, float]:
    """An audit's time, in microseconds a row that it looks at."""
    async with audit.session(staged.urls.owner) as session:
        rows = await session.fetchval(
            "SELECT (SELECT count(*) FROM payment) + (SELECT count(*) FROM journal)"
            " + (SELECT count(*) FROM wallet_entry)"
        )
        started = time.perf_counter()
        report = await audit.verify(session, more=CHECKS)
        took = time.perf_counter() - started
    if not report.ok:
        raise RuntimeError("; ".join(f"{check.name}: {check.detail}" for check in report.checks if not check.ok))
    return {"audit verify, each row (in µs)": took / rows * 1e6}


def _check_disk(rows: int) -> None:
    free, wanted = shutil.disk_usage(tempfile.gettempdir()).free, rows * BYTES_A_ROW + 2**30
    if free < wanted:
        raise SystemExit(f"{wanted / 2**30:.0f} GiB of disk are needed for {rows:,} rows, {free / 2**30:.0f} are free")


def show(made: dict[str, Any]) -> None:
    table = Table(title=f"{made['rows']:,} payments, {made['accounts']:,} accounts; {made['took_s']} s")
    for column in ("case", "small, ms", "large, ms", "times as long", f"limit {LIMIT}"):
        table.add_column(column, justify="left" if column == "case" else "right")
    verdict: Callable[[bool | None], str] = lambda within: {True: "within", False: "OVER", None: "reported"}[within]  # noqa: E731
    for name, figures in made["cases"].items():
        table.add_row(
            name, f"{figures['small_ms']:.2f}", f"{figures['large_ms']:.2f}", f"{figures['ratio']:.2f}",
            verdict(figures["within_limit"]),
        )  # fmt: skip
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.growth", description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS, help="payments of the one account")
    parser.add_argument("--accounts", type=int, default=ACCOUNTS, help="connected accounts of the one platform")
    options = parser.parse_args()
    made = run(options.rows, options.accounts)
    show(made)
    if made["over_the_limit"]:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
