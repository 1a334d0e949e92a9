"""Outcomes: from a callback in the inbox to the payment's state, its journal, event and IPN, as the worker does it.

A worker with that one sweep takes callbacks from a full inbox, 32 at a time, asks a processor on loopback about each,
and writes them down. Every payment carries both fees: one journal, four entries, two wallets. Spread: 5,000 shops, each
with a platform of its own. Hot: 5,000 shops of one platform. Beside it: pgbench writing the same journal, and nothing
else of all that, as one statement. For information: the same from the processor's call on, over HTTP.
"""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import asyncpg
import msgspec
import uvloop

from bench import checks, load, processor, report, requests
from bench.ledger import scripts
from bench.ledger.wallets import HOT_PLATFORM, PLATFORMS, SHOPS, open_wallets
from bench.load import Result
from bench.report import Case, Part
from bench.server import IN_FLIGHT
from bench.stage import Server, Stage, stage
from bursar.db.notify import WAKE
from bursar.features.payments import reference
from bursar.processors import inbox
from bursar.processors.protocol import Callback
from bursar.processors.signing import LinkKeys, sign_callback

SLOWEST = 500  # callbacks a second, to begin with
HOT_SHOPS = range(HOT_PLATFORM + 1, HOT_PLATFORM + 1 + len(SHOPS))
FLOOR, FLOOR_HOT = "pgbench, the journal in one statement", "pgbench, the same, one platform"
SPREAD, HOT, OVER_HTTP = "outcomes", "outcomes, one platform", "outcomes, with the call over HTTP"


def run(seconds: float, times: int) -> Part:
    with stage() as staged:
        app = uvloop.run(prepare(staged))
        worker = start_worker(staged)
        pace = Pace(seconds)
        found = report.rounds(
            {
                FLOOR: lambda: staged.floor(scripts.by_hand(scripts.SPREAD, one_statement=True), IN_FLIGHT, seconds),
                SPREAD: lambda: pace.keep(partial(apply, staged, worker, hot=False)),
                HOT: lambda: pace.keep(partial(apply, staged, worker, hot=True)),
                OVER_HTTP: lambda: pace.keep(partial(call, staged, app, worker)),
                FLOOR_HOT: lambda: staged.floor(scripts.by_hand(scripts.HOT, one_statement=True), IN_FLIGHT, seconds),
            },
            times,
        )
        count = sum(result.answered for name in (SPREAD, HOT, OVER_HTTP) for result in found[name])
        applied = asyncio.run(_applied(staged, count))
        floor = asyncio.run(checks.floor_is_journals(staged))
        books = asyncio.run(checks.books(staged))
    against = {
        SPREAD: {"outcome_vs_pgbench_single": FLOOR},
        OVER_HTTP: {"callback_vs_pgbench_single": FLOOR},
        HOT: {"outcome_hot_vs_spread": SPREAD, "outcome_hot_vs_pgbench_single_hot": FLOOR_HOT},
    }
    return Part(
        f"Outcomes, {IN_FLIGHT} in flight",
        [Case(name, results, against.get(name, {})) for name, results in found.items()],
        checks={"outcomes": applied, "outcomes, floor": floor, "outcomes, books": books},
    )


@dataclass
class Pace:
    """How many callbacks make a measurement of so many seconds, as the last one showed."""

    seconds: float
    per_second: float = SLOWEST

    def keep(self, take: Callable[[int], Result]) -> Result:
        result = take(int(self.per_second * self.seconds))
        self.per_second = max(SLOWEST, result.per_second)
        return result


def start_worker(staged: Stage, **environment: str) -> tuple[int, int]:
    """The worker and the processor it asks: their process numbers."""
    asked = staged.run("-m", "bench.processor", stdout=subprocess.PIPE)
    assert asked.stdout is not None
    port = int(asked.stdout.readline())
    told = {"BURSAR_SIMULATOR_URL": f"http://127.0.0.1:{port}", **environment}
    return staged.run("-m", "bench.server", "outcomes", environment=told).pid, asked.pid


