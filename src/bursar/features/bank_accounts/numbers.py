"""The numbers of a bank account: what was typed, what it means, and the one way it is written down.

A GB account is its sort code and account number however it was given, so an IBAN of it is the same account.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from schwifty import IBAN
from schwifty.exceptions import SchwiftyException

from bursar.features.bank_accounts import modulus

# Test instances: what the simulated bank does with these account numbers. They pass every check.
SCENARIOS = {
    "00000001": "account_closed",
    "00000002": "no_account",
    "00000003": "returned",
    "00000004": "name_no_match",
}

Problems = dict[str, list[str]]


class Invalid(ValueError):
    """The numbers are not those of a bank account."""

    def __init__(self, problems: Problems) -> None:
        super().__init__(str(problems))
        self.problems = problems


@dataclass(frozen=True, slots=True, repr=False)
class Numbers:
    """Never printed, never logged."""

    country: str
    canonical: str  # `GB 200000 55779911`, or an IBAN
    last4: str
    bank_name: str | None = None
    scenario: str | None = None


def read(
    *, country: str | None, sort_code: str | None, account_number: str | None, iban: str | None, test: bool,
    table: Path | None = None,
) -> Numbers:  # fmt: skip
    """The account that these numbers name; `Invalid` says which of them are wrong."""
    if iban is not None:
        if sort_code is not None or account_number is not None:
            raise Invalid({"iban": ["must not be sent together with sort_code and account_number"]})
        return _from_iban(iban, country, test=test, table=table)
    if country not in (None, "GB"):
        raise Invalid({"iban": [f"is needed for an account in {country}"]})
    missing = {
        name: ["is needed for a GB account"]
        for name, value in (("sort_code", sort_code), ("account_number", account_number))
        if value is None
    }
    if missing:
        raise Invalid(missing)
    return _from_gb(sort_code or "", account_number or "", test=test, table=table)


def _from_gb(sort_code: str, account_number: str, *, test: bool, table: Path | None) -> Numbers:
    sort, number = re.sub(r"[ -]", "", sort_code), re.sub(r"[ -]", "", account_number)
    problems: Problems = {}
    if not re.fullmatch(r"[0-9]{6}", sort, re.ASCII):
        problems["sort_code"] = ["must have 6 digits"]
    if not re.fullmatch(r"[0-9]{8}", number, re.ASCII):
        problems["account_number"] = ["must have 8 digits"]
    if problems:
        raise Invalid(problems)
    scenario = SCENARIOS.get(number) if test else None
    if scenario is None and not modulus.is_valid(sort, number, table):
        raise Invalid({"account_number": ["does not belong to this sort code"]})
    return Numbers("GB", f"GB {sort} {number}", number[-4:], scenario=scenario)


def _from_iban(text: str, country: str | None, *, test: bool, table: Path | None) -> Numbers:
    try:
        iban = IBAN(text, validate_bban=False)
    except (SchwiftyException, ValueError):
        raise Invalid({"iban": ["must be a valid IBAN"]}) from None
    found = str(iban.country_code)
    if country is not None and country != found:
        raise Invalid({"country": [f"must be the country of the IBAN, {found}"]})
    if found == "GB":
        return _from_gb(iban.compact[8:14], iban.compact[14:], test=test, table=table)
    return Numbers(found, str(iban.compact), iban.compact[-4:], bank_name=iban.bank_name or iban.bank_short_name)
