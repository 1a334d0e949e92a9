"""The request pipeline: an empty authenticated read, and a signed empty write with its idempotency row.

Beside them: a bare handler of the same framework and server, and pgbench inserting the same row.
"""

from __future__ import annotations

from bench import load, report, requests
from bench.load import Result
from bench.report import Case, Part
from bench.stage import Server, Stage, stage

CONNECTIONS = 32
ROUNDS_MOST = 1  # for information: no goal hangs on these

# The row that a write leaves behind, one transaction each, with a reply as long as the real one.
INSERT_KEY = """
\\set n random(1, 9000000000000000)
INSERT INTO idempotency_key
    (account_id, family, scope, key, fingerprint, status, body, created_at, expires_at)
VALUES (1001, 'legacy', '1001 POST /v2/bench-batched', 'bench-' || (:n)::bigint,
        decode('9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08', 'hex'), 200,
        convert_to(repeat('x', 35), 'UTF8'), now(), now() + interval '1 day');
"""
BARE, FLOOR = "bare handler", "pgbench, the key's row alone"
AGAINST = {
    "empty read": {"empty_read_vs_bare_handler": BARE},
    "GET /account": {"account_vs_bare_handler": BARE},
    "empty write, one transaction each": {"local_write_vs_pgbench": FLOOR},
    "empty write, group commit": {"batched_write_vs_pgbench": FLOOR},
}


def run(seconds: float, times: int) -> Part:
    with stage() as staged:
        bare, app = staged.start("bare"), staged.start("app")
        secret = app.merchant()["secret_key"]
        seconds = min(seconds, 1.0)

        def get(server: Server, path: str) -> Result:
            return _load(staged, server, [requests.get(path, secret)], seconds)

        def post(path: str) -> Result:
            bodies = [b"{}"] * int(12_000 * seconds)
            return _load(staged, app, requests.signed_posts(path, secret, bodies), seconds)

        found = report.rounds(
            {
                BARE: lambda: get(bare, "/v2/bench-read"),
                "empty read": lambda: get(app, "/v2/bench-read"),
                "GET /account": lambda: get(app, "/v2/account"),
                FLOOR: lambda: staged.floor(INSERT_KEY, CONNECTIONS, seconds),
                "empty write, one transaction each": lambda: post("/v2/bench-local"),
                "empty write, group commit": lambda: post("/v2/bench-batched"),
            },
            min(times, ROUNDS_MOST),
        )
    cases = [Case(name, results, AGAINST.get(name, {})) for name, results in found.items()]
    return Part(f"The pipeline, {CONNECTIONS} connections, for information", cases)


def _load(staged: Stage, server: Server, wanted: list[bytes], seconds: float) -> Result:
    result = staged.measured(lambda: load.run(wanted, server.port, CONNECTIONS, seconds), api=server.pids)
    assert set(result.statuses) == {"200"}, result.statuses
    return result
