"""Journals as pure functions: whatever the facts, they balance, and shares add up."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bursar.core.money import Fee
from bursar.ledger import journals
from bursar.ledger.kinds import KINDS, SERVICE_ACCOUNTS
from bursar.ledger.lines import Journal, credit, journal, service

FUNCTIONS: dict[str, Callable[..., Journal]] = {
    name: function
    for name, function in inspect.getmembers(journals, inspect.isfunction)
    if function.__module__ == journals.__name__ and inspect.signature(function).return_annotation == "Journal"
}
AMOUNTS = st.integers(1, 10**11)
NOW = datetime(2026, 3, 2, tzinfo=UTC)


def strategy(name: str) -> st.SearchStrategy[Any]:
    if name.endswith("_id"):
        return st.integers(1, 10**9)
    return {
        "amount": AMOUNTS,
        "currency": st.sampled_from(["GBP", "EUR", "JPY"]),
        "settles_at": st.sampled_from([None, NOW]),
        "event_at": st.none(),
        "note": st.text(max_size=20),
        "source": st.just("transaction:7"),
        "speed": st.sampled_from(["standard", "instant"]),
        "fee_payer": st.sampled_from(["connected_account", "platform"]),
        "was_paid": st.booleans(),
        "pending": st.just(False),
    }.get(name, st.integers(0, 5_000))


def total(made: Journal) -> int:
    signs = {"service": 1, "credit": 1, "draw": -1}
    return sum(signs.get(line.op, 0) * line.amount for line in made.lines)


class TestEveryJournal:
    @pytest.mark.parametrize("name", sorted(FUNCTIONS))
    @given(data=st.data())
    def test_balances_and_says_what_it_is_about(self, name: str, data: st.DataObject) -> None:
        function = FUNCTIONS[name]
        facts = {key: data.draw(strategy(key), key) for key in inspect.signature(function).parameters}
        if "service_share" in facts:
            facts["service_share"] = min(facts["service_share"], facts["amount"])
        made = function(**facts)
        assert total(made) == 0
        assert all(line.amount or line.op == "settle" for line in made.lines)
        assert made.currency == facts["currency"]
        assert ":" in made.related
        for line in made.lines:
            assert line.kind in (SERVICE_ACCOUNTS if line.op == "service" else KINDS)

    def test_are_as_many_as_the_service_knows(self) -> None:
        assert set(FUNCTIONS) >= {
            "payment", "settlement", "refund", "refund_failed", "reserve", "reserve_release", "payout", "payout_paid",
            "payout_return", "dispute", "dispute_won", "adjustment", "late_capture", "late_capture_refund",
            "collection_hold", "collection", "collection_void", "funding_hold", "funding", "funding_void",
            "disbursement", "disbursement_paid", "disbursement_return",
        }  # fmt: skip


class TestWhatMakesNoSense:
    def test_is_refused_before_it_reaches_the_database(self) -> None:
        for lines, why in (
            ([service("fees", 1)], "does not balance"),
            ([credit(1, "gift", 1), service("fees", -1)], "unknown kind"),
            ([service("petty cash", 1), service("fees", -1)], "unknown kind"),
            ([credit(0, "payment", 1), service("fees", -1)], "without an amount or a wallet"),
            ([], "moves nothing"),
        ):
            with pytest.raises(ValueError, match=why):
                journal(1, "payment", 1, "GBP", lines, related="x:1")

    def test_is_a_fee_for_no_platform_and_pending_money_without_a_date(self) -> None:
        impossible: list[dict[str, Any]] = [{"application_fee": 5}, {"fee_payer": "platform"}]
        for facts in impossible:
            with pytest.raises(ValueError, match="platform"):
                journals.payment(
                    account_id=1, transaction_id=1, currency="GBP", amount=100, settles_at=None, **facts
                )  # fmt: skip
        with pytest.raises(ValueError, match="date"):
            journals.adjustment(account_id=1, adjustment_id=1, currency="GBP", amount=5, pending=True)


class TestRounding:
    @given(
        amount=AMOUNTS,
        percent=st.decimals(0, 100, places=2),
        cuts=st.lists(st.integers(1, 10**11), max_size=6),
    )
    def test_shares_of_the_application_fee_add_up_whatever_the_refunds(
        self, amount: int, percent: Decimal, cuts: list[int]
    ) -> None:
        fee = min(Fee(0, percent).on(amount), amount)
        steps = sorted({cut % amount for cut in cuts} | {0, amount})
        shares = [
            journals.application_fee_share(
                application_fee=fee, amount=upto - since, payment_amount=amount, refunded_before=since
            )
            for since, upto in pairwise(steps)
        ]
        assert sum(shares) == fee
        assert all(share >= 0 for share in shares)

    def test_is_half_up_to_the_penny(self) -> None:
        share = journals.application_fee_share
        assert share(application_fee=1, amount=50, payment_amount=100, refunded_before=0) == 1
        assert share(application_fee=1, amount=50, payment_amount=100, refunded_before=50) == 0
        assert Fee(20, Decimal("1.50")).on(1_010) == 20 + 15  # 15.15
        assert Fee(20, Decimal("1.50")).on(1_100) == 20 + 17  # 16.5
