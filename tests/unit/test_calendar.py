"""London days, business days of England and Wales, and when funds settle."""

from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bursar.core.calendar import (
    add_business_days,
    bank_holidays,
    easter_sunday,
    is_business_day,
    london_day,
    london_day_bounds,
    settlement_date,
)

# As published by the government for England and Wales: 'month-day'.
PUBLISHED = {
    2020: "01-01 04-10 04-13 05-08 05-25 08-31 12-25 12-28",
    2021: "01-01 04-02 04-05 05-03 05-31 08-30 12-27 12-28",
    2022: "01-03 04-15 04-18 05-02 06-02 06-03 08-29 09-19 12-26 12-27",
    2023: "01-02 04-07 04-10 05-01 05-08 05-29 08-28 12-25 12-26",
    2024: "01-01 03-29 04-01 05-06 05-27 08-26 12-25 12-26",
    2025: "01-01 04-18 04-21 05-05 05-26 08-25 12-25 12-26",
    2026: "01-01 04-03 04-06 05-04 05-25 08-31 12-25 12-28",
    2027: "01-01 03-26 03-29 05-03 05-31 08-30 12-27 12-28",
    2028: "01-03 04-14 04-17 05-01 05-29 08-28 12-25 12-26",
}

days = st.dates(date(2020, 1, 1), date(2099, 12, 1))
moments = st.datetimes(datetime(2020, 1, 1), datetime(2099, 12, 1), timezones=st.just(UTC))  # noqa: DTZ001
counts = st.integers(0, 30)


class TestBankHolidays:
    @pytest.mark.parametrize("year", PUBLISHED)
    def test_match_the_published_list(self, year: int) -> None:
        expected = [date.fromisoformat(f"{year}-{day}") for day in PUBLISHED[year].split()]
        assert sorted(bank_holidays(year)) == expected

    @pytest.mark.parametrize(
        "easter",
        [
            "2000-04-23",
            "2008-03-23",
            "2011-04-24",
            "2019-04-21",
            "2024-03-31",
            "2025-04-20",
            "2038-04-25",
            "2100-03-28",
        ],
    )
    def test_easter(self, easter: str) -> None:
        expected = date.fromisoformat(easter)
        assert easter_sunday(expected.year) == expected

    @pytest.mark.parametrize("year", range(2020, 2101))
    def test_every_year_has_eight_week_days_off_and_the_declared_ones(self, year: int) -> None:
        holidays = bank_holidays(year)
        assert len(holidays) == 8 + {2022: 2, 2023: 1}.get(year, 0)
        assert all(day.weekday() < 5 and day.year == year for day in holidays)

    @pytest.mark.parametrize("year", range(2020, 2101))
    def test_easter_is_a_sunday_in_its_season(self, year: int) -> None:
        easter = easter_sunday(year)
        assert easter.weekday() == 6
        assert date(year, 3, 22) <= easter <= date(year, 4, 25)


class TestBusinessDays:
    def test_weekends_and_holidays_are_none(self) -> None:
        assert is_business_day(date(2025, 8, 22))
        assert not is_business_day(date(2025, 8, 23))
        assert not is_business_day(date(2025, 8, 24))
        assert not is_business_day(date(2025, 8, 25))
        assert is_business_day(date(2025, 8, 26))

    @pytest.mark.parametrize(
        ("start", "n", "end"),
        [
            ("2025-06-02", 2, "2025-06-04"),
            ("2025-06-06", 1, "2025-06-09"),  # over a weekend
            ("2025-04-17", 2, "2025-04-23"),  # over Easter
            ("2021-12-24", 1, "2021-12-29"),  # both Christmas days in lieu
            ("2025-12-31", 1, "2026-01-02"),  # into the next year
            ("2025-06-07", 1, "2025-06-09"),  # from a Saturday
            ("2025-06-07", 0, "2025-06-09"),
            ("2025-06-06", 0, "2025-06-06"),
        ],
    )
    def test_adding(self, start: str, n: int, end: str) -> None:
        assert add_business_days(date.fromisoformat(start), n) == date.fromisoformat(end)

    def test_only_forwards(self) -> None:
        with pytest.raises(ValueError, match="forwards"):
            add_business_days(date(2025, 1, 1), -1)

    def test_a_moment_is_not_a_day(self) -> None:
        moment = datetime(2025, 12, 25, tzinfo=UTC)
        for ask in (is_business_day, london_day_bounds, lambda day: add_business_days(day, 2)):
            with pytest.raises(TypeError):
                ask(moment)

    @given(days, counts)
    def test_the_result_is_a_business_day(self, day: date, n: int) -> None:
        assert is_business_day(add_business_days(day, n))

    @given(days, st.integers(1, 30))
    def test_exactly_n_business_days_lie_in_between(self, day: date, n: int) -> None:
        end = add_business_days(day, n)
        passed = [day + timedelta(days=i) for i in range(1, (end - day).days + 1)]
        assert sum(map(is_business_day, passed)) == n

    @given(days, counts, counts)
    def test_steps_add_up(self, day: date, m: int, n: int) -> None:
        start = add_business_days(day, 0)
        assert add_business_days(add_business_days(start, m), n) == add_business_days(start, m + n)

    @given(days, days, counts)
    def test_later_never_ends_earlier(self, a: date, b: date, n: int) -> None:
        assert add_business_days(min(a, b), n) <= add_business_days(max(a, b), n)


