"""`bursar audit verify --deep`: sound after everything has happened once, and one row changed by hand is noticed."""

from __future__ import annotations

from typing import Any

import asyncpg
import pytest

from bursar.ledger import audit, deep, seals
from tests.support.service import Party
from tests.support.till import NO_MONEY, OK, PROOF, Till

pytestmark = pytest.mark.asyncio(loop_scope="module")

CHECKS = {check.name: check for check in deep.checks()}


async def everything_happens(till: Till, shop: Party) -> None:
    """Payments, refunds, closings, a link, a reserve, a late capture and deliveries of one connected account."""
    endpoint = {"url": "http://127.0.0.1:9/hook", "events": ["*"], "description": "Closed"}
    assert (await till.service.send(shop, "POST", "/webhooks", endpoint)).status_code == 201
    paid = await till.create(shop, "paid")
    await till.pay(paid, NO_MONEY)
    await till.pay(paid)
    assert (await till.refund(shop, paid, amount=10)).status_code == 200
    await till.fault("refund", "error")
    assert (await till.refund(shop, paid, amount=5)).status_code == 422
    whole = await till.create(shop, "whole")
    await till.pay(whole)
    await till.service.ops(
        "POST", f"/accounts/{shop.merchant_id}/wallet-adjustments", {"currency": "GBP", "amount": 50, "note": "Start"}
    )
    assert (await till.refund(shop, whole)).status_code == 200
    await till.cancel(shop, await till.create(shop, "cancelled"))
    await till.create(shop, "expired", expires_in=1800)
    held = await till.create(shop, "held")
    await till.pay(held, PROOF)
    link = {"currency": "GBP", "amount": 25, "details": "A link"}
    made = (await till.service.send(shop, "POST", "/payment-links", link)).json()["data"]["payment_link"]
    await till.ops_pay(made["reference"])
    late = await till.create(shop, "late")
    reference = await till.started(late)
    await till.fault("cancel", "out_of_order")
    assert (await till.cancel(shop, late)).status_code == 200
    await till.simulator.pay(reference, OK, key="late")
    await till.run_due()
    await till.advance(days=5)
    while await seals.seal(till.service.db):
        pass
    await till.create(shop, "open")
    await till.run_due()


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    return {}


async def _ready(till: Till, told: dict[str, Any]) -> None:
    if not told:
        platform = await till.service.open_account("platform")
        shop = await till.service.open_account(platform=platform.account_id)
        await everything_happens(till, shop)
        told["shop"] = shop


async def test_a_sound_instance_passes(till: Till, told: dict[str, Any]) -> None:
    await _ready(till, told)
    async with audit.session(till.service.urls.service) as session:
        report = await audit.verify(session, more=deep.checks())
    assert [check for check in report.checks if not check.ok] == []
    assert {check.name for check in report.checks} >= CHECKS.keys()
    assert all(len(check.rule) > 20 for check in CHECKS.values())


JOURNAL_RULES = "ALTER TABLE journal DROP CONSTRAINT journal_balances"
PAYMENT_RULES = """
ALTER TABLE payment DROP CONSTRAINT payment_refunds_within, DROP CONSTRAINT payment_refunded_in_full,
    DROP CONSTRAINT payment_paid_once, DROP CONSTRAINT payment_cancelled_then, DROP CONSTRAINT payment_done_is_not_due
"""
PAID = "(SELECT id FROM payment WHERE identifier = 'paid')"
SHIFTED = """
UPDATE wallet_entry SET balance_before = balance_before + 1, balance_after = balance_after + 1
WHERE account_id > 1000 AND seq = 2
"""
EVENTS_TWICE = """
INSERT INTO event (account_id, id, event_id, type, body, created_at)
SELECT account_id, nextval('event_id'), event_id || '!', type, body, created_at
FROM event
WHERE account_id > 1000 AND type = '{}'
"""
REFUNDS_TWICE = """
INSERT INTO operation
    (account_id, id, kind, state, intent, owner_id, family, scope, key, request_id, created_at, updated_at)
SELECT account_id, nextval('operation_id'), kind, state, intent, owner_id, family, scope, key, request_id, created_at,
       updated_at
FROM operation
WHERE kind = 'refund'
"""

