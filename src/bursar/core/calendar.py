"""The service's calendar: London days, business days of England and Wales, and settlement dates.

Storage and output are UTC; what counts as a day is decided in Europe/London. The movable clock lives
elsewhere: every function here takes the moment it is asked about.
"""

from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

LONDON: Final = ZoneInfo("Europe/London")

MONDAY: Final = 0
SATURDAY: Final = 5

# Bank holidays declared or moved by proclamation, from 2020 on. A year's rules otherwise follow from its dates.
_EXTRA: Final = frozenset(
    {
        date(2020, 5, 8),  # early May holiday, moved to the 75th anniversary of VE Day
        date(2022, 6, 2),  # spring holiday, moved for the Platinum Jubilee
        date(2022, 6, 3),  # Platinum Jubilee
        date(2022, 9, 19),  # state funeral of Queen Elizabeth II
        date(2023, 5, 8),  # coronation of King Charles III
    }
)
_MOVED_AWAY: Final = frozenset({date(2020, 5, 4), date(2022, 5, 30)})


@lru_cache(maxsize=128)
def bank_holidays(year: int) -> frozenset[date]:
    """The bank holidays of England and Wales: the days off in lieu, not the weekend days they stand for."""
    easter = easter_sunday(year)
    days = {
        easter - timedelta(days=2),
        easter + timedelta(days=1),
        _monday_on_or_after(date(year, 5, 1)),
        _monday_on_or_after(date(year, 5, 25)),
        _monday_on_or_after(date(year, 8, 25)),
    }
    # In this order Boxing Day yields to Christmas Day when both need a day in lieu.
    for fixed in (date(year, 1, 1), date(year, 12, 25), date(year, 12, 26)):
        day = fixed
        while day.weekday() >= SATURDAY or day in days:
            day += timedelta(days=1)
        days.add(day)
    days |= {day for day in _EXTRA if day.year == year}
    return frozenset(days - _MOVED_AWAY)


def easter_sunday(year: int) -> date:
    """Western Easter, by the anonymous Gregorian algorithm (Meeus/Jones/Butcher)."""
    golden = year % 19
    century, in_century = divmod(year, 100)
    leap_centuries, century_rest = divmod(century, 4)
    moon_correction = (century - (century + 8) // 25 + 1) // 3
    epact = (19 * golden + century - leap_centuries - moon_correction + 15) % 30
    leaps, year_rest = divmod(in_century, 4)
    weekday = (32 + 2 * century_rest + 2 * leaps - epact - year_rest) % 7
    late = (golden + 11 * epact + 22 * weekday) // 451
    month, day = divmod(epact + weekday - 7 * late + 114, 31)
    return date(year, month, day + 1)


def is_business_day(day: date) -> bool:
    """Whether banks in England and Wales are open."""
    _require_plain_date(day)
    return day.weekday() < SATURDAY and day not in bank_holidays(day.year)


def add_business_days(day: date, n: int) -> date:
    """The n-th business day after `day`; with n = 0, `day` itself or the first business day after it."""
    if n < 0:
        raise ValueError("business days are counted forwards")
    if n == 0 and is_business_day(day):
        return day
    remaining = max(n, 1)
    while remaining:
        day += timedelta(days=1)
        remaining -= is_business_day(day)
    return day


def settlement_date(moment: datetime, days: int = 2) -> datetime:
    """When funds taken at `moment` settle: the start, in London, of the `days`-th business day after that day."""
    return _start_of_london_day(add_business_days(london_day(moment), days))


def london_day(moment: datetime) -> date:
    """The calendar day in London at a moment."""
    if moment.tzinfo is None:
        raise ValueError("a moment needs a time zone")
    return moment.astimezone(LONDON).date()


def shown_moment(moment: datetime) -> str:
    """As people in London read it: 3 March 2025, 14:05 GMT."""
    there = moment.astimezone(LONDON)
    return f"{there.day} {there:%B %Y}, {there:%H:%M}\u00a0{there:%Z}"


def london_day_bounds(day: date) -> tuple[datetime, datetime]:
    """The first instant of a London day and the first instant after it, in UTC (23, 24 or 25 hours apart)."""
    return _start_of_london_day(day), _start_of_london_day(day + timedelta(days=1))


def _start_of_london_day(day: date) -> datetime:
    # London changes its clocks at 01:00 UTC, so midnight always exists and is never ambiguous.
    _require_plain_date(day)
    return datetime.combine(day, time.min, LONDON).astimezone(UTC)


def _monday_on_or_after(day: date) -> date:
    return day + timedelta(days=(MONDAY - day.weekday()) % 7)


def _require_plain_date(day: date) -> None:
    # A datetime passes for a date in type checks, yet equals none, so every holiday would look like a work day.
    if isinstance(day, datetime):
        raise TypeError("a day is a date, not a datetime")
