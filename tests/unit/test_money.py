"""Amounts: exact arithmetic within a currency, the wire form, and the one rounding rule."""

from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bursar.core.money import (
    EXPONENTS,
    MAX_MINOR,
    CurrencyMismatch,
    Fee,
    InvalidAmount,
    Money,
    basis_points,
    divide_half_up,
    exponent,
    format_major,
    parse_major,
    percentage,
    pro_rata,
    symbol,
)

amounts = st.integers(-MAX_MINOR, MAX_MINOR)
currencies = st.sampled_from(["GBP", "EUR", "USD", "JPY", "KWD"])
percents = st.decimals(0, 100, places=2)
pounds = amounts.map(lambda minor: Money(minor, "GBP"))


class TestMoney:
    def test_reads_as_an_amount_with_its_code(self) -> None:
        assert str(Money(1050, "GBP")) == "10.50 GBP"
        assert str(Money(-5, "EUR")) == "-0.05 EUR"
        assert str(Money(500, "JPY")) == "500 JPY"
        assert str(Money(1234, "KWD")) == "1.234 KWD"

    def test_decimal_has_all_the_decimals_of_the_currency(self) -> None:
        assert str(Money(1050, "GBP").decimal) == "10.50"
        assert str(Money.zero("GBP").decimal) == "0.00"

    def test_adds_subtracts_negates_and_compares_within_a_currency(self) -> None:
        ten, three = Money(1000, "GBP"), Money(300, "GBP")
        assert ten + three == Money(1300, "GBP")
        assert three - ten == Money(-700, "GBP")
        assert -ten == Money(-1000, "GBP")
        assert three < ten
        assert ten >= three
        assert max(three, ten) is ten

    def test_refuses_to_mix_currencies(self) -> None:
        pound, euro = Money(100, "GBP"), Money(100, "EUR")
        assert pound != euro
        with pytest.raises(CurrencyMismatch):
            pound + euro
        with pytest.raises(CurrencyMismatch):
            pound - euro
        with pytest.raises(CurrencyMismatch):
            assert pound < euro
        with pytest.raises(CurrencyMismatch):
            assert pound >= euro

    def test_refuses_plain_numbers(self) -> None:
        with pytest.raises(TypeError):
            Money(100, "GBP") + 1  # type: ignore[operator]
        with pytest.raises(TypeError):
            assert Money(100, "GBP") < 1  # type: ignore[operator]

    @pytest.mark.parametrize("minor", [True, 1.0, Decimal(1), "1"])
    def test_minor_units_are_an_integer(self, minor: int) -> None:
        with pytest.raises(TypeError):
            Money(minor, "GBP")

    @pytest.mark.parametrize("currency", ["gbp", "GB", "POUND", "", "G1P", "ÀÉÎ"])
    def test_a_currency_is_three_capital_letters(self, currency: str) -> None:
        with pytest.raises(ValueError, match="three capital letters"):
            Money(1, currency)

    @given(pounds, pounds, pounds)
    def test_addition_is_associative_and_commutative(self, a: Money, b: Money, c: Money) -> None:
        assert a + b == b + a
        assert (a + b) + c == a + (b + c)

    @given(pounds, pounds)
    def test_subtraction_undoes_addition(self, a: Money, b: Money) -> None:
        assert (a + b) - b == a
        assert a + -a == Money.zero("GBP")
        assert a - b == a + -b


class TestCurrencies:
    def test_most_have_two_decimals(self) -> None:
        assert exponent("GBP") == exponent("XXX") == 2
        assert exponent("JPY") == exponent("KRW") == 0
        assert exponent("KWD") == exponent("BHD") == 3
        assert set(EXPONENTS.values()) <= {0, 2, 3}

    def test_symbol_falls_back_to_the_code(self) -> None:
        assert [symbol(code) for code in ("GBP", "EUR", "USD", "BRL")] == ["£", "€", "$", "BRL"]