# Shops, payments, callbacks ------------------------------------------------------------------------------------


async def prepare(staged: Stage) -> Server:
    """An instance, shops and platforms with wallets, the floor's tables, and a real payment to make others from."""
    await open_wallets(staged, [*SHOPS, *PLATFORMS, HOT_PLATFORM, *HOT_SHOPS])
    app = await asyncio.to_thread(staged.serve)
    merchant = await asyncio.to_thread(app.merchant)
    await asyncio.to_thread(load.run, requests.creates(merchant["secret_key"], 1), app.port, 1, 5)
    connection = await staged.connect()
    try:
        account = await connection.fetchval(
            "SELECT to_jsonb(account) FROM account WHERE account_id = $1", merchant["merchant_id"]
        )
        await connection.execute(_ACCOUNTS, account, list(SHOPS), list(PLATFORMS))
        await connection.execute(_ACCOUNTS, account, list(HOT_SHOPS), [HOT_PLATFORM] * len(HOT_SHOPS))
        # The payment as it is, to be changed where the others differ.
        await connection.execute("CREATE TABLE bench_payment (made jsonb NOT NULL)")
        await connection.execute(
            "INSERT INTO bench_payment SELECT to_jsonb(payment) FROM payment WHERE account_id = $1",
            merchant["merchant_id"],
        )
    finally:
        await connection.close()
    return app


# Like the merchant that was made over HTTP, each on its platform.
_ACCOUNTS = """
INSERT INTO account
SELECT made.*
FROM unnest($2::bigint[], $3::bigint[]) AS n (shop, platform),
     jsonb_populate_record(NULL::account, $1::jsonb || jsonb_build_object(
         'account_id', shop, 'public_id', 'acc' || lpad(shop::text, 16, '0'), 'email', 'shop' || shop || '@example.com',
         'platform_id', platform, 'platform_public_id', 'acc' || lpad(platform::text, 16, '0'))) AS made
"""

# Started at the processor, not yet paid.
_PAYMENTS = """
INSERT INTO payment
SELECT made.*
FROM bench_payment AS sample,
     unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::text[]) AS n (shop, platform, id, ours, theirs),
     jsonb_populate_record(NULL::payment, sample.made || jsonb_build_object(
         'account_id', shop, 'id', id, 'payment_reference', ours, 'identifier', 'order-' || id, 'amount_minor', 10000,
         'platform_id', platform, 'application_fee_minor', 500, 'started_at', now(), 'processor_reference', theirs,
         'txid', pg_current_xact_id()::text::bigint
     )) AS made
"""
_CALLBACKS = """
INSERT INTO processor_inbox (account_id, provider, event_id, kind, raw, due_at, received_at)
SELECT shop, 'simulator', 'bench-' || id, 'payment.succeeded', raw, now(), now()
FROM unnest($1::bigint[], $2::bigint[], $3::bytea[]) AS n (shop, id, raw)
"""

_LEFT = "SELECT EXISTS (SELECT FROM processor_inbox WHERE state = 'new')"

_turn = itertools.count()


def apply(staged: Stage, worker: tuple[int, int], count: int, *, hot: bool) -> Result:
    """Pays `count` payments: the rows first, then the callbacks at once, and the time until the last is applied."""
    return uvloop.run(_apply(staged, worker, count, hot))


async def _apply(staged: Stage, worker: tuple[int, int], count: int, hot: bool) -> Result:
    connection = await staged.connect(staged.urls.owner)
    try:
        callbacks = await _new_payments(connection, count, hot)

        async def take() -> Result:
            started = time.perf_counter()
            async with connection.transaction():
                await connection.execute(_CALLBACKS, *callbacks)
            await connection.execute("SELECT pg_notify($1, '')", WAKE)
            async with asyncio.timeout(120):
                while await connection.fetchval(_LEFT):  # noqa: ASYNC110 - a look at the database
                    await asyncio.sleep(0.02)
            elapsed = time.perf_counter() - started
            return Result(count / elapsed, 0.0, 0.0, count)

        return await staged.measured_async(take, worker=worker[:1], processor=worker[1:])
    finally:
        await connection.close()