# What is done by hand, and the check that must notice.
TAMPERED = [
    ("L1_journals_balance", [JOURNAL_RULES, "UPDATE journal SET amounts[1] = amounts[1] + 1 WHERE kind = 'payment'"]),
    ("L2_balances_are_sums", ["UPDATE wallet SET main = main + 1 WHERE account_id > 1000"]),
    ("L2_balances_are_sums", ["UPDATE unsettled SET amount = amount + 1", "DELETE FROM drawn WHERE reserved"]),
    ("L3_chains_hold", ["UPDATE wallet_entry SET seq = seq + 1000 WHERE seq = (SELECT max(seq) FROM wallet_entry)"]),
    (
        "L3_chains_hold",
        [
            SHIFTED,
        ],
    ),
    (
        "L4_sealed_journals_are_unchanged",
        ["UPDATE journal SET note = 'for you' WHERE id = (SELECT min(id) FROM journal)"],
    ),
    (
        "L4_sealed_journals_are_unchanged",
        ["DELETE FROM journal WHERE id = (SELECT ids[1] FROM seal ORDER BY number LIMIT 1)"],
    ),
    ("L5_nothing_is_orphaned", ["DELETE FROM wallet_entry WHERE kind = 'refund'"]),
    ("L5_nothing_is_orphaned", [f"DELETE FROM payment WHERE id = {PAID}"]),
    ("L5_nothing_is_orphaned", ["DELETE FROM delivery WHERE account_id > 1000"]),
    ("P1_paid_means_captured_once", ["DELETE FROM journal WHERE kind = 'payment' AND account_id > 1000"]),
    (
        "P1_paid_means_captured_once",
        [PAYMENT_RULES, f"UPDATE payment SET status = 'pending', paid_at = NULL WHERE id = {PAID}"],
    ),
    (
        "P1_histories_are_legal",
        [PAYMENT_RULES, f"UPDATE payment SET status = 'cancelled', cancelled_at = created_at WHERE id = {PAID}"],
    ),
    (
        "P1_attempts_add_up",
        [f"DELETE FROM payment_attempt WHERE status = 'succeeded' AND payment_id = {PAID}"],
    ),
    ("P1_late_captures_go_back", ["UPDATE review_case SET status = 'open' WHERE kind = 'late_capture'"]),
    ("P1_late_captures_go_back", ["DELETE FROM journal WHERE kind = 'late_capture'"]),
    ("P2_refunds_within_captured", ["UPDATE refund SET amount_minor = amount_minor + 1 WHERE account_id > 1000"]),
    (
        "P2_refunds_within_captured",
        [PAYMENT_RULES, f"UPDATE payment SET refunded_minor = 0 WHERE id = {PAID}"],
    ),
    ("P2_refunds_within_captured", ["DELETE FROM journal WHERE kind = 'refund_failed'"]),
    ("P2_reserves_are_held", ["UPDATE payment SET reserve_minor = reserve_minor + 1 WHERE account_id > 1000"]),
    ("P3_the_processor_agrees", ["DELETE FROM simulator.refund WHERE refused_code IS NULL"]),
    (
        "P3_the_processor_agrees",
        [f"UPDATE simulator.payment SET key = key || '!', reference = 'sim_{'x' * 20}' WHERE id = 1001"],
    ),
    (
        "P6_nothing_stays_unknown",
        ["UPDATE operation SET state = 'unknown', created_at = created_at - interval '9 days' WHERE kind = 'refund'"],
    ),
    (
        "P6_nothing_stays_unknown",
        [f"UPDATE refund SET status = 'pending' WHERE payment_id = {PAID} AND status <> 'failed'"],
    ),
    (
        "A1_one_effect_per_key",
        [
            EVENTS_TWICE.format("transaction.created"),
        ],
    ),
    (
        "A1_one_effect_per_key",
        [
            REFUNDS_TWICE,
        ],
    ),
    (
        "A6_no_key_is_stuck",
        ["UPDATE idempotency_key SET status = NULL, body = NULL WHERE account_id > 1000"],
    ),
    (
        "E1_every_change_is_told_once",
        ["DELETE FROM event WHERE account_id > 1000 AND type = 'transaction.refunded'"],
    ),
    (
        "E1_every_change_is_told_once",
        [
            EVENTS_TWICE.format("balance.reserve_held"),
        ],
    ),
    ("E1_every_payment_is_notified_once", ["DELETE FROM ipn WHERE account_id > 1000"]),
    (
        "E1_every_payment_is_notified_once",
        ["DELETE FROM event WHERE account_id > 1000 AND type = 'transaction.failed'"],
    ),
    (
        "E2_deliveries_add_up",
        ["UPDATE delivery SET status = 'succeeded', exhausted = false, next_attempt_at = NULL WHERE account_id > 1000"],
    ),
    (
        "E2_deliveries_add_up",
        ["DELETE FROM delivery_attempt WHERE number = 1 AND account_id > 1000"],
    ),
    (
        "E4_only_the_right_audience",
        [
            "UPDATE delivery SET account_id = 1, place = place || id WHERE account_id > 1000",
            "UPDATE delivery SET account_id = 1001000 WHERE account_id = 1",
        ],
    ),
]


@pytest.mark.parametrize(("name", "statements"), TAMPERED)
async def test_what_is_done_by_hand_is_noticed(
    till: Till, told: dict[str, Any], name: str, statements: list[str]
) -> None:
    await _ready(till, told)
    owner: asyncpg.Connection[Any] = await till.owner()
    try:
        changes = owner.transaction()
        await changes.start()
        assert await owner.fetch(CHECKS[name].places) == []
        for statement in statements:
            await owner.execute(statement)
        places = [row["place"] for row in await owner.fetch(CHECKS[name].places)]
        await changes.rollback()
    finally:
        await owner.close()
    assert places, "nothing was noticed"
    assert all(places)


async def test_every_check_is_tampered_with() -> None:
    assert {name for name, _ in TAMPERED} == CHECKS.keys()
