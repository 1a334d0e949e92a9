"""Connected accounts: whether lists and reads stay as quick with 100,000 accounts of one platform as with 100.

One connection asks over HTTP, one request after the other. Each account has a profile, a verification link and a bank
account, which readiness looks at. `plans` names the index that each query of a list or read used.
"""

from __future__ import annotations

import asyncio
import http.client
import statistics
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg

from bench.report import Part
from bench.stage import Server, Stage, stage

SMALL, LARGE = 100, 100_000
REQUESTS = 300
WARM = 30

CASES = {
    "list, newest 25": "/connected-accounts",
    "list, newest 100": "/connected-accounts?per_page=100",
    "list, in review": "/connected-accounts?status=review",
    "list, by date": "/connected-accounts?sort=created_at",
    "read one": "/connected-accounts/{account_id}",
    "GET /account": "/account",
}


def run(_: float, __: int) -> Part:
    """Median and p99 of each case at both sizes, how they compare, and the plans at the larger size."""
    with stage() as staged:
        server = staged.serve()
        few = asyncio.run(_fill(staged, server, SMALL))
        small = _measure(server, *few)
        platform, account = asyncio.run(_fill(staged, server, LARGE))
        large = _measure(server, platform, account)
        among = _measure(server, *few)
        plans = asyncio.run(_plans(staged, platform["merchant_id"]))
    ratio: dict[str, float | None] = {
        f"{name}: p50 of {LARGE:,} accounts over {SMALL}": round(large[name]["p50_ms"] / small[name]["p50_ms"], 2)
        for name in CASES
    }
    figures = {
        f"{SMALL} accounts": small,
        f"{LARGE} accounts": large,
        f"{SMALL} accounts beside {LARGE} of another platform": among,
        "plans": plans,
    }
    return Part("Accounts, 1 connection, for information", figures=ratio, more={"accounts": figures})


async def _fill(staged: Stage, server: Server, count: int) -> tuple[dict[str, Any], str]:
    """A platform with `count` accounts, written by COPY; and the id of one in the middle."""
    platform = await asyncio.to_thread(
        server.operator, "/accounts", {"kind": "platform", "name": f"Platform of {count}", "email": "p@example.com"}
    )
    connection = await asyncpg.connect(staged.urls.owner)
    try:
        first = await connection.fetchval("SELECT nextval('account_number')")
        await connection.execute("SELECT setval('account_number', $1)", first + count)
        accounts = [_account(platform, first + n, n) for n in range(count)]
        await connection.copy_records_to_table("account", records=accounts, columns=_ACCOUNT)
        for statement in (_LINKS, _BANK_ACCOUNTS):
            await connection.execute(statement, first, first + count)
        await connection.execute("VACUUM ANALYZE account, verification_link, bank_account, compliance_request")
    finally:
        await connection.close()
    await staged.counted()
    return platform, str(accounts[count // 2][1])


_ACCOUNT = ["account_id", "public_id", "kind", "platform_id", "platform_public_id", "business_company_name", "email",
            "country_code", "currency", "status", "kyc_status", "public_key", "client_key", "created_at",
            "updated_at"]  # fmt: skip

# What readiness looks at: a link and a bank account for each.
_LINKS = """
INSERT INTO verification_link
    (account_id, id, purpose, status, metadata, expires_at, completed_at, created_at, updated_at)
SELECT n, nextval('verification_link_id'), 'onboarding', 'verified', '{}', now(), now(), now(), now()
FROM generate_series($1::bigint, $2 - 1) AS n
"""
_BANK_ACCOUNTS = """
INSERT INTO bank_account
    (account_id, id, account_name, bank_name, currency, country, last4, use_for, is_default, status, name_check,
     lookup, sealed, created_at, updated_at)
SELECT n, nextval('bank_account_id'), 'Shop', 'Bank', 'GBP', 'GB', '0000', 'payout', true, 'active', 'matched',
       'x', '', now(), now()
FROM generate_series($1::bigint, $2 - 1) AS n
"""


def _account(platform: dict[str, Any], number: int, n: int) -> tuple[Any, ...]:
    moment = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=n)
    status = "review" if n % 50 == 0 else "active"
    return (number, f"acc{number:016d}_{number}", "merchant", platform["merchant_id"], platform["account_id"],
            f"Shop number {n}", f"shop{number}@example.com", "GB", "GBP", status, "verified", f"pk{number}",
            f"ck{number}", moment, moment)  # fmt: skip


def _measure(server: Server, platform: dict[str, Any], account: str) -> dict[str, dict[str, float]]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    headers = {"Authorization": f"Bearer {platform['secret_key']}"}
    found: dict[str, dict[str, float]] = {}
    for name, path in CASES.items():
        acting = {"Service-Account": account} if path == "/account" else {}
        target = "/v2" + path.format(account_id=account)
        times = sorted(_ask(connection, target, headers | acting) for _ in range(WARM + REQUESTS))[:REQUESTS]
        found[name] = {
            "p50_ms": round(statistics.median(times), 3),
            "p99_ms": round(times[int(len(times) * 0.99)], 3),
        }
    connection.close()
    return found


def _ask(connection: http.client.HTTPConnection, target: str, headers: dict[str, str]) -> float:
    started = time.perf_counter()
    connection.request("GET", target, headers=headers)
    reply = connection.getresponse()
    reply.read()
    assert reply.status == 200, reply.status
    return (time.perf_counter() - started) * 1000


async def _plans(staged: Stage, platform_id: int) -> dict[str, list[str]]:
    """The scans of each query, as the planner chose them."""
    queries = {
        "list": f"SELECT * FROM account WHERE platform_id = {platform_id} ORDER BY account_id DESC LIMIT 25",
        "count": f"SELECT count(*) FROM account WHERE platform_id = {platform_id}",
        "in review": f"SELECT count(*) FROM account WHERE platform_id = {platform_id} AND status = 'review'",
        "by date": f"SELECT * FROM account WHERE platform_id = {platform_id} ORDER BY created_at, account_id LIMIT 25",
        "read": f"SELECT * FROM account WHERE account_id = {platform_id} AND platform_id = {platform_id}",
    }
    connection = await asyncpg.connect(staged.urls.service)
    try:
        return {
            name: [line["QUERY PLAN"].strip(" ->") for line in await connection.fetch(f"EXPLAIN (COSTS OFF) {query}")
                   if "Scan" in line["QUERY PLAN"]]
            for name, query in queries.items()
        }  # fmt: skip
    finally:
        await connection.close()
