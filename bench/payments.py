"""Taking payments: signed creates over HTTP, and outcomes from the processor's word to ledger, events and IPN.

Beside them: pgbench inserting what a create leaves behind, one transaction each.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from datetime import UTC, datetime
from typing import Any

from pydantic import SecretStr

from bench import load, requests
from bench.load import Result
from bench.report import Case
from bench.stage import Server, Stage
from bursar.core.crypto import new_sealing_pair
from bursar.db.pool import Database
from bursar.features.payments import service
from bursar.features.payments.processor import start_of
from bursar.processors.protocol import Attempt, PaymentState
from bursar.settings import Settings

CONNECTIONS = 32
BATCH = 50  # callbacks that a worker takes together

# The rows that a create leaves behind, in one statement, with bodies as long as the real ones.
CREATE = """
\\set n random(1, 9000000000000000)
WITH claimed AS (
    INSERT INTO idempotency_key
        (account_id, family, scope, key, fingerprint, status, body, created_at, expires_at)
    VALUES (1001, 'legacy', '1001 POST /v2/hosted-payments', 'bench-' || (:n)::bigint,
            decode('9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08', 'hex'), 201,
            convert_to(repeat('x', 650), 'UTF8'), now(), now() + interval '1 day')
), made AS (
    INSERT INTO payment
        (account_id, id, kind, channel, payment_reference, identifier, amount_minor, currency, details, ipn_url,
         success_url, cancel_url, customer_name, customer_email, metadata, key_account_id, key_id, fee_payer,
         expires_at, due_at, created_at, updated_at)
    VALUES (1001, nextval('payment_id'), 'hosted', 'api', 'PAY-0000000', 'bench-' || (:n)::bigint, 4999, 'GBP',
            'Two books', 'https://shop.example/ipn', 'https://shop.example/paid', 'https://shop.example/cancelled',
            'Ada Lovelace', 'ada@example.com', '{}', 1001, 1001, 'connected_account', now() + interval '1 day',
            now() + interval '1 day', now(), now())
    ON CONFLICT (account_id, identifier) WHERE status IN ('pending', 'succeeded', 'refunded') DO NOTHING
)
INSERT INTO event (account_id, id, event_id, type, body, created_at)
VALUES (1001, nextval('event_id'), 'evt_' || (:n)::bigint, 'transaction.created',
        convert_to(repeat('x', 900), 'UTF8'), now());
"""


def order(number: int, run: str) -> bytes:
    return json.dumps(
        {
            "identifier": f"{run}-{number}", "amount": 49.99, "currency": "GBP", "details": "Two books",
            "ipn_url": "https://shop.example/ipn", "success_url": "https://shop.example/paid",
            "cancel_url": "https://shop.example/cancelled", "customer_name": "Ada Lovelace",
            "customer_email": "ada@example.com",
        }
    ).encode()  # fmt: skip


def cases(stage: Stage, seconds: float, rounds: int) -> list[Case]:
    app = stage.start("app")
    bundle = app.operator("/accounts", {"kind": "merchant", "name": "Bench", "email": "payments@example.com"})
    found: dict[str, list[Result]] = {}
    for _ in range(rounds):
        for name, result in _round(stage, app, bundle, seconds).items():
            found.setdefault(name, []).append(result)
    return [
        Case("pgbench, create's rows", found["floor"]),
        Case("create a payment", found["create"], floor="pgbench, create's rows", ratio="create_vs_pgbench", goal=0.3),
        Case("retrieve a payment", found["retrieve"]),
        Case("list 20 payments", found["list"]),
        Case(
            f"outcomes, {BATCH} a transaction, one wallet",
            found["outcomes"],
            floor="pgbench, create's rows",
            ratio="outcomes_vs_pgbench_creates",
        ),
    ]


def _round(stage: Stage, app: Server, bundle: dict[str, Any], seconds: float) -> dict[str, Result]:
    secret, run = bundle["secret_key"], secrets.token_hex(4)
    bodies = [order(number, run) for number in range(int(5000 * seconds))]
    creates = requests.signed_posts("/v2/hosted-payments", secret, bodies)
    create = load.run(creates, app.port, CONNECTIONS, seconds)
    assert set(create.statuses) == {"201"}, create.statuses
    read = [requests.get("/v2/hosted-payments/100001", secret)]
    page = [requests.get("/v2/transactions?per_page=20", secret)]
    return {
        "floor": stage.pgbench(CREATE, CONNECTIONS, seconds),
        "create": create,
        "retrieve": load.run(read, app.port, CONNECTIONS, seconds),
        "list": load.run(page, app.port, CONNECTIONS, seconds),
        "outcomes": asyncio.run(_outcomes(stage, bundle["merchant_id"], seconds)),
    }


async def _outcomes(stage: Stage, account_id: int, seconds: float) -> Result:
    """As the worker writes them down, after the processor was asked: attempts, payments, journals, events, IPNs."""
    _, public = new_sealing_pair()
    settings = Settings(
        env="test", database_url=SecretStr(stage.urls.service), key_pepper=secrets.token_bytes(32),
        seal_public_key=public,
    )  # fmt: skip
    db = await Database.open(stage.urls.service, size=2, name="bench outcomes")
    try:
        rows = await db.fetch(
            "SELECT * FROM payment WHERE account_id = $1 AND status = 'pending' AND payment_reference <> 'PAY-0000000'"
            " ORDER BY id LIMIT $2",
            account_id,
            int(3000 * seconds),
        )
        states = [_captured(row, settings) for row in rows]
        times, started = [], time.perf_counter()
        for at in range(0, len(states), BATCH):
            if time.perf_counter() - started > seconds:
                break
            began = time.perf_counter()
            await service.learn(db, settings, states[at : at + BATCH])
            times += [time.perf_counter() - began] * len(states[at : at + BATCH])
        elapsed = time.perf_counter() - started
    finally:
        await db.close()
    times.sort()
    return Result(
        len(times) / elapsed, times[len(times) // 2] * 1000, times[int(len(times) * 0.99)] * 1000, len(times), {}
    )


def _captured(row: Any, settings: Settings) -> PaymentState:
    start = start_of(row, "Bench", settings)
    reference = f"sim_{row['id']:020d}"
    attempt = Attempt(f"{reference}_1", 1, "succeeded", datetime.now(UTC), "4242", "Ada Lovelace")
    return PaymentState(
        reference=reference, our_reference=start.our_reference, account_id=start.account_id, status="succeeded",
        amount_minor=start.amount_minor, currency=start.currency, captured_minor=start.amount_minor, refunded_minor=0,
        funds_available_at_once=False, concern=None, attempts=(attempt,), page_url="",
    )  # fmt: skip
