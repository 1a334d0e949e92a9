"""Whatever the order in which things happen to one payment, pending is the sum of the unsettled parts, never less."""

from __future__ import annotations

from itertools import permutations

from bursar.db.embedded import Urls
from bursar.db.pool import Database
from bursar.ledger.lines import Journal
from bursar.ledger.post import post
from tests.ledger.books import assert_sound, dispute, pay, payout, refund, release, reserve, settle

STEPS = ("refund", "hold", "dispute", "instant payout", "settlement")


def step(name: str, account_id: int, amount: int) -> Journal:
    if name == "refund":
        return refund(account_id, amount, account_id, account_id)
    if name == "hold":
        return reserve(account_id, amount, account_id, account_id)
    if name == "dispute":
        return dispute(account_id, amount, account_id, account_id)
    if name == "instant payout":
        return payout(account_id, amount, account_id, speed="instant")
    return settle(account_id, account_id)


async def invariants_hold(db: Database, first: int) -> None:
    wrong = await db.fetch(
        """
        SELECT w.account_id, w.pending, coalesce(sum(u.amount), 0) AS parts
        FROM wallet w LEFT JOIN unsettled u USING (account_id, currency)
        WHERE w.account_id >= $1
        GROUP BY w.account_id, w.currency, w.pending
        HAVING w.pending <> coalesce(sum(u.amount), 0) OR min(u.amount) < 0 OR w.pending < 0
        """,
        first,
    )
    assert not wrong


async def test_every_order_of_what_can_happen_to_a_payment(db: Database, urls: Urls) -> None:
    account_id = 0
    for amount in (3_000, 7_000, 10_000):  # all fit, some do not, none but one does
        first = account_id + 1
        runs = []
        for order in permutations(STEPS):
            account_id += 1
            runs.append((account_id, order))
        # The steps one after the other, but those of all the runs together: each is on an account of its own.
        await post(db, [pay(account, 10_000, account) for account, _ in runs])
        for position in range(len(STEPS)):
            await post(db, [step(order[position], account, amount) for account, order in runs])
            await invariants_hold(db, first)
        await post(db, [settle(account, account) for account, _ in runs])
        left = await db.fetchval("SELECT coalesce(sum(pending), 0) FROM wallet WHERE account_id >= $1", first)
        assert left == 0
    await assert_sound(urls)


async def test_every_order_with_a_release_at_the_end(db: Database, urls: Urls) -> None:
    for account_id, order in enumerate(permutations(("hold", "refund", "instant payout", "settlement")), 1):
        await post(db, [pay(account_id, 10_000, account_id)])
        for name in order:
            await post(db, [step(name, account_id, 3_000)])
        await post(db, [release(account_id, 3_000, account_id, account_id)])
        row = await db.fetchrow("SELECT main, pending, reserve FROM wallet WHERE account_id = $1", account_id)
        assert row is not None
        # 10,000 less a refund and a payout; all of it settled, for the release came after the settlement.
        assert tuple(row) == (4_000, 0, 0), order
    await assert_sound(urls)