class TestLondonDays:
    def test_follow_summer_time(self) -> None:
        assert london_day(datetime(2025, 7, 1, 23, 30, tzinfo=UTC)) == date(2025, 7, 2)
        assert london_day(datetime(2025, 1, 1, 23, 30, tzinfo=UTC)) == date(2025, 1, 1)
        assert london_day(datetime(2025, 1, 1, 1, tzinfo=timezone(timedelta(hours=9)))) == date(2024, 12, 31)

    @pytest.mark.parametrize(
        ("day", "start", "hours"),
        [
            ("2025-01-15", "2025-01-15T00:00:00Z", 24),
            ("2025-07-01", "2025-06-30T23:00:00Z", 24),
            ("2025-03-30", "2025-03-30T00:00:00Z", 23),
            ("2025-10-26", "2025-10-25T23:00:00Z", 25),
        ],
    )
    def test_bounds(self, day: str, start: str, hours: int) -> None:
        first, after = london_day_bounds(date.fromisoformat(day))
        assert first == datetime.fromisoformat(start)
        assert after - first == timedelta(hours=hours)
        assert first.tzinfo is after.tzinfo is UTC

    def test_a_moment_needs_a_time_zone(self) -> None:
        with pytest.raises(ValueError, match="time zone"):
            london_day(datetime(2025, 1, 1))  # noqa: DTZ001

    @given(moments)
    def test_every_moment_lies_in_its_day_alone(self, moment: datetime) -> None:
        day = london_day(moment)
        first, after = london_day_bounds(day)
        assert first <= moment < after
        assert london_day(after) == day + timedelta(days=1)
        assert london_day_bounds(day + timedelta(days=1))[0] == after


class TestSettlementDate:
    @pytest.mark.parametrize(
        ("paid", "settles"),
        [
            ("2025-01-07T12:00:00Z", "2025-01-09T00:00:00Z"),
            ("2025-01-10T12:00:00Z", "2025-01-14T00:00:00Z"),  # Friday to Tuesday
            ("2025-07-01T12:00:00Z", "2025-07-02T23:00:00Z"),  # midnight in summer
            ("2025-07-01T23:30:00Z", "2025-07-03T23:00:00Z"),  # already the 2nd in London
            ("2025-03-27T12:00:00Z", "2025-03-30T23:00:00Z"),  # over the change of the clocks
            ("2025-12-24T23:59:59Z", "2025-12-30T00:00:00Z"),  # over Christmas
        ],
    )
    def test_is_the_start_of_the_second_business_day_after(self, paid: str, settles: str) -> None:
        assert settlement_date(datetime.fromisoformat(paid)) == datetime.fromisoformat(settles)

    def test_the_number_of_days_can_be_chosen(self) -> None:
        monday = datetime(2025, 1, 6, 9, tzinfo=UTC)
        assert settlement_date(monday, days=4) == datetime(2025, 1, 10, tzinfo=UTC)

    @given(moments, st.integers(1, 30))
    def test_lies_in_the_future_at_the_start_of_a_business_day(self, moment: datetime, n: int) -> None:
        settles = settlement_date(moment, n)
        assert settles > moment
        assert settles.tzinfo is UTC
        assert is_business_day(london_day(settles))
        assert london_day_bounds(london_day(settles))[0] == settles

    @given(moments, moments)
    def test_keeps_the_order_of_payments(self, a: datetime, b: datetime) -> None:
        assert settlement_date(min(a, b)) <= settlement_date(max(a, b))
