"""What a payment may be: its least and greatest amount, its fees, the addresses it names. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from bursar.core.errors import InvalidConnectApplicationFee
from bursar.core.money import Fee, InvalidAmount, exponent, format_major, parse_major
from bursar.features.accounts import pricing

LEAST = {"GBP": 30, "EUR": 50, "USD": 50}
LEAST_ELSEWHERE = 50
GREATEST = 99_999_999

CHANNELS = ("api", "card", "keyed")


def amount_minor(value: Decimal | int | str, currency: str) -> int:
    """Minor units of an amount that may be paid, or `InvalidAmount`."""
    minor = parse_major(value, currency)
    least = LEAST.get(currency, LEAST_ELSEWHERE)
    if minor < least:
        raise InvalidAmount(f"must be at least {format_major(least, currency):f} {currency}")
    if minor > GREATEST:
        raise InvalidAmount(f"must be at most {format_major(GREATEST, currency):f} {currency}")
    return minor


def processing_fee(own_prices: Mapping[str, Any], channel: str, amount: int, currency: str) -> int:
    """What the service charges for a payment of this amount through this channel."""
    fixed = pricing.price(own_prices, f"{channel}_fixed_fee")
    percent = pricing.price(own_prices, f"{channel}_percent_fee")
    return Fee(int(fixed.scaleb(exponent(currency))), percent).on(amount)


def application_fee(
    sent: Decimal | int | str | None, defaults: Mapping[str, Any], amount: int, currency: str, *, allowed: bool
) -> int | None:
    """The platform's fee: as sent for this payment, else by its defaults; None when there is none.

    `allowed`: a platform asks, on one of its accounts. Nobody else may set the fee.
    """
    if sent is None:
        return _default_fee(defaults, amount, currency)
    if not allowed:
        raise _invalid("only a platform may set it, on a payment of a connected account")
    try:
        minor = parse_major(sent, currency)
    except InvalidAmount as error:
        raise _invalid(str(error)) from None
    if not 0 <= minor <= amount:
        raise _invalid("must be between zero and the amount")
    return minor


def _default_fee(defaults: Mapping[str, Any], amount: int, currency: str) -> int | None:
    fixed, percent = (Decimal(str(defaults.get(name, 0))) for name in ("fixed", "percent"))
    if not fixed and not percent:
        return None
    return min(amount, Fee(int(fixed.scaleb(exponent(currency))), percent).on(amount))


def _invalid(reason: str) -> InvalidConnectApplicationFee:
    return InvalidConnectApplicationFee(details={"connect_application_fee": [reason]})


@lru_cache(maxsize=4096)  # a shop names the same few addresses over and over
def return_url_problem(url: str, *, plain_http: bool) -> str | None:
    """Why a customer's browser may not be sent there, or None."""
    try:
        parts = urlsplit(url)
        port_is_one = parts.port is None or 0 < parts.port < 65536
    except ValueError:
        return "is not a URL"
    if parts.scheme != "https" and not (plain_http and parts.scheme == "http"):
        return "must begin with https://"
    if not parts.hostname or not port_is_one or "@" in parts.netloc or "\\" in url or not url.isprintable():
        return "is not a URL"
    return None
