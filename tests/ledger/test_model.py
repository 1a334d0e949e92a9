"""The real ledger against the small one: any order of events, one at a time and from many tasks at once."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from bursar.db.embedded import Urls
from bursar.db.pool import Database
from bursar.ledger import journals
from bursar.ledger.lines import Journal
from bursar.ledger.post import Outcome, post
from tests.ledger.books import (
    LATER,
    assert_sound,
    dispute,
    dispute_won,
    pay,
    payout,
    refund,
    release,
    reserve,
    settle,
    top_up,
)
from tests.ledger.model import Purse

# An amount is a number, or lies at an edge of what the wallet has: there the rules decide.
AMOUNTS = st.one_of(
    st.integers(1, 3_000),
    st.tuples(st.sampled_from(["main", "available", "part", "half"]), st.integers(-1, 1)),
)
Amount = int | tuple[str, int]
numbers = itertools.count(1)
accounts = itertools.count(10_000)


class Machine(RuleBasedStateMachine):
    """One shop's wallet. Every rule posts a journal and does the same to the model."""

    loop: asyncio.Runner
    db: Database

    def __init__(self) -> None:
        super().__init__()
        self.account = next(accounts)
        self.purse = Purse()
        self.payments: list[int] = []
        self.payouts: dict[int, int] = {}
        self.disputes: dict[int, int] = {}

    @initialize(amounts=st.lists(st.integers(500, 3_000), min_size=2, max_size=4), settled=st.integers(0, 4_000))
    def fund(self, amounts: list[int], settled: int) -> None:
        """A wallet of nothing refuses everything, and so shows nothing. The parts settle on different days."""
        for days, amount in enumerate(amounts):
            self.pay_in(amount, 0, len(amounts) - days)
        if settled:
            self.adjust(settled)

    def sized(self, amount: Amount) -> int:
        if isinstance(amount, int):
            return amount
        edge, beside = amount
        purse = self.purse
        largest = max((part.amount for part in purse.parts.values()), default=0)
        sizes = {"main": purse.main, "available": purse.available, "part": largest, "half": purse.available // 2}
        return max(1, sizes[edge] + beside)

    def post(self, journal: Journal) -> bool:
        posting = self.loop.run(post(self.db, [journal]))[0]
        assert posting.outcome in (Outcome.POSTED, Outcome.INSUFFICIENT)
        if posting.outcome is Outcome.INSUFFICIENT:
            assert posting.available_minor == self.purse.available
        return posting.outcome is Outcome.POSTED

    def one_of(self, pick: int) -> int | None:
        return self.payments[pick % len(self.payments)] if self.payments else None

    @rule(amount=st.integers(1, 3_000), fee=st.integers(0, 200), days=st.integers(0, 3))
    def payment(self, amount: int, fee: int, days: int) -> None:
        self.pay_in(amount, fee, days)

    def pay_in(self, amount: int, fee: int, days: int) -> None:
        number = next(numbers)
        settles_at = LATER + timedelta(days=days)
        assert self.post(pay(number, amount, self.account, processing_fee=fee, settles_at=settles_at))
        self.purse.pay_in(amount, f"transaction:{number}", settles_at)
        self.purse.take_own(fee, f"transaction:{number}", defaultdict(int))
        self.payments.append(number)

    @rule(amount=st.integers(-500, 2_000).filter(bool))
    def adjust(self, amount: int) -> None:
        assert self.post(top_up(next(numbers), amount, self.account))
        self.purse.main += amount

    @rule(pick=st.integers(0, 99), size=AMOUNTS)
    def refund(self, pick: int, size: Amount) -> None:
        amount = self.sized(size)
        if (of := self.one_of(pick)) is None:
            return
        number = next(numbers)
        fits = self.purse.available >= amount
        assert self.post(refund(number, amount, of, self.account)) == fits
        if fits:
            self.purse.take_own(amount, f"transaction:{of}", self.purse.gone[f"refund:{number}"])

    @rule(pick=st.integers(0, 99), size=AMOUNTS)
    def hold(self, pick: int, size: Amount) -> None:
        amount = self.sized(size)
        if (of := self.one_of(pick)) is None:
            return
        fits = self.purse.available >= amount
        assert self.post(reserve(next(numbers), amount, of, self.account)) == fits
        if fits:
            self.purse.take_own(amount, f"transaction:{of}", self.purse.aside[f"transaction:{of}"])
            self.purse.reserve += amount

    @rule(pick=st.integers(0, 99), size=AMOUNTS)
    def release(self, pick: int, size: Amount) -> None:
        amount = self.sized(size)
        of = self.one_of(pick)
        held = sum(self.purse.aside[f"transaction:{of}"].values())
        if of is None or not held:
            return
        amount = min(amount, held)
        assert self.post(release(next(numbers), amount, of, self.account))
        self.purse.give_back(amount, self.purse.aside[f"transaction:{of}"])
        self.purse.reserve -= amount

    @rule(pick=st.integers(0, 99), size=AMOUNTS, fee=st.integers(0, 1_500))
    def dispute(self, pick: int, size: Amount, fee: int) -> None:
        amount = self.sized(size)
        if (of := self.one_of(pick)) is None:
            return
        number = next(numbers)
        assert self.post(dispute(number, amount, of, self.account, fee))
        for taken in (amount, fee):
            self.purse.take_own(taken, f"transaction:{of}", self.purse.gone[f"dispute:{number}"])
        self.disputes[number] = amount

    @rule()
    def win(self) -> None:
        if not self.disputes:
            return
        number, amount = self.disputes.popitem()
        assert self.post(dispute_won(number, amount, self.account))
        self.purse.give_back(amount, self.purse.gone[f"dispute:{number}"])

    @rule(size=AMOUNTS, fee=st.integers(0, 50), instant=st.booleans())
    def payout(self, size: Amount, fee: int, instant: bool) -> None:
        amount = self.sized(size)
        number = next(numbers)
        fits = self.purse.available >= amount + fee and (instant or self.purse.main >= amount + fee)
        speed: journals.Speed = "instant" if instant else "standard"
        assert self.post(payout(number, amount, self.account, fee=fee, speed=speed)) == fits
        if fits:
            for taken in (amount, fee):
                if instant:
                    self.purse.take_oldest(taken, self.purse.gone[f"payout:{number}"])
                else:
                    self.purse.main -= taken
            self.payouts[number] = amount

    @rule()
    def payout_back(self) -> None:
        if not self.payouts:
            return
        number, amount = self.payouts.popitem()
        back = journals.payout_return(account_id=self.account, payout_id=number, currency="GBP", amount=amount)
        assert self.post(back)
        self.purse.give_back(amount, self.purse.gone[f"payout:{number}"])

    @rule(pick=st.integers(0, 99))
    def settle(self, pick: int) -> None:
        if (of := self.one_of(pick)) is None:
            return
        source = f"transaction:{of}"
        posting = self.loop.run(post(self.db, [settle(of, self.account)]))[0]
        moved = self.purse.settle(source)
        if moved:
            assert posting.outcome is Outcome.POSTED
        else:
            assert posting.outcome in (Outcome.EMPTY, Outcome.EXISTING)

    @invariant()
    def same_balances(self) -> None:
        row = self.loop.run(
            self.db.fetchrow("SELECT main, pending, reserve FROM wallet WHERE account_id = $1", self.account)
        )
        found = tuple(row) if row else (0, 0, 0)
        assert found == self.purse.balances
        rows = self.loop.run(self.db.fetch("SELECT source, amount FROM unsettled WHERE account_id = $1", self.account))
        assert {row["source"]: row["amount"] for row in rows} == {
            source: part.amount for source, part in self.purse.parts.items()
        }
        assert self.purse.pending >= 0 <= self.purse.reserve


@pytest.fixture
def loop() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


def test_any_order_one_at_a_time(urls: Urls, loop: asyncio.Runner) -> None:
    Machine.loop = loop
    Machine.db = loop.run(Database.open(urls.service, size=2))
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=60,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            database=None,
        ),
    )
    loop.run(assert_sound(urls))
    loop.run(Machine.db.close())


