"""The audit finds what was done by hand, and says where: one row changed is enough, for every check."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from bursar.db.embedded import Urls
from bursar.db.pool import Database
from bursar.ledger import audit, seals
from bursar.ledger.audit import Check
from bursar.ledger.post import post
from tests.ledger.books import (
    PLATFORM,
    as_owner,
    assert_sound,
    audited,
    dispute,
    pay,
    payout,
    posted,
    refund,
    reserve,
    settle,
    top_up,
)


@pytest.fixture
async def books(db: Database) -> Database:
    """A ledger in which everything has happened once, sealed in two blocks."""
    await posted(db, top_up(1, 5_000), pay(1, 10_000, processing_fee=100, application_fee=50, platform_id=PLATFORM))
    await posted(db, refund(1, 500), reserve(1, 700), dispute(1, 300))
    assert await seals.seal(db) == 5
    await posted(db, settle(), pay(2, 900), payout(1, 1_000))
    assert await seals.seal(db) == 3
    return db


class TestASoundLedger:
    async def test_passes_every_check_and_has_a_head(self, books: Database, urls: Urls) -> None:
        steps: list[tuple[str, int, int]] = []
        async with audit.session(urls.service) as session:
            report = await audit.verify(session, progress=lambda *step: steps.append(step))
        assert report.ok
        assert {check.name for check in report.checks} == {check.name for check in audit.CHECKS} | {"seals_are_intact"}
        assert report.head == await seals.newest_head(books)
        assert [done for _, done, _ in steps] == sorted(done for _, done, _ in steps)
        assert steps[-1] == ("done", steps[-1][2], steps[-1][2])

    async def test_may_be_empty(self, db: Database, urls: Urls) -> None:
        report = await audited(urls)
        assert (report.ok, report.head) == (True, None)

    async def test_is_read_from_one_snapshot_without_a_time_limit(self, books: Database, urls: Urls) -> None:
        settings = ("transaction_isolation", "transaction_read_only", "statement_timeout")
        shown = " || ', ' || ".join(f"current_setting('{name}')" for name in settings)
        async with audit.session(urls.service) as session:
            report = await audit.verify(session, more=[Check("session", "", f"SELECT {shown} AS place")])
        assert report.checks[-2].detail == "repeatable read, on, 0"

    async def test_takes_the_checks_of_features(self, books: Database, urls: Urls) -> None:
        mine = Check("payouts", "every payout has its journal", "SELECT 'payout 7' AS place")
        async with audit.session(urls.service) as session:
            report = await audit.verify(session, more=[mine])
        assert not report.ok
        assert {check.name: check.detail for check in report.checks}["payouts"] == "payout 7"


NO_FLOOR = "ALTER TABLE wallet_entry DROP CONSTRAINT wallet_entry_floor"
NO_SUM = "ALTER TABLE wallet_entry DROP CONSTRAINT wallet_entry_adds_up"
ANY_PENDING = "ALTER TABLE wallet DROP CONSTRAINT wallet_pending_floor"
SHIFTED = "UPDATE wallet_entry SET balance_before = balance_before + 1, balance_after = balance_after + 1"
FORGED = """
INSERT INTO journal
SELECT account_id, id + 100, kind, {}, currency, owners, accounts, amounts, related, note, event_at, created_at, txid
FROM journal
WHERE id = 2
"""

# What is done by hand, the check that must notice, and where it must point.
TAMPERED = [
    (
        [
            "ALTER TABLE journal DROP CONSTRAINT journal_balances",
            "UPDATE journal SET amounts[1] = amounts[1] + 1 WHERE id = 2",
        ],
        "journals_balance",
        "journal 2 of account 1001",
    ),
    (
        [
            "ALTER TABLE journal DROP CONSTRAINT journal_natural_key",
            FORGED.format("ref"),
        ],
        "natural_keys_are_unique",
        "payment 1 of account 1001: journals 2, 102",
    ),
    (
        ["UPDATE journal SET accounts[2] = 'reserve' WHERE id = 2"],
        "entries_match_journals",
        "journal 2 of account 1001, wallet of account 1001 in GBP",
    ),
    (
        ["UPDATE wallet_entry SET note = 'for you' WHERE account_id = 1001 AND seq = 3"],
        "entries_match_journals",
        "wallet of account 1001 in GBP, seq 3",
    ),
    (
        ["UPDATE wallet_entry SET fact = true WHERE account_id = 1001 AND kind = 'refund'"],
        "entries_match_journals",
        "wallet of account 1001 in GBP, seq 5",
    ),
    (
        ["DELETE FROM journal WHERE id = 8"],
        "entries_match_journals",
        "journal 8 of account 1001",
    ),
    (
        ["UPDATE wallet SET main = main + 1 WHERE account_id = 1001"],
        "wallets_match_entries",
        "wallet of account 1001 in GBP",
    ),
    (
        ["DELETE FROM wallet WHERE account_id = 1002"],
        "wallets_match_entries",
        "wallet of account 1002 in GBP",
    ),
    (
        [f"{SHIFTED} WHERE account_id = 1001 AND seq = 4"],
        "balances_are_chained",
        "wallet of account 1001 in GBP, seq 4",
    ),
    (
        ["DELETE FROM wallet_entry WHERE account_id = 1001 AND seq = 4"],
        "balances_are_chained",
        "wallet of account 1001 in GBP, seq 5",
    ),
    (
        [NO_FLOOR, NO_SUM, "UPDATE wallet_entry SET balance_after = -1 WHERE account_id = 1001 AND kind = 'refund'"],
        "floors_held",
        "wallet of account 1001 in GBP, seq 5: a refund left -1",
    ),
    (
        [ANY_PENDING, "UPDATE wallet SET pending = -1 WHERE account_id = 1002"],
        "floors_held",
        "wallet of account 1002 in GBP",
    ),
    (
        ["UPDATE unsettled SET amount = amount + 5 WHERE account_id = 1001"],
        "unsettled_parts_are_pending",
        "wallet of account 1001 in GBP: pending 900, unsettled parts 905",
    ),
    (
        ["DELETE FROM drawn WHERE reserved"],
        "unsettled_parts_are_pending",
        "reserve 700, set aside 0",
    ),
    (
        ["UPDATE wallet SET reserve = reserve + 3 WHERE account_id = 1001"],
        "service_accounts_balance",
        "GBP: out by 3 minor units",
    ),
    (["UPDATE journal SET note = 'x' WHERE id = 3"], "seals_are_intact", "journal 3 was changed"),
    (["DELETE FROM journal WHERE id = 3"], "seals_are_intact", "journal 3 is gone"),
    (["UPDATE seal SET digest = '' WHERE number = 1"], "seals_are_intact", "seal 1"),
    (["UPDATE seal SET head = '' WHERE number = 1"], "seals_are_intact", "seal 2 does not follow"),
    (["DELETE FROM seal WHERE number = 1"], "seals_are_intact", "seal 1 is gone"),
    (["UPDATE seal SET totals = '{\"GBP fees\": 1}' WHERE number = 2"], "seals_are_intact", "total of GBP"),
    (
        [
            FORGED.format("'forged'"),
        ],
        "seals_are_intact",
        "journal 102 was added",
    ),
]  # fmt: skip


async def test_one_change_by_hand_is_found_where_it_was_made(books: Database, urls: Urls) -> None:
    """Each in a transaction that is rolled back, so that the next one finds the books as they were."""
    await assert_sound(urls)
    for statements, name, where in TAMPERED:
        async with audit.session(urls.owner) as session:
            # The audit's own transaction becomes a savepoint of this one, which is never committed.
            outer = session.transaction(isolation="repeatable_read")
            await outer.start()
            for statement in statements:
                await session.execute(statement)
            report = await audit.verify(session)
            await outer.rollback()
        wrong = {check.name: check.detail for check in report.checks if not check.ok}
        assert not report.ok
        assert where in wrong.get(name, ""), (statements, wrong)
    await assert_sound(urls)


class TestTheAnchor:
    async def test_notices_that_the_end_was_removed(self, books: Database, urls: Urls) -> None:
        head = (await audited(urls)).head
        assert head is not None
        assert (await audited(urls, head)).ok
        await posted(books, pay(3, 100))
        await seals.seal(books)
        assert (await audited(urls, head)).ok  # a longer chain still has it
        # Somebody takes away the last blocks with all they did, and leaves everything else consistent.
        await as_owner(
            urls,
            "DELETE FROM wallet_entry WHERE journal_id IN (SELECT unnest(ids) FROM seal WHERE number >= 2)",
            "DELETE FROM journal WHERE id IN (SELECT unnest(ids) FROM seal WHERE number >= 2)",
            "DELETE FROM seal WHERE number >= 2",
            """
            UPDATE wallet w
            SET (main, pending, reserve, seq) = (
                SELECT sum(main), sum(pending), sum(reserve), max(seq)
                FROM wallet_entry e
                WHERE e.account_id = w.account_id
            )
            """,
            "DELETE FROM unsettled WHERE account_id = 1001",
            "INSERT INTO unsettled SELECT account_id, currency, 'transaction:1', pending, now() FROM wallet "
            "WHERE account_id = 1001",
        )
        assert (await audited(urls)).ok  # nothing inside the database can tell
        report = await audited(urls, head)
        assert not report.ok
        assert "noted earlier" in report.checks[-1].detail

    async def test_is_not_met_by_an_empty_chain(self, db: Database, urls: Urls) -> None:
        assert not (await audited(urls, "ab" * 32)).ok


class TestSealing:
    async def test_leaves_out_what_may_not_be_finished(self, db: Database, urls: Urls) -> None:
        async with db.transaction() as connection:
            await post(connection, [pay(1, 100)])
            await posted(db, pay(2, 100, PLATFORM))  # committed later, but begun after one that is still open
            assert await seals.seal(db) == 0
        assert await seals.seal(db) == 2
        assert await seals.seal(db) == 0
        await assert_sound(urls)

    async def test_is_in_blocks_and_in_order(self, db: Database, urls: Urls) -> None:
        for n in range(1, 8):
            await posted(db, pay(n, 100))
        assert [await seals.seal(db, 3) for _ in range(4)] == [3, 3, 1, 0]
        rows = await db.fetch("SELECT ids FROM seal ORDER BY number")
        assert [row["ids"] for row in rows] == [[1, 2, 3], [4, 5, 6], [7]]
        await assert_sound(urls)

    async def test_waits_until_a_block_is_worth_it(self, db: Database) -> None:
        await posted(db, pay(1, 100))
        now = datetime.now(UTC)
        assert not await seals.is_due(db, now)
        assert await seals.is_due(db, now + timedelta(minutes=2))
        await seals.seal(db)
        assert not await seals.is_due(db, now + timedelta(minutes=2))

    async def test_keeps_the_totals_of_the_services_own_accounts(self, books: Database) -> None:
        totals = await books.fetchval("SELECT totals FROM seal ORDER BY number DESC LIMIT 1")
        assert totals == {
            "GBP adjustments": -5_000,
            "GBP fees": 100 + 1_500,
            "GBP processor_clearing": -10_000 + 500 + 300 - 900,
            "GBP bank_transit": 1_000,
        }
