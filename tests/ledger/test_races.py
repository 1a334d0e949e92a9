"""Many at once: nothing is spent twice, no fact is posted twice, nobody deadlocks."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

import asyncpg
import msgspec
import pytest

from bursar.core.errors import ServiceUnavailable
from bursar.db.embedded import Urls
from bursar.db.pool import Database, persist
from bursar.ledger import journals
from bursar.ledger.lines import Journal
from bursar.ledger.post import Outcome, Posting, post
from bursar.ledger.writer import Writer
from tests.ledger.books import (
    PLATFORM,
    SHOP,
    Balance,
    assert_sound,
    balance,
    dispute,
    pay,
    payout,
    posted,
    refund,
    reserve,
    settle,
    top_up,
)


async def in_own_transaction(db: Database, journal: Journal) -> Posting:
    async with db.transaction() as connection:
        return (await post(connection, [journal]))[0]


def counted(postings: list[Posting]) -> dict[Outcome, int]:
    return {outcome: sum(posting.outcome is outcome for posting in postings) for outcome in Outcome}


@pytest.fixture
async def wide(urls: Urls) -> AsyncIterator[Database]:
    """A pool whose queue is long enough for a crowd."""
    opened = await Database.open(urls.service, size=8, wait_s=30, name="crowd")
    yield opened
    await opened.close()


class TestDoubleSpend:
    @pytest.mark.parametrize("speed", ["standard", "instant"])
    async def test_a_balance_for_ten_pays_ten(self, wide: Database, urls: Urls, speed: journals.Speed) -> None:
        await posted(wide, top_up(1, 1_000) if speed == "standard" else pay(1, 1_000))
        tries = [in_own_transaction(wide, payout(n, 100, speed=speed)) for n in range(100)]
        found = counted(await asyncio.gather(*tries))
        assert (found[Outcome.POSTED], found[Outcome.INSUFFICIENT]) == (10, 90)
        assert await balance(wide) == Balance(0, 0, 0)
        await assert_sound(urls)

    async def test_nor_does_the_writer_pay_more(self, wide: Database, urls: Urls) -> None:
        await posted(wide, top_up(1, 1_000))
        writer = Writer(wide)
        found = counted(await asyncio.gather(*(writer.post(payout(n, 100)) for n in range(100))))
        assert (found[Outcome.POSTED], found[Outcome.INSUFFICIENT]) == (10, 90)
        await assert_sound(urls)

    async def test_refunds_and_payouts_and_holds_race_for_the_same_money(self, wide: Database, urls: Urls) -> None:
        await posted(wide, pay(1, 1_000))
        kinds = (lambda n: payout(n, 60, speed="instant"), lambda n: refund(n, 60), lambda n: reserve(n, 60))
        tries = [in_own_transaction(wide, random.choice(kinds)(n)) for n in range(60)]
        found = counted(await asyncio.gather(*tries))
        assert found[Outcome.POSTED] == 16
        assert (await balance(wide)).available == 40
        await assert_sound(urls)


class TestTheSameFact:
    @pytest.mark.parametrize("grouped", [False, True])
    async def test_from_fifty_tasks_is_one_journal(self, wide: Database, urls: Urls, grouped: bool) -> None:
        writer = Writer(wide)
        fact = pay(1, 1_000, application_fee=50, platform_id=PLATFORM)
        late = journals.late_capture(account_id=SHOP, transaction_id=2, currency="GBP", amount=5)  # locks no wallet

        async def once(journal: Journal) -> Posting:
            return await (writer.post(journal) if grouped else self.persistent(wide, journal))

        for journal in (fact, late):
            postings = await asyncio.gather(*(once(journal) for _ in range(50)))
            assert counted(postings)[Outcome.POSTED] == 1
            assert len({posting.journal_id for posting in postings}) == 1
        assert await balance(wide) == Balance(0, 950, 0)
        assert await wide.fetchval("SELECT count(*) FROM journal") == 2
        await assert_sound(urls)

    async def persistent(self, db: Database, journal: Journal) -> Posting:
        return await persist(lambda: in_own_transaction(db, journal), tries=50)


class TestMixedLoad:
    async def test_on_few_wallets_never_deadlocks(self, wide: Database, urls: Urls) -> None:
        """Lists of journals over two wallets each, in both directions, from many transactions at once."""
        rng = random.Random(7)
        accounts = list(range(1, 9))
        numbers = iter(range(1, 100_000))
        await posted(wide, *(top_up(account, 1_000_000, account) for account in accounts))

        def anything() -> Journal:
            n = next(numbers)
            shop, other = rng.sample(accounts, 2)
            kind = rng.randrange(5)
            if kind == 0:
                return pay(n, 1_000, shop, application_fee=50, platform_id=other, processing_fee=20)
            if kind == 1:
                return payout(n, 500, shop, speed="instant")
            if kind == 2:
                return dispute(n, 300, n - 1, shop)
            if kind == 3:
                return settle(n - 1, shop)
            return refund(n, 10, n - 1, shop, application_fee_reversed=5, platform_id=other)

        async def task() -> None:
            for _ in range(12):
                async with wide.transaction() as connection:
                    await post(connection, [anything() for _ in range(rng.randrange(1, 12))])

        await asyncio.gather(*(task() for _ in range(16)))
        await assert_sound(urls)


class TestWriter:
    async def test_fails_only_what_is_impossible(self, db: Database, urls: Urls) -> None:
        writer = Writer(db, lanes=1)
        crooked = pay(2, 100)
        msgspec.structs.force_setattr(crooked.lines[0], "amount", -99)
        results = await asyncio.gather(
            *(writer.post(journal) for journal in (top_up(1, 100), pay(1, 100), crooked, payout(1, 100), payout(2, 1))),
            return_exceptions=True,
        )
        kinds = [result.outcome.value if isinstance(result, Posting) else type(result).__name__ for result in results]
        assert kinds == ["posted", "posted", "CheckViolationError", "posted", "insufficient"]
        await assert_sound(urls)

    async def test_survives_lost_connections(self, db: Database, urls: Urls) -> None:
        """Natural keys make a second try safe, whatever became of the first."""
        writer = Writer(db)

        async def cut() -> None:
            knife = await asyncpg.connect(urls.owner)
            for _ in range(8):
                await asyncio.sleep(0.06)
                await knife.execute(
                    """
                    SELECT pg_terminate_backend(pid)
                    FROM pg_stat_activity
                    WHERE usename = 'bursar_app' AND datname = current_database()
                    """
                )
            await knife.close()

        async def insist(journal: Journal) -> None:
            for _ in range(20):
                try:
                    await writer.post(journal)
                except ServiceUnavailable:  # then nobody knows, and the caller asks again
                    continue
                return
            raise AssertionError("never posted")

        cutting = asyncio.create_task(cut())
        n = 0
        while not cutting.done():
            await asyncio.gather(*(insist(pay(n + i, 100)) for i in range(10)))
            n += 10
        await cutting
        assert (await balance(db)).pending == 100 * n
        await assert_sound(urls)
