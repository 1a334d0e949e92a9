"""Amounts of money: exact minor units, their wire form in major units, and the one rounding rule.

Every fee, percentage and share in the service is rounded here, half-up to the minor unit and away from
zero for negatives. Which currencies are enabled, and the limits of a payment, are settings, not decided here.
"""

import re
from dataclasses import dataclass
from decimal import Context, Decimal, Inexact, InvalidOperation
from functools import lru_cache, total_ordering
from typing import Final, Self

DEFAULT_EXPONENT: Final = 2

# Only the currencies that differ from two decimals.
EXPONENTS: Final[dict[str, int]] = {
    "BIF": 0,
    "CLP": 0,
    "DJF": 0,
    "GNF": 0,
    "ISK": 0,
    "JPY": 0,
    "KMF": 0,
    "KRW": 0,
    "PYG": 0,
    "RWF": 0,
    "UGX": 0,
    "VND": 0,
    "VUV": 0,
    "XAF": 0,
    "XOF": 0,
    "XPF": 0,
    "BHD": 3,
    "IQD": 3,
    "JOD": 3,
    "KWD": 3,
    "LYD": 3,
    "OMR": 3,
    "TND": 3,
}

# How many minor units make a major one, by exponent.
_SCALES: Final = (1, 10, 100, 1000)

SYMBOLS: Final[dict[str, str]] = {
    "AUD": "A$",
    "CAD": "C$",
    "CHF": "CHF",
    "CZK": "Kč",
    "DKK": "kr",
    "EUR": "€",
    "GBP": "£",
    "HKD": "HK$",
    "INR": "₹",
    "JPY": "¥",
    "KRW": "₩",
    "NOK": "kr",
    "NZD": "NZ$",
    "PLN": "zł",
    "SEK": "kr",
    "SGD": "S$",
    "TRY": "₺",
    "USD": "$",
    "ZAR": "R",
}

# Far above any payment and far below a PostgreSQL bigint, so that sums of amounts cannot overflow one.
MAX_MINOR: Final = 10**15

_WIRE_DECIMAL: Final = re.compile(r"(-?[0-9]+)(?:\.([0-9]+))?")
_MAX_WIRE_CHARS: Final = 40

# Moving the decimal point must not depend on the thread's precision, and must never round.
_EXACT: Final = Context(prec=4000, traps=[Inexact, InvalidOperation])


class CurrencyMismatch(ValueError):
    """Amounts of different currencies were combined or compared."""


class InvalidAmount(ValueError):
    """The value is not an amount of this currency; the message is fit for an error's `details`."""


def exponent(currency: str) -> int:
    """How many decimals the currency has."""
    return EXPONENTS.get(currency, DEFAULT_EXPONENT)


def symbol(currency: str) -> str:
    """The sign shown beside an amount, or the code where there is no usual sign."""
    return SYMBOLS.get(currency, currency)


@total_ordering
@dataclass(frozen=True, slots=True)
class Money:
    """A whole number of minor units of one currency. Amounts of two currencies are unequal, never ordered."""

    minor: int
    currency: str

    def __post_init__(self) -> None:
        if type(self.minor) is not int:
            raise TypeError(f"minor units are an int, not {type(self.minor).__name__}")
        code = self.currency
        if not (len(code) == 3 and code.isascii() and code.isalpha() and code.isupper()):
            raise ValueError("a currency is three capital letters")

    @classmethod
    def zero(cls, currency: str) -> Self:
        return cls(0, currency)

    @property
    def decimal(self) -> Decimal:
        """The amount in major units, with all the currency's decimals."""
        return format_major(self.minor, self.currency)

    def __str__(self) -> str:
        return f"{self.decimal:f} {self.currency}"

    def __add__(self, other: "Money") -> "Money":
        if not isinstance(other, Money):
            return NotImplemented
        self._require_same_currency(other)
        return Money(self.minor + other.minor, self.currency)

    def __sub__(self, other: "Money") -> "Money":
        if not isinstance(other, Money):
            return NotImplemented
        self._require_same_currency(other)
        return Money(self.minor - other.minor, self.currency)

    def __neg__(self) -> "Money":
        return Money(-self.minor, self.currency)

    def __lt__(self, other: "Money") -> bool:
        if not isinstance(other, Money):
            return NotImplemented
        self._require_same_currency(other)
        return self.minor < other.minor

    def _require_same_currency(self, other: "Money") -> None:
        if self.currency != other.currency:
            raise CurrencyMismatch(f"{self.currency} and {other.currency} cannot be combined")


