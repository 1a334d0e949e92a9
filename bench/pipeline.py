"""The request pipeline: an empty authenticated read, and a signed empty write with its idempotency row.

Beside them: a bare handler of the same framework and server, and pgbench inserting the same row.
"""

from __future__ import annotations

from bench import load, requests
from bench.load import Result
from bench.report import Case
from bench.stage import Server, Stage

CONNECTIONS = 32

# The row that a write leaves behind, one transaction each, with a reply as long as the real one.
INSERT_KEY = """
\\set n random(1, 9000000000000000)
INSERT INTO idempotency_key
    (account_id, family, scope, key, fingerprint, status, body, created_at, expires_at)
VALUES (1001, 'legacy', '1001 POST /v2/bench-batched', 'bench-' || (:n)::bigint,
        decode('9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08', 'hex'), 200,
        convert_to(repeat('x', 35), 'UTF8'), now(), now() + interval '1 day');
"""


def cases(stage: Stage, seconds: float, rounds: int) -> list[Case]:
    bare, app = stage.start("bare"), stage.start("app")
    idle_mib = app.resident_mib
    secret = app.operator("/accounts", {"kind": "merchant", "name": "Bench", "email": "bench@example.com"})[
        "secret_key"
    ]
    found: dict[str, list[Result]] = {}
    for _ in range(rounds):
        for name, result in _round(stage, bare, app, secret, seconds).items():
            found.setdefault(name, []).append(result)
    return [
        Case("bare handler, GET", found["bare_read"]),
        Case("authenticated read", found["read"], floor="bare handler, GET", ratio="read_vs_bare_handler", goal=0.5),
        Case("GET /account, one query", found["account"], floor="bare handler, GET", ratio="account_vs_bare_handler"),
        Case("pgbench, the key's row alone", found["insert"]),
        Case(
            "signed write, one transaction each",
            found["local"],
            floor="pgbench, the key's row alone",
            ratio="local_write_vs_pgbench",
        ),
        Case(
            "signed write, group commit",
            found["batched"],
            floor="pgbench, the key's row alone",
            ratio="batched_write_vs_pgbench",
        ),
        Case("API process, idle", [], mib=idle_mib, goal_mib=150),
        Case("API process, after load", [], mib=app.resident_mib, goal_mib=250),
    ]


def _round(stage: Stage, bare: Server, app: Server, secret: str, seconds: float) -> dict[str, Result]:
    writes = int(9000 * seconds)
    return {
        "bare_read": load.run([requests.get("/v2/bench-read", secret)], bare.port, CONNECTIONS, seconds),
        "read": load.run([requests.get("/v2/bench-read", secret)], app.port, CONNECTIONS, seconds),
        "account": load.run([requests.get("/v2/account", secret)], app.port, CONNECTIONS, seconds),
        "insert": stage.pgbench(INSERT_KEY, CONNECTIONS, seconds),
        "local": load.run(
            requests.signed_posts("/v2/bench-local", secret, [b"{}"] * writes), app.port, CONNECTIONS, seconds
        ),
        "batched": load.run(
            requests.signed_posts("/v2/bench-batched", secret, [b"{}"] * writes), app.port, CONNECTIONS, seconds
        ),
    }
