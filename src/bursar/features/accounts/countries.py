"""Which countries merchants may be in, their dial codes and telephone numbers; and all countries, for nationality."""

from __future__ import annotations

from functools import lru_cache

import phonenumbers
import pycountry

# The United Kingdom, and the European Economic Area with Ireland.
SUPPORTED = frozenset({
    "GB", "AT", "BE", "BG", "HR", "CY", "CZ", "DE", "DK", "EE", "ES", "FI", "FR", "GR", "HU", "IE", "IS", "IT", "LI",
    "LT", "LU", "LV", "MT", "NL", "NO", "PL", "PT", "RO", "SE", "SI", "SK",
})  # fmt: skip


def currency_of(country: str) -> str:
    """The currency a merchant of this country is opened with."""
    return "GBP" if country == "GB" else "EUR"


@lru_cache(maxsize=512)
def is_country(code: str) -> bool:
    return len(code) == 2 and pycountry.countries.get(alpha_2=code) is not None


def dial_code(country: str) -> int:
    return phonenumbers.country_code_for_region(country)


def telephone(country: str, number: str) -> str | None:
    """The number in international form, or None when the country has no numbers of this shape.

    Shape, not allocation: numbers set aside for examples must pass, and ranges open faster than tables are updated.
    """
    try:
        parsed = phonenumbers.parse(number, country)
    except phonenumbers.NumberParseException:
        return None
    if parsed.country_code != dial_code(country) or not phonenumbers.is_possible_number(parsed):
        return None
    return phonenumbers.format_number(parsed, phonenumbers.PhoneNumberFormat.E164)