def parse_major(value: Decimal | int | str, currency: str) -> int:
    """Minor units from a wire amount in major units; nothing is ever rounded to fit."""
    if type(value) is int:
        if abs(value) > MAX_MINOR:  # before any conversion: an int on the wire may have any size
            raise InvalidAmount("is too large")
        minor = value * _SCALES[exponent(currency)]
    elif isinstance(value, str):
        minor = _parse_text(value, exponent(currency))
    elif isinstance(value, Decimal):
        minor = _parse_text(_plain_text(value, exponent(currency)), exponent(currency))
    else:  # bool and float among them: neither is an exact decimal number
        raise InvalidAmount("must be a decimal number")
    if abs(minor) > MAX_MINOR:
        raise InvalidAmount("is too large")
    return minor


@lru_cache(maxsize=4096)  # most amounts of an object are zero or one another
def format_major(minor: int, currency: str) -> Decimal:
    """The amount in major units, with exactly the currency's number of decimals."""
    return Decimal(minor).scaleb(-exponent(currency), _EXACT)


def shown_amount(minor: int, currency: str) -> str:
    """As people in the United Kingdom read it: £1,234.50, or CHF 1,234.50 where there is no sign."""
    sign = symbol(currency)
    space = "\u00a0" if sign[-1].isalpha() else ""
    return f"{sign}{space}{format_major(minor, currency):,f}"


def divide_half_up(numerator: int, denominator: int) -> int:
    """The rounding rule: the nearest whole number, and away from zero when halfway."""
    if denominator <= 0:
        raise ValueError("the denominator must be positive")
    magnitude = (2 * abs(numerator) + denominator) // (2 * denominator)
    return magnitude if numerator >= 0 else -magnitude


def percentage(minor: int, percent: Decimal) -> int:
    """`percent` per cent of an amount, rounded to the minor unit."""
    # A percent that is absurdly large or fine would be turned into an integer of millions of digits.
    if not percent.is_finite() or abs(percent.adjusted()) > 12 or len(str(percent)) > _MAX_WIRE_CHARS:
        raise ValueError("not a usable percentage")
    numerator, denominator = percent.as_integer_ratio()
    return divide_half_up(minor * numerator, 100 * denominator)


def basis_points(minor: int, bps: int) -> int:
    """`bps` hundredths of a per cent of an amount, rounded to the minor unit."""
    return divide_half_up(minor * bps, 10_000)


def pro_rata(minor: int, part: int, whole: int, *, before: int = 0) -> int:
    """The share of an amount that belongs to `part` of `whole`.

    Shares rounded one by one need not add up. Where a whole is used up in steps (partial refunds), pass what
    earlier steps have taken as `before`: the shares then never exceed the amount and add up to it exactly.
    """
    if not (whole > 0 <= before and 0 <= part <= whole - before):
        raise ValueError("a part must lie within its whole")
    return divide_half_up(minor * (before + part), whole) - divide_half_up(minor * before, whole)


@dataclass(frozen=True, slots=True)
class Fee:
    """A price of the form 'so much per payment and so many per cent'."""

    fixed_minor: int
    percent: Decimal

    def __post_init__(self) -> None:
        if type(self.fixed_minor) is not int or not isinstance(self.percent, Decimal):
            raise TypeError("a fee is an int of minor units and a Decimal percentage")
        if self.fixed_minor < 0 or not (self.percent.is_finite() and 0 <= self.percent <= 100):
            raise ValueError("a fee is not negative and its percentage is at most 100")

    def on(self, amount_minor: int) -> int:
        """The fee on an amount. It may exceed a small amount: what then is the caller's decision."""
        return self.fixed_minor + percentage(amount_minor, self.percent)


@lru_cache(maxsize=4096)  # an amount is judged more than once, and a shop's prices are few
def _parse_text(text: str, decimals: int) -> int:
    if len(text) > _MAX_WIRE_CHARS:
        raise InvalidAmount(f"must be a decimal number of at most {_MAX_WIRE_CHARS} characters")
    match = _WIRE_DECIMAL.fullmatch(text)
    if match is None:
        raise InvalidAmount("must be a decimal number")
    whole, fraction = match[1], match[2] or ""
    if len(fraction) > decimals:
        raise InvalidAmount(_decimals_message(decimals))
    return int(whole + fraction) * _SCALES[decimals - len(fraction)]


def _plain_text(value: Decimal, decimals: int) -> str:
    """The decimal without an exponent. Judged by magnitude first, since 1e999999 has a million digits."""
    if not value.is_finite():
        raise InvalidAmount("must be a decimal number")
    text = str(value)
    if "E-" in text:  # written so only below 0.000001, finer than any currency
        raise InvalidAmount(_decimals_message(decimals))
    if not value:
        return text.partition("E")[0]
    if value.adjusted() > 15:
        raise InvalidAmount("is too large")
    return format(value, "f") if "E" in text else text


def _decimals_message(decimals: int) -> str:
    if decimals == 0:
        return "must have no decimal places"
    return f"must have at most {decimals} decimal places"
