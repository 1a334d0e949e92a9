"""Taking payments and looking at them, over HTTP: signed creates, one payment, a page of 25.

Beside them: pgbench inserting the rows that a create leaves behind, and bare handlers of the same framework that return
as many bytes.
"""

from __future__ import annotations

import asyncio
import json
import urllib.request
from dataclasses import dataclass, field
from typing import Any

from bench import checks, load, report, requests, rows
from bench.load import Result
from bench.report import Case, Part
from bench.stage import Server, Stage, stage

CONNECTIONS = 32
KEPT = 64  # replies that are compared with their replays
FASTEST = 12_000  # creates a second that there are requests for
STATEMENTS, SINGLE, SINGLE_ALONE = (
    "pgbench, three inserts",
    "pgbench, one statement",
    "pgbench, one statement, 1 client",
)
ACCOUNTS = 200  # whose lists are asked for in turn, so that hardly any two wait for the same
PAGE = "/v2/transactions?per_page=25"
BARE_READ, BARE_LIST = "bare handler, as many bytes as one", "bare handler, as many bytes as 25"


@dataclass
class Creating:
    """Creates of one merchant, with what was sent and answered."""

    stage: Stage
    app: Server
    merchant: dict[str, Any]
    answered: int = 0
    first: tuple[list[bytes], Result] | None = field(default=None, repr=False)

    @classmethod
    def on(cls, staged: Stage, app: Server) -> Creating:
        made = cls(staged, app, app.merchant())
        made.load(1, 0.2)
        return made

    def load(self, connections: int, seconds: float) -> Result:
        sent = requests.creates(self.merchant["secret_key"], int(FASTEST * seconds))
        take = lambda: load.run(sent, self.app.port, connections, seconds, keep=KEPT)  # noqa: E731
        result = self.stage.measured(take, api=self.app.pids)
        assert set(result.statuses) == {"201"}, result.statuses
        self.answered += result.answered
        self.first = sent, result
        return result

    def check(self) -> dict[str, str]:
        assert self.first is not None
        return {
            "replays": checks.replays_are_identical(self.app, *self.first),
            "creates": asyncio.run(checks.creates_are_rows(self.stage, self.merchant["merchant_id"], self.answered)),
        }


def run(seconds: float, times: int) -> Part:
    with stage() as staged:
        app = staged.serve()
        app.forget_peak()
        idle_mib = app.resident_mib
        creating = Creating.on(staged, app)
        floor_id = app.merchant("Floor")["merchant_id"]
        floor = asyncio.run(rows.floor_of_create(staged, creating.merchant["merchant_id"], floor_id))
        found = report.rounds(
            {
                STATEMENTS: lambda: staged.floor(floor.statements, CONNECTIONS, seconds),
                "create": lambda: creating.load(CONNECTIONS, seconds),
                SINGLE: lambda: staged.floor(floor.single, CONNECTIONS, seconds),
                SINGLE_ALONE: lambda: staged.floor(floor.single, 1, seconds),
                "create, 1 connection": lambda: creating.load(1, seconds),
            },
            times,
        )
        checked = creating.check()
        read = _reads(staged, app, creating, seconds, times)
        load_mib = app.peak_mib
        checked["floor"] = asyncio.run(checks.floor_is_rows(staged, floor_id))
        checked["books"] = asyncio.run(checks.books(staged))
    found |= read
    over_ms = _best_p50(found["create, 1 connection"]) - _best_p50(found[SINGLE_ALONE])
    against = {
        "create": {"create_vs_pgbench_statements": STATEMENTS, "create_vs_pgbench_single": SINGLE},
        "read one": {"read_vs_bare_handler": BARE_READ},
        "list 25": {"list_vs_bare_handler": BARE_LIST},
        "list 25, of many accounts": {"lists_vs_bare_handler": BARE_LIST},
    }
    return Part(
        f"Payments, {CONNECTIONS} connections",
        [Case(name, results, against.get(name, {})) for name, results in found.items()],
        figures={
            "create_p50_over_pgbench_ms": round(over_ms, 3),
            "memory_idle_mib": round(idle_mib, 1),
            "memory_load_mib": round(load_mib, 1),
        },
        checks={f"payments, {name}": said for name, said in checked.items()},
    )


def _best_p50(results: list[Result]) -> float:
    return max(results, key=lambda result: result.per_second).p50_ms


def _reads(staged: Stage, app: Server, creating: Creating, seconds: float, times: int) -> dict[str, list[Result]]:
    """Of the payments that were just made: one after the other, and the newest 25."""
    asyncio.run(staged.counted())
    secret = creating.merchant["secret_key"]
    page = _fetch(app, PAGE, secret)
    assert len(json.loads(page)["data"]) == 25
    ids = asyncio.run(newest(staged, creating.merchant["merchant_id"]))
    ones = [requests.get(f"/v2/hosted-payments/{number}", secret) for number in ids]
    one = _fetch(app, f"/v2/hosted-payments/{ids[0]}", secret)
    bare = staged.start("bare", BENCH_SIZES=f"{len(one)},{len(page)}")
    pages = [requests.get(PAGE, secret)]
    others = [requests.get(PAGE, other) for other in _merchants(app, ACCOUNTS)]

    def get(server: Server, wanted: list[bytes]) -> Result:
        take = lambda: load.run(wanted, server.port, CONNECTIONS, seconds, repeat=True)  # noqa: E731
        result = staged.measured(take, api=server.pids)
        assert set(result.statuses) == {"200"}, result.statuses
        return result

    return report.rounds(
        {
            BARE_READ: lambda: get(bare, ones),
            "read one": lambda: get(app, ones),
            BARE_LIST: lambda: get(bare, pages),
            "list 25": lambda: get(app, pages),
            "list 25, of many accounts": lambda: get(app, others),
        },
        times,
    )


def _merchants(app: Server, count: int) -> list[str]:
    """The keys of new merchants, each with a page of payments."""
    secrets = [app.merchant(f"Other {number}")["secret_key"] for number in range(count)]
    sent = [request for secret in secrets for request in requests.creates(secret, 25)]
    made = load.run(sent, app.port, CONNECTIONS, 30)
    assert made.statuses == {"201": len(sent)}, made.statuses
    return secrets


async def newest(staged: Stage, merchant_id: int) -> list[int]:
    connection = await staged.connect()
    try:
        found = await connection.fetch(
            "SELECT id FROM payment WHERE account_id = $1 ORDER BY id DESC LIMIT 1000", merchant_id
        )
    finally:
        await connection.close()
    return [row["id"] for row in found]


def _fetch(app: Server, path: str, secret: str) -> bytes:
    request = urllib.request.Request(
        f"http://127.0.0.1:{app.port}{path}", headers={"Authorization": f"Bearer {secret}"}
    )
    with urllib.request.urlopen(request, timeout=30) as reply:
        body: bytes = reply.read()
    return body
