"""The audit notices when payments and the ledger part ways, whoever made them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from bursar.db.embedded import Urls
from tests.support.till import OK, PROOF, Till, running_till


@pytest.fixture
async def busy(urls: Urls) -> AsyncIterator[tuple[Till, list[dict[str, Any]]]]:
    """An instance where a bit of everything has happened."""
    async with running_till(urls) as till:
        merchant = await till.service.open_account()
        payments = [await till.create(merchant, f"order-{number}") for number in range(4)]
        for payment, card in zip(payments[:3], (OK, OK, PROOF), strict=True):
            await till.pay(payment, card)
        await till.refund(merchant, payments[0], amount=20)
        await till.fault("refund", "error")
        await till.refund(merchant, payments[1], amount=5)
        await till.books_agree()
        yield till, payments


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        ("UPDATE payment SET status = 'pending', paid_at = NULL WHERE id = $2", "payments_are_credited_once"),
        ("UPDATE payment SET status = 'succeeded', paid_at = now(), due_at = NULL WHERE id = $4",
         "payments_are_credited_once"),
        ("UPDATE payment SET amount_minor = 5000 WHERE id = $2", "payments_are_credited_once"),
        ("UPDATE payment SET refunded_minor = 0 WHERE id = $1", "payments_match_their_refunds"),
        ("UPDATE refund SET status = 'failed', failure_reason = 'x' WHERE payment_id = $1",
         "refunds_have_their_journals"),
        ("UPDATE payment SET reserve_minor = 0 WHERE id = $3", "reserves_match_wallets"),
    ],
)  # fmt: skip
async def test_what_it_notices(busy: tuple[Till, list[dict[str, Any]]], damage: str, found: str) -> None:
    till, payments = busy
    number = int(damage.rpartition("$")[2])
    owner = await till.owner()
    try:
        await owner.execute(damage.replace(f"${number}", "$1"), payments[number - 1]["id"])
    finally:
        await owner.close()
    assert found in await till.audited()