def call(staged: Stage, app: Server, worker: tuple[int, int], count: int) -> Result:
    """The processor calls on as many connections as callbacks are in flight, and the worker applies meanwhile."""
    posts = uvloop.run(_signed(staged, count))

    def take() -> Result:
        heard = load.run(posts, app.port, IN_FLIGHT, 60)
        assert heard.statuses == {"200": count}, heard.statuses
        ended = time.perf_counter()
        uvloop.run(_all_applied(staged))
        elapsed = count / heard.per_second + time.perf_counter() - ended
        return replace(heard, per_second=count / elapsed, p50_ms=0.0, p99_ms=0.0)

    return staged.measured(take, api=app.pids, worker=worker[:1], processor=worker[1:])


async def _signed(staged: Stage, count: int) -> list[bytes]:
    connection = await staged.connect()
    try:
        _, ids, raw = await _new_payments(connection, count, hot=False)
    finally:
        await connection.close()
    keys = LinkKeys.of(staged.settings.simulator_secret)
    posts = []
    for number, body in zip(ids, raw, strict=True):
        headers = sign_callback(keys.callbacks, f"bench-{number}", body)
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        lines += f"Content-Length: {len(body)}\r\n"
        head = f"POST {inbox.PATH.format(provider='simulator')} HTTP/1.1\r\nHost: bench\r\n{lines}\r\n"
        posts.append(head.encode() + body)
    return posts


async def _all_applied(staged: Stage) -> None:
    connection = await staged.connect()
    try:
        async with asyncio.timeout(120):
            while await connection.fetchval(_LEFT):  # noqa: ASYNC110 - a look at the database
                await asyncio.sleep(0.02)
    finally:
        await connection.close()


async def _new_payments(connection: asyncpg.Connection[Any], count: int, hot: bool) -> tuple[list[Any], ...]:
    shops = HOT_SHOPS if hot else SHOPS
    ids = [row[0] for row in await connection.fetch("SELECT nextval('payment_id') FROM generate_series(1, $1)", count)]
    places = [next(_turn) % len(shops) for _ in ids]
    owners = [shops[place] for place in places]
    platforms = [HOT_PLATFORM if hot else PLATFORMS[place] for place in places]
    ours = [reference.make(reference.PAYMENT, number) for number in ids]
    theirs = [processor.reference_of(owner, number) for owner, number in zip(owners, ids, strict=True)]
    await connection.execute(_PAYMENTS, owners, platforms, ids, ours, theirs)
    await connection.execute("ANALYZE payment")
    at = datetime.now(UTC)
    raw = [
        msgspec.json.encode(
            Callback(
                event_id=f"bench-{number}", kind="payment.succeeded", account_id=owner, our_reference=our,
                reference=their, amount_minor=10_000, currency="GBP", at=at,
            )
        )
        for owner, number, our, their in zip(owners, ids, ours, theirs, strict=True)
    ]  # fmt: skip
    return owners, ids, raw


async def _applied(staged: Stage, count: int) -> str:
    """Every callback became one paid payment, one journal of four entries, one event and one IPN."""
    connection = await staged.connect()
    try:
        found = {
            what: await connection.fetchval(f"SELECT count(*) FROM {what}")
            for what in (
                "processor_inbox WHERE state = 'done'",
                "payment WHERE status = 'succeeded' AND account_id > 1000000",
                "journal WHERE kind = 'payment'",
                "event WHERE type = 'transaction.succeeded'",
                "ipn",
            )
        }
        entries = await connection.fetchval("SELECT count(*) FROM wallet_entry WHERE kind <> 'adjustment'")
    finally:
        await connection.close()
    assert set(found.values()) == {count}, found
    assert entries == 4 * count, (entries, count)
    return f"{count} callbacks, as many payments, journals, events and IPNs"