class TestParseMajor:
    @pytest.mark.parametrize(
        ("value", "currency", "minor"),
        [
            ("10.50", "GBP", 1050),
            ("10.5", "GBP", 1050),
            ("10", "GBP", 1000),
            ("-0.01", "GBP", -1),
            ("-0.00", "GBP", 0),
            ("007", "GBP", 700),
            (10, "GBP", 1000),
            (-3, "KWD", -3000),
            (Decimal("10.50"), "GBP", 1050),
            (Decimal("1E+2"), "GBP", 10000),
            (Decimal("0E+999999"), "GBP", 0),
            (Decimal("-0"), "GBP", 0),
            ("500", "JPY", 500),
            ("1.234", "KWD", 1234),
            ("10000000000000", "GBP", MAX_MINOR),
        ],
    )
    def test_is_exact(self, value: Decimal | int | str, currency: str, minor: int) -> None:
        assert parse_major(value, currency) == minor

    @pytest.mark.parametrize(
        "value",
        [
            *("", "-", ".5", "5.", "+1", " 1", "1 ", "1\n", "1e3", "1E3", "1,000", "1_000", "0x1", "٣", "NaN"),
            *(Decimal("NaN"), Decimal("sNaN"), Decimal("-Infinity"), True, False, 1.5, None, [], {}),
        ],
    )
    def test_accepts_plain_decimal_numbers_only(self, value: str) -> None:
        with pytest.raises(InvalidAmount, match=r"^must be a decimal number$"):
            parse_major(value, "GBP")

    @pytest.mark.parametrize(
        ("value", "currency", "message"),
        [
            ("1.234", "GBP", "must have at most 2 decimal places"),
            ("1.000", "GBP", "must have at most 2 decimal places"),
            (Decimal("1.000"), "GBP", "must have at most 2 decimal places"),
            (Decimal("1e-999999"), "GBP", "must have at most 2 decimal places"),
            ("1.2345", "KWD", "must have at most 3 decimal places"),
            ("1.0", "JPY", "must have no decimal places"),
            ("10000000000000.01", "GBP", "is too large"),
            (-(10**15), "GBP", "is too large"),
            (Decimal("1e999999"), "GBP", "is too large"),
        ],
    )
    def test_says_what_is_wrong(self, value: Decimal | int | str, currency: str, message: str) -> None:
        with pytest.raises(InvalidAmount) as caught:
            parse_major(value, currency)
        assert str(caught.value) == message

    def test_survives_numbers_of_any_length(self) -> None:
        for large in (10**100_000, -(10**100_000), Decimal("9" * 100_000)):
            with pytest.raises(InvalidAmount, match="is too large"):
                parse_major(large, "GBP")
        for long in ("9" * 100_000, Decimal("1." + "0" * 100_000)):
            with pytest.raises(InvalidAmount, match="at most 40 characters"):
                parse_major(long, "GBP")

    @given(amounts, currencies)
    def test_undoes_format_major(self, minor: int, currency: str) -> None:
        major = format_major(minor, currency)
        assert parse_major(major, currency) == minor
        assert parse_major(str(major), currency) == minor
        assert -major.as_tuple().exponent == exponent(currency)  # type: ignore[operator]

    @given(amounts, currencies)
    def test_does_not_depend_on_the_ambient_precision(self, minor: int, currency: str) -> None:
        with localcontext(prec=2):
            assert parse_major(format_major(minor, currency), currency) == minor

    @given(st.text() | st.decimals() | st.integers() | st.from_regex(r"-?[0-9]*\.?[0-9]*"), currencies)
    def test_returns_a_bounded_integer_or_refuses(self, value: Decimal | int | str, currency: str) -> None:
        try:
            minor = parse_major(value, currency)
        except InvalidAmount:
            return
        assert type(minor) is int
        assert abs(minor) <= MAX_MINOR
        assert Decimal(value) == format_major(minor, currency)


