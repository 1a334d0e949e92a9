"""What each test card and each test bank account does. Whatever is not listed here is refused, or plainly works."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from bursar.processors.protocol import BankDetails, Concern, FailureCode


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A test card. Its name is what may be stored and logged of it; its number is not."""

    name: str
    number: str = field(repr=False)
    does: str
    challenge: bool = False
    error_code: str | None = None
    decline_code: str | None = None
    available_at_once: bool = False
    concern: Concern | None = None

    @property
    def last4(self) -> str:
        return self.number[-4:]

    @property
    def grouped(self) -> str:
        return " ".join(self.number[at : at + 4] for at in range(0, len(self.number), 4))


# The first few are offered at once on the card page, the others on request.
CARDS: Final = (
    Card(name="succeeds", number="4242424242424242", does="Succeeds"),
    Card(name="three_d_secure", number="4000002760003184", does="Asks for 3-D Secure, then succeeds", challenge=True),
    Card(
        name="declined",
        number="4000000000000002",
        does="Is declined",
        error_code="card_declined",
        decline_code="generic_decline",
    ),
    Card(
        name="three_d_secure_declined",
        number="4000008400001629",
        does="Asks for 3-D Secure, then is declined",
        challenge=True,
        error_code="card_declined",
        decline_code="generic_decline",
    ),
    Card(
        name="insufficient_funds",
        number="4000000000009995",
        does="Is declined: not enough money",
        error_code="card_declined",
        decline_code="insufficient_funds",
    ),
    Card(name="expired", number="4000000000000069", does="Has expired", error_code="expired_card"),
    Card(name="incorrect_cvc", number="4000000000000127", does="Has another CVC", error_code="incorrect_cvc"),
    Card(
        name="processing_error",
        number="4000000000000119",
        does="Cannot be processed",
        error_code="processing_error",
    ),
    Card(name="at_once", number="4000000000000077", does="Succeeds, funds available at once", available_at_once=True),
    Card(name="disputed", number="4000000000000259", does="Succeeds, then is disputed", concern="disputed"),
    Card(
        name="proof_requested",
        number="4100000000000019",
        does="Succeeds, then proof is requested",
        concern="proof_requested",
    ),
)
CARD_BY_NUMBER: Final = {card.number: card for card in CARDS}
CARD_BY_NAME: Final = {card.name: card for card in CARDS}
DEFAULT_HOLDER: Final = "Test Customer"


@dataclass(frozen=True, slots=True)
class BankAccount:
    """A test bank account: what becomes of a payout to it."""

    name: str
    fails: FailureCode | None = None
    returns: FailureCode | None = None


BANK_ACCOUNTS: Final = {
    "00000001": BankAccount("account_closed", fails="account_closed"),
    "00000002": BankAccount("no_account", fails="no_account"),
    "00000003": BankAccount("returned", returns="bank_declined"),
}
ORDINARY: Final = BankAccount("ordinary")
BANK_ACCOUNT_BY_NAME: Final = {account.name: account for account in (*BANK_ACCOUNTS.values(), ORDINARY)}


def bank_account(details: BankDetails) -> BankAccount:
    """A payout to a United Kingdom IBAN is one to the account whose number it ends with."""
    return BANK_ACCOUNTS.get(details.account_number or details.iban[-8:], ORDINARY)


# How long things take, in instance time ------------------------------------------------------------------------------

LATE: Final = timedelta(seconds=30)  # what 'late' means, and how long an overtaken callback waits at the most
RETURNED_AFTER: Final = timedelta(days=1)


def expiry_is_past(month: int, year: int, now: datetime) -> bool:
    """Cards are good until the end of the month they show."""
    return (year, month) < (now.year, now.month)