@pytest.mark.parametrize("seed", [1, 2])
async def test_any_order_from_many_tasks_at_once(db: Database, urls: Urls, seed: int) -> None:
    """No model can know the order; what must hold whatever it was is held after every round."""
    rng = random.Random(seed)
    shops, platform = [1, 2, 3], 9
    paid = [(number, rng.choice(shops)) for number in range(1, 30)]
    spent = itertools.count(1)

    def anything() -> list[Journal]:
        number, shop = rng.choice(paid)
        n, amount = next(spent), rng.randrange(1, 900)
        chosen: list[list[Journal]] = [
            [pay(number, 1_000, shop, processing_fee=15, application_fee=50, platform_id=platform)],
            [refund(n, amount, number, shop, application_fee_reversed=2, platform_id=platform)],
            [reserve(n, amount, number, shop)],
            [dispute(n, amount, number, shop), dispute_won(n, amount, shop)],
            [payout(n, amount, shop, speed="instant"), payout(n + 10**6, amount, platform)],
            [settle(number, shop), settle(number, platform)],
        ]
        return rng.choice(chosen)

    async def task() -> None:
        for _ in range(6):
            async with db.transaction() as connection:
                await post(connection, anything() + anything())

    for _ in range(4):
        await asyncio.gather(*(task() for _ in range(8)))
        await assert_sound(urls)
