"""What each journal does to the wallets, and which unsettled part it draws on or goes back to."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import asyncpg
import msgspec
import pytest

from bursar.core.errors import InsufficientBalance
from bursar.db.clock import instance_now
from bursar.db.embedded import Urls
from bursar.db.pool import Database
from bursar.ledger import journals
from bursar.ledger.lines import Journal, credit, draw, journal, service
from bursar.ledger.post import LARGEST_LIST, Outcome, post
from bursar.ledger.settlement import next_settlement, settle_due
from tests.ledger.books import (
    LATER,
    OTHER,
    PLATFORM,
    SHOP,
    Balance,
    assert_sound,
    balance,
    dispute,
    dispute_won,
    outcomes,
    parts,
    pay,
    payout,
    posted,
    refund,
    release,
    reserve,
    settle,
    top_up,
)


async def rows(db: Database, account_id: int = SHOP) -> list[tuple[str, str, int, int, int]]:
    found = await db.fetch(
        """
        SELECT type, category, amount, balance_before, balance_after
        FROM wallet_transaction
        WHERE account_id = $1
        ORDER BY id
        """,
        account_id,
    )
    return [tuple(row) for row in found]


class TestPayment:
    async def test_is_pending_less_the_fees(self, db: Database) -> None:
        await posted(db, pay(1, 10_000, processing_fee=270))
        assert await balance(db) == Balance(0, 9_730, 0)
        assert await rows(db) == [
            ("credit", "payment", 10_000, 0, 10_000),
            ("debit", "fee", 270, 10_000, 9_730),
        ]
        found = await db.fetchrow("SELECT owners, accounts, amounts, related FROM journal")
        assert found is not None
        assert found["accounts"] == ["processor_clearing", "pending", "fees"]
        assert found["amounts"] == [-10_000, 9_730, 270]
        assert found["owners"] == [SHOP] * 3

    async def test_shares_the_application_fee_with_the_platform(self, db: Database) -> None:
        await posted(db, pay(1, 10_000, processing_fee=270, application_fee=500, platform_id=PLATFORM))
        assert await balance(db) == Balance(0, 9_230, 0)
        assert await balance(db, PLATFORM) == Balance(0, 500, 0)
        assert await rows(db, PLATFORM) == [("credit", "application_fee", 500, 0, 500)]
        assert await db.fetchval("SELECT count(*) FROM journal") == 1

    async def test_charges_the_platform_where_it_pays_the_fee(self, db: Database, urls: Urls) -> None:
        await posted(
            db, pay(1, 10_000, processing_fee=270, application_fee=100, platform_id=PLATFORM, fee_payer="platform")
        )
        assert await balance(db) == Balance(0, 9_900, 0)
        assert await balance(db, PLATFORM) == Balance(-170, 0, 0)  # a fact: it may leave a wallet negative
        await assert_sound(urls)

    async def test_below_its_fee_leaves_a_debt_and_nothing_pending(self, db: Database) -> None:
        await posted(db, pay(1, 30, processing_fee=50))
        assert await balance(db) == Balance(-20, 0, 0)

    async def test_without_a_settlement_date_is_there_at_once(self, db: Database) -> None:
        await posted(db, pay(1, 10_000, processing_fee=270, settles_at=None))
        assert await balance(db) == Balance(9_730, 0, 0)
        assert await parts(db) == {}

    async def test_keeps_currencies_apart(self, db: Database, urls: Urls) -> None:
        await posted(db, pay(1, 500), pay(2, 700, currency="EUR"))
        assert await balance(db) == Balance(0, 500, 0)
        assert await balance(db, SHOP, "EUR") == Balance(0, 700, 0)
        await assert_sound(urls)


class TestSettlement:
    async def test_moves_what_is_left_and_has_no_public_row(self, db: Database) -> None:
        await posted(db, pay(1, 10_000), refund(1, 4_000))
        before = await rows(db)
        assert await outcomes(db, settle()) == ["posted"]
        assert await balance(db) == Balance(6_000, 0, 0)
        assert await rows(db) == before
        assert await outcomes(db, settle()) == ["existing"]

    async def test_of_nothing_is_no_journal(self, db: Database) -> None:
        await posted(db, pay(1, 10_000), refund(1, 10_000))
        assert await outcomes(db, settle(), settle(9)) == ["empty", "empty"]
        assert await parts(db) == {}

    async def test_sweep_settles_what_is_due_once(self, db: Database, urls: Urls) -> None:
        now = await instance_now(db)
        early, late = now + timedelta(hours=1), now + timedelta(hours=2)
        await posted(db, *(pay(n, 100, settles_at=early) for n in range(1, 6)), pay(6, 50, settles_at=late))
        assert await next_settlement(db) == early
        assert await settle_due(db, now) == 0
        assert [await settle_due(db, early, batch=3) for _ in range(3)] == [3, 2, 0]
        assert await balance(db) == Balance(500, 50, 0)
        assert await next_settlement(db) == late
        await assert_sound(urls)


class TestRefund:
    async def test_draws_on_its_own_part_then_on_main(self, db: Database) -> None:
        await posted(db, top_up(1, 3_000), pay(1, 10_000, processing_fee=270), pay(2, 5_000))
        await posted(db, refund(1, 10_000))
        assert await balance(db) == Balance(3_000 - 270, 5_000, 0)
        assert await parts(db) == {"transaction:1": 0, "transaction:2": 5_000}

    async def test_is_judged_on_available(self, db: Database, urls: Urls) -> None:
        await posted(db, pay(1, 1_000, settles_at=None), payout(1, 1_000), pay(2, 900))
        assert await outcomes(db, refund(1, 901), refund(2, 900)) == ["insufficient", "posted"]
        assert await balance(db) == Balance(-900, 900, 0)
        await assert_sound(urls)

    async def test_takes_the_application_fee_from_the_platform(self, db: Database, urls: Urls) -> None:
        await posted(db, pay(1, 10_000, processing_fee=270, application_fee=500, platform_id=PLATFORM))
        await posted(db, top_up(1, 270), refund(1, 10_000, application_fee_reversed=500, platform_id=PLATFORM))
        assert await balance(db) == Balance(0, 0, 0)
        assert await balance(db, PLATFORM) == Balance(0, 0, 0)
        await assert_sound(urls)

    async def test_may_leave_the_platform_negative_but_not_the_merchant(self, db: Database) -> None:
        await posted(db, pay(1, 10_000, application_fee=500, platform_id=PLATFORM))
        await posted(db, payout(1, 500, PLATFORM, speed="instant"))
        await posted(db, refund(1, 10_000, application_fee_reversed=500, platform_id=PLATFORM))
        assert await balance(db, PLATFORM) == Balance(-500, 0, 0)
        assert await balance(db) == Balance(0, 0, 0)

    async def test_that_fails_puts_everything_back(self, db: Database, urls: Urls) -> None:
        await posted(
            db, top_up(1, 1_000), pay(1, 10_000, processing_fee=270, application_fee=500, platform_id=PLATFORM)
        )
        before = (await balance(db), await balance(db, PLATFORM), await parts(db))
        facts: dict[str, Any] = {
            "account_id": SHOP, "refund_id": 1, "transaction_id": 1, "currency": "GBP", "amount": 10_000,
            "application_fee_reversed": 500, "platform_id": PLATFORM,
        }  # fmt: skip
        await posted(db, journals.refund(**facts), journals.refund_failed(**facts))
        assert (await balance(db), await balance(db, PLATFORM), await parts(db)) == before
        await assert_sound(urls)


class TestReserve:
    async def test_returns_to_where_it_came_from(self, db: Database, urls: Urls) -> None:
        await posted(db, top_up(1, 500), pay(1, 1_000), reserve(1, 1_200))
        assert await balance(db) == Balance(300, 0, 1_200)
        await posted(db, release(1, 1_100))
        assert await balance(db) == Balance(400, 1_000, 100)
        await posted(db, release(2, 100))
        assert await balance(db) == Balance(500, 1_000, 0)
        await assert_sound(urls)

    async def test_returns_to_main_if_that_has_settled_since(self, db: Database, urls: Urls) -> None:
        await posted(db, pay(1, 1_000), reserve(1, 600), settle(), release(1, 600))
        assert await balance(db) == Balance(1_000, 0, 0)
        await assert_sound(urls)

    async def test_cannot_hold_what_is_not_there_nor_release_what_is_not_held(self, db: Database) -> None:
        await posted(db, pay(1, 1_000))
        assert await outcomes(db, reserve(1, 1_001)) == ["insufficient"]
        await posted(db, reserve(2, 300))
        with pytest.raises(asyncpg.CheckViolationError, match="holds only 300 of 301"):
            await post(db, [release(1, 301)])
        assert await balance(db) == Balance(0, 700, 300)

    async def test_shows_as_hold_and_release(self, db: Database) -> None:
        await posted(db, pay(1, 1_000), reserve(1, 600), release(1, 200))
        assert await rows(db) == [
            ("credit", "payment", 1_000, 0, 1_000),
            ("hold", "reserve", 600, 1_000, 400),
            ("release", "reserve", 200, 400, 600),
        ]


class TestPayout:
    async def test_standard_takes_settled_money_only(self, db: Database) -> None:
        await posted(db, top_up(1, 1_000), pay(1, 5_000))
        assert await outcomes(db, payout(1, 1_001), payout(2, 900, fee=101), payout(3, 900, fee=100)) == [
            "insufficient", "insufficient", "posted",
        ]  # fmt: skip
        assert await balance(db) == Balance(0, 5_000, 0)

    async def test_instant_takes_main_then_the_oldest_parts(self, db: Database, urls: Urls) -> None:
        await posted(
            db, top_up(1, 100), pay(1, 1_000, settles_at=LATER + timedelta(days=1)), pay(2, 1_000),
            pay(3, 1_000, settles_at=LATER + timedelta(days=2)),
        )  # fmt: skip
        await posted(db, payout(1, 1_600, speed="instant"))
        assert await balance(db) == Balance(0, 1_500, 0)
        assert await parts(db) == {"transaction:1": 500, "transaction:2": 0, "transaction:3": 1_000}
        await assert_sound(urls)

    async def test_that_comes_back_goes_to_where_it_came_from(self, db: Database, urls: Urls) -> None:
        await posted(db, top_up(1, 100), pay(1, 1_000), pay(2, 1_000))
        assert await outcomes(db, payout(1, 1_600, speed="instant"), settle(1)) == ["posted", "empty"]
        back = journals.payout_return(account_id=SHOP, payout_id=1, currency="GBP", amount=1_600)
        assert await outcomes(db, back, back) == ["posted", "existing"]
        assert await balance(db) == Balance(1_100, 1_000, 0)
        assert await parts(db) == {"transaction:2": 1_000}
        await assert_sound(urls)

    async def test_passes_through_transit_to_the_bank_and_back(self, db: Database, urls: Urls) -> None:
        await posted(db, top_up(1, 1_000), payout(1, 600, fee=25))
        facts: dict[str, Any] = {"account_id": SHOP, "payout_id": 1, "currency": "GBP", "amount": 600}
        await posted(db, journals.payout_paid(**facts), journals.payout_return(**facts, fee_returned=25, was_paid=True))
        assert await balance(db) == Balance(1_000, 0, 0)
        legs = await db.fetch(
            """
            SELECT account, sum(amount) AS amount
            FROM journal, unnest(accounts, amounts) AS leg (account, amount)
            GROUP BY account
            """
        )
        assert {row["account"]: row["amount"] for row in legs} == {
            "main": 1_000, "adjustments": -1_000, "bank_transit": 0, "bank": 0, "fees": 0,
        }  # fmt: skip
        await assert_sound(urls)

    async def test_from_a_negative_wallet_is_refused(self, db: Database) -> None:
        await posted(db, top_up(1, -500), pay(1, 400))
        assert await outcomes(db, payout(1, 1, speed="instant"), reserve(1, 1), refund(1, 1)) == ["insufficient"] * 3

    async def test_disbursement_is_alike(self, db: Database, urls: Urls) -> None:
        await posted(db, top_up(1, 1_000))
        facts: dict[str, Any] = {"account_id": SHOP, "payment_id": 1, "currency": "GBP", "amount": 1_000}
        assert await outcomes(db, journals.disbursement(**facts, fee=1)) == ["insufficient"]
        await posted(db, journals.disbursement(**facts), journals.disbursement_paid(**facts))
        await posted(db, journals.disbursement_return(**facts, was_paid=True))
        assert await balance(db) == Balance(1_000, 0, 0)
        await assert_sound(urls)


class TestDispute:
    async def test_always_posts_and_draws_on_its_own_part_first(self, db: Database, urls: Urls) -> None:
        await posted(db, pay(1, 1_000), pay(2, 300), dispute(1, 1_000))
        assert await balance(db) == Balance(-1_500, 300, 0)
        await assert_sound(urls)

    async def test_won_gives_the_amount_back_and_keeps_the_fee(self, db: Database, urls: Urls) -> None:
        await posted(db, pay(1, 5_000), dispute(1, 2_000), dispute_won(1, 2_000))
        assert await balance(db) == Balance(0, 3_500, 0)
        assert [row[:3] for row in await rows(db)] == [
            ("credit", "payment", 5_000),
            ("debit", "dispute", 2_000),
            ("debit", "fee", 1_500),
            ("credit", "dispute", 2_000),
        ]
        await assert_sound(urls)

    async def test_won_after_settlement_goes_to_main(self, db: Database) -> None:
        await posted(db, pay(1, 5_000), dispute(1, 2_000), settle(), dispute_won(1, 2_000))
        assert await balance(db) == Balance(3_500, 0, 0)


class TestAdjustment:
    async def test_up_and_down_in_both_buckets(self, db: Database, urls: Urls) -> None:
        def adjust(number: int, amount: int, pending: bool) -> Journal:
            return journals.adjustment(
                account_id=SHOP, adjustment_id=number, currency="GBP", amount=amount, pending=pending, settles_at=LATER
            )

        await posted(db, adjust(1, 1_000, False), adjust(2, 500, True))
        assert await balance(db) == Balance(1_000, 500, 0)
        await posted(db, adjust(3, -200, True), adjust(4, -1_500, False))
        assert await balance(db) == Balance(-500, 300, 0)
        await posted(db, adjust(5, -400, True))
        assert await balance(db) == Balance(-600, 0, 0)
        await assert_sound(urls)


class TestTwoAccounts:
    async def test_collection_is_held_then_collected_or_voided(self, db: Database, urls: Urls) -> None:
        facts: dict[str, Any] = {"account_id": SHOP, "currency": "GBP", "amount": 400}
        await posted(db, top_up(1, 1_000), pay(1, 300))
        await posted(db, *(journals.collection_hold(**facts, collection_id=n) for n in (1, 2)))
        assert await outcomes(db, journals.collection_hold(**facts, collection_id=3)) == ["insufficient"]
        assert await balance(db) == Balance(200, 300, 800)
        await posted(
            db,
            journals.collection(**facts, collection_id=1, platform_id=PLATFORM, service_share=40),
            journals.collection_void(**facts, collection_id=2),
        )
        assert await balance(db) == Balance(600, 300, 0)
        assert await balance(db, PLATFORM) == Balance(360, 0, 0)
        assert [row[:2] for row in await rows(db)][2:] == [
            ("hold", "collection"), ("hold", "collection"), ("release", "collection"), ("debit", "collection"),
            ("release", "collection"),
        ]  # fmt: skip
        with pytest.raises(asyncpg.CheckViolationError):  # it was voided: there is nothing left to collect
            await post(db, [journals.collection(**facts, collection_id=2, platform_id=PLATFORM)])
        await assert_sound(urls)

    async def test_funding_is_held_then_posted_or_voided(self, db: Database, urls: Urls) -> None:
        facts: dict[str, Any] = {"account_id": PLATFORM, "currency": "GBP", "amount": 400}
        await posted(db, top_up(1, 1_000, PLATFORM))
        await posted(db, *(journals.funding_hold(**facts, funding_id=n) for n in (1, 2)))
        await posted(
            db, journals.funding(**facts, funding_id=1, receiver_id=OTHER), journals.funding_void(**facts, funding_id=2)
        )
        assert await balance(db, PLATFORM) == Balance(600, 0, 0)
        assert await balance(db, OTHER) == Balance(400, 0, 0)
        await assert_sound(urls)

    async def test_late_capture_touches_no_wallet(self, db: Database, urls: Urls) -> None:
        facts: dict[str, Any] = {"account_id": SHOP, "transaction_id": 1, "currency": "GBP", "amount": 900}
        late = journals.late_capture(**facts)
        assert await outcomes(db, late, late) == ["posted", "existing"]
        assert await outcomes(db, journals.late_capture_refund(**facts), late) == ["posted", "existing"]
        assert await db.fetchval("SELECT count(*) FROM wallet") == 0
        await assert_sound(urls)


class TestLists:
    async def test_fail_alone_and_see_what_came_before_them(self, db: Database, urls: Urls) -> None:
        listed = [
            top_up(1, 1_000),
            payout(1, 600),
            payout(2, 600),
            payout(3, 400),
            pay(1, 500),
            refund(1, 200),
            payout(1, 600),
        ]
        postings = await post(db, listed)
        assert [posting.outcome.value for posting in postings] == [
            "posted", "posted", "insufficient", "posted", "posted", "posted", "existing",
        ]  # fmt: skip
        assert postings[2].available_minor == 400
        assert postings[6].journal_id == postings[1].journal_id
        assert await balance(db) == Balance(0, 300, 0)
        await assert_sound(urls)

    async def test_update_each_wallet_once(self, db: Database) -> None:
        await posted(db, top_up(1, 1))
        updates = "SELECT n_tup_upd FROM pg_stat_xact_user_tables WHERE relname = 'wallet'"
        async with db.transaction() as connection:
            before = await connection.fetchval(updates)
            await post(connection, [pay(n, 100) for n in range(1, 51)])
            assert await connection.fetchval(updates) == before + 1

    async def test_raise_only_when_asked(self, db: Database) -> None:
        async with db.transaction() as connection:
            postings = await post(connection, [payout(1, 5)])
            assert postings[0].outcome is Outcome.INSUFFICIENT
            with pytest.raises(InsufficientBalance) as refused:
                await post(connection, [payout(1, 5)], require=True)
        assert refused.value.details == {"available": 0, "currency": "GBP"}
        assert await post(db, []) == []

    async def test_have_a_largest_size(self, db: Database) -> None:
        with pytest.raises(ValueError, match="at most"):
            await post(db, [pay(n) for n in range(LARGEST_LIST + 1)])
        await posted(db, *(pay(n) for n in range(LARGEST_LIST)))

    async def test_of_impossible_lines_are_refused_whole(self, db: Database) -> None:
        wrong_kind = journal(
            SHOP, "payment", 1, "GBP", [credit(SHOP, "payment", 5), service("fees", -5)], related="x:1"
        )
        msgspec.structs.force_setattr(wrong_kind.lines[0], "kind", "gift")
        with pytest.raises(asyncpg.NotNullViolationError, match="fact"):
            await post(db, [top_up(1, 5), wrong_kind])
        crooked = journal(SHOP, "payment", 1, "GBP", [credit(SHOP, "payment", 5), service("fees", -5)], related="x:1")
        msgspec.structs.force_setattr(crooked.lines[1], "amount", -4)
        with pytest.raises(asyncpg.CheckViolationError, match="journal_balances"):
            await post(db, [top_up(1, 5), crooked])
        lost = journal(SHOP, "payment", 1, "GBP", [draw(SHOP, "payment", 5, "own"), service("fees", 5)], related="x:1")
        msgspec.structs.force_setattr(lost.lines[0], "via", "magic")
        with pytest.raises(asyncpg.InvalidParameterValueError):
            await post(db, [top_up(1, 5), lost])
        assert await db.fetchval("SELECT count(*) FROM journal") == 0


class TestStatus:
    async def status(self, db: Database, kind: str) -> str:
        value = await db.fetchval(
            "SELECT t.status FROM wallet_transaction t JOIN wallet_entry e USING (account_id, id) WHERE e.kind = $1",
            kind,
        )
        return str(value)

    async def test_of_a_payment_is_pending_until_it_settles(self, db: Database) -> None:
        await posted(db, pay(1, 1_000))
        assert await self.status(db, "payment") == "pending"
        await posted(db, settle())
        assert await self.status(db, "payment") == "posted"

    async def test_of_a_hold_is_pending_until_it_is_given_back(self, db: Database) -> None:
        await posted(db, pay(1, 1_000), reserve(1, 500), release(1, 200))
        assert await self.status(db, "reserve") == "pending"
        await posted(db, release(2, 300))
        assert await self.status(db, "reserve") == "reversed"

    async def test_of_what_was_undone_is_reversed(self, db: Database) -> None:
        await posted(db, top_up(1, 1_000), payout(1, 500), pay(1, 100), dispute(1, 100))
        assert (await self.status(db, "payout"), await self.status(db, "dispute")) == ("posted", "posted")
        await posted(
            db,
            journals.payout_return(account_id=SHOP, payout_id=1, currency="GBP", amount=500),
            dispute_won(1, 100),
        )
        assert (await self.status(db, "payout"), await self.status(db, "dispute")) == ("reversed", "reversed")
        assert await self.status(db, "payout_return") == "posted"
