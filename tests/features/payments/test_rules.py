"""The pure parts of payments: references, amounts, fees, the table of states."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bursar.core.errors import InvalidConnectApplicationFee
from bursar.core.money import InvalidAmount, shown_amount
from bursar.features.payments import reference, rules, states

NUMBERS = st.integers(1, 2**63 - 1)


class TestReferences:
    @given(NUMBERS)
    def test_there_and_back(self, number: int) -> None:
        made = reference.make(reference.PAYMENT, number)
        assert reference.number_of(reference.PAYMENT, made) == number
        assert reference.number_of(reference.PAYMENT, made.lower()) == number

    @given(NUMBERS)
    def test_one_kind_is_not_another(self, number: int) -> None:
        assert reference.number_of(reference.LINK, reference.make(reference.PAYMENT, number)) is None

    @given(st.integers(100_001, 10**9), st.data())
    def test_neighbours_that_change_places_are_noticed(self, number: int, data: Any) -> None:
        made = reference.make(reference.PAYMENT, number)
        at = data.draw(st.integers(len(reference.PAYMENT), len(made) - 3))
        swapped = made[:at] + made[at + 1] + made[at] + made[at + 2 :]
        differ = {made[at], made[at + 1]} not in ({"0", "Z"}, {made[at]})  # whose values are the same, divided by 31
        assert (reference.number_of(reference.PAYMENT, swapped) is None) == differ or swapped == made

    @pytest.mark.parametrize("text", ["", "PAY-", "PAY-U000000", "PAY-00000000000000000", "PAY-ÄÖÜÄÖÜÄ", "100001"])
    def test_what_is_none(self, text: str) -> None:
        assert reference.number_of(reference.PAYMENT, text) is None


class TestAmounts:
    @pytest.mark.parametrize(("currency", "least"), [("GBP", 30), ("EUR", 50), ("USD", 50), ("CHF", 50), ("JPY", 50)])
    def test_the_least(self, currency: str, least: int) -> None:
        scale = 1 if currency == "JPY" else 100
        assert rules.amount_minor(Decimal(least) / scale, currency) == least
        with pytest.raises(InvalidAmount, match="at least"):
            rules.amount_minor(Decimal(least - 1) / scale, currency)

    @given(st.integers(30, rules.GREATEST))
    def test_every_penny_between(self, minor: int) -> None:
        assert rules.amount_minor(Decimal(minor).scaleb(-2), "GBP") == minor

    @pytest.mark.parametrize(
        ("minor", "currency", "shown"),
        [
            (123450, "GBP", "£1,234.50"),
            (99999999, "EUR", "€999,999.99"),
            (50, "USD", "$0.50"),
            (1234, "JPY", "¥1,234"),
            (123450, "CHF", "CHF\u00a01,234.50"),
            (123456, "KWD", "KWD\u00a0123.456"),
        ],
    )
    def test_as_customers_see_them(self, minor: int, currency: str, shown: str) -> None:
        assert shown_amount(minor, currency) == shown


class TestFees:
    @pytest.mark.parametrize(
        ("channel", "amount", "fee"),
        [("api", 4999, 95), ("card", 4999, 75), ("keyed", 4999, 150), ("api", 30, 20), ("api", 10000, 170)],
    )
    def test_the_price_list(self, channel: str, amount: int, fee: int) -> None:
        assert rules.processing_fee({}, channel, amount, "GBP") == fee

    @given(st.integers(1, rules.GREATEST), st.decimals(0, 20, places=2), st.decimals(0, 100, places=2))
    def test_a_default_fee_never_exceeds_the_amount(self, amount: int, fixed: Decimal, percent: Decimal) -> None:
        fee = rules.application_fee(None, {"fixed": fixed, "percent": percent}, amount, "GBP", allowed=False)
        assert fee is None or 0 <= fee <= amount

    @given(st.integers(0, 5000))
    def test_a_fee_within_the_amount(self, minor: int) -> None:
        assert rules.application_fee(Decimal(minor).scaleb(-2), {}, 5000, "GBP", allowed=True) == minor

    @pytest.mark.parametrize("sent", [Decimal("-0.01"), Decimal("50.01"), Decimal("0.001"), "x", "NaN"])
    def test_a_fee_that_is_none(self, sent: Any) -> None:
        with pytest.raises(InvalidConnectApplicationFee):
            rules.application_fee(sent, {}, 5000, "GBP", allowed=True)


class TestStates:
    def test_nothing_leads_back_from_paid(self) -> None:
        assert {after for (status, _), after in states.MOVES.items() if status in states.PAID} == {"refunded"}

    def test_what_is_closed_stays_closed(self) -> None:
        for status in (*states.CLOSED, "refunded"):
            for trigger in get_args(states.Trigger):
                assert states.after(status, trigger) is None

    @given(st.lists(st.sampled_from(get_args(states.Trigger)), max_size=30))
    def test_whatever_happens_in_whatever_order_it_is_paid_or_closed_and_never_both(
        self, triggers: list[states.Trigger]
    ) -> None:
        status: states.Status = "pending"
        been: list[states.Status] = []
        for trigger in triggers:
            if (following := states.after(status, trigger)) is not None:
                status = following
                been.append(status)
        assert not (set(been) & set(states.PAID) and set(been) & set(states.CLOSED))
        assert len(been) == len(set(been)), "no state is come back to"
        decisive = [trigger for trigger in triggers if trigger != "refunded_in_full"]
        assert (been[:1] == ["succeeded"]) == (decisive[:1] == ["captured"]), "the first to come decides"