class TestRounding:
    @pytest.mark.parametrize(
        ("minor", "percent", "share"),
        [
            (1000, "1.5", 15),
            (50, "1", 1),  # 0.5
            (49, "1", 0),
            (150, "1", 2),  # 1.5
            (250, "1", 3),  # 2.5: half-up, not half-even
            (-50, "1", -1),
            (-250, "1", -3),
            (-249, "1", -2),
            (999, "0", 0),
            (999, "100", 999),
            (10_000_000, "0.000005", 1),  # 0.5
        ],
    )
    def test_percentage_is_half_up(self, minor: int, percent: str, share: int) -> None:
        assert percentage(minor, Decimal(percent)) == share

    @pytest.mark.parametrize("percent", ["NaN", "Infinity", "1e999999", "1e-999999", "0." + "1" * 50])
    def test_percentage_refuses_what_is_no_percentage(self, percent: str) -> None:
        with pytest.raises(ValueError, match="percentage"):
            percentage(100, Decimal(percent))

    def test_basis_points_are_hundredths_of_a_per_cent(self) -> None:
        assert basis_points(1000, 150) == 15
        assert basis_points(50, 100) == 1
        assert basis_points(-50, 100) == -1

    @given(amounts, st.integers(0, 10_000))
    def test_basis_points_agree_with_the_percentage(self, minor: int, bps: int) -> None:
        assert basis_points(minor, bps) == percentage(minor, Decimal(bps) / 100)

    @given(amounts, percents)
    def test_percentage_is_within_half_a_unit(self, minor: int, percent: Decimal) -> None:
        exact = minor * Fraction(percent) / 100
        assert abs(percentage(minor, percent) - exact) <= Fraction(1, 2)

    @given(st.integers(), st.integers(1, 10**18))
    def test_the_rule_is_nearest_and_away_from_zero_at_ties(self, numerator: int, denominator: int) -> None:
        exact = Fraction(numerator, denominator)
        rounded = divide_half_up(numerator, denominator)
        assert abs(rounded - exact) <= Fraction(1, 2)
        if abs(rounded - exact) == Fraction(1, 2):
            assert abs(rounded) > abs(exact)

    @given(st.integers())
    def test_ties_go_away_from_zero(self, whole: int) -> None:
        assert divide_half_up(2 * whole + 1, 2) == (whole + 1 if whole >= 0 else whole)

    @given(amounts, percents)
    def test_the_sign_does_not_change_the_size(self, minor: int, percent: Decimal) -> None:
        assert percentage(-minor, percent) == -percentage(minor, percent)

    def test_the_denominator_is_positive(self) -> None:
        with pytest.raises(ValueError, match="positive"):
            divide_half_up(1, 0)


class TestProRata:
    def test_shares_an_amount(self) -> None:
        assert pro_rata(100, 1, 3) == 33
        assert pro_rata(100, 2, 3) == 67
        assert pro_rata(-100, 2, 3) == -67
        assert pro_rata(1, 1, 2) == 1

    def test_the_last_step_takes_the_rest(self) -> None:
        assert [pro_rata(1, 1, 2, before=0), pro_rata(1, 1, 2, before=1)] == [1, 0]

    @pytest.mark.parametrize(
        ("part", "whole", "before"), [(1, 0, 0), (0, 0, 0), (-1, 5, 0), (6, 5, 0), (3, 5, 3), (1, 5, -1)]
    )
    def test_a_part_lies_within_its_whole(self, part: int, whole: int, before: int) -> None:
        with pytest.raises(ValueError, match="within its whole"):
            pro_rata(100, part, whole, before=before)

    @given(amounts, st.integers(1, MAX_MINOR))
    def test_the_whole_gets_exactly_the_amount(self, minor: int, whole: int) -> None:
        assert pro_rata(minor, whole, whole) == minor
        assert pro_rata(minor, 0, whole) == 0

    @given(amounts, st.integers(0, MAX_MINOR), st.integers(1, MAX_MINOR))
    def test_is_within_half_a_unit(self, minor: int, part: int, whole: int) -> None:
        assume(part <= whole)
        assert abs(pro_rata(minor, part, whole) - Fraction(minor * part, whole)) <= Fraction(1, 2)

    @given(st.integers(0, MAX_MINOR), st.lists(st.integers(0, MAX_MINOR), min_size=1))
    def test_steps_never_exceed_the_amount_and_add_up_to_it(self, minor: int, parts: list[int]) -> None:
        whole = sum(parts)
        assume(whole > 0)
        before = given_out = 0
        for part in parts:
            share = pro_rata(minor, part, whole, before=before)
            assert share >= 0
            given_out += share
            assert given_out <= minor
            before += part
        assert given_out == minor


class TestFee:
    def test_is_fixed_plus_percent_rounded_once(self) -> None:
        fee = Fee(fixed_minor=20, percent=Decimal("1.5"))
        assert fee.on(1000) == 35
        assert fee.on(1050) == 36  # 20 + 15.75
        assert fee.on(0) == 20

    @pytest.mark.parametrize(("fixed", "percent"), [(-1, "1"), (0, "-0.01"), (0, "100.01"), (0, "NaN"), (0, "sNaN")])
    def test_refuses_what_is_no_fee(self, fixed: int, percent: str) -> None:
        with pytest.raises(ValueError, match="fee"):
            Fee(fixed, Decimal(percent))

    def test_is_made_of_exact_numbers(self) -> None:
        with pytest.raises(TypeError):
            Fee(1, 1.5)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            Fee(True, Decimal(1))

    @given(st.integers(0, 1000), percents, st.integers(0, MAX_MINOR), st.integers(0, MAX_MINOR))
    def test_more_money_never_costs_less(self, fixed: int, percent: Decimal, a: int, b: int) -> None:
        fee = Fee(fixed, percent)
        assert fee.on(min(a, b)) <= fee.on(max(a, b))
