"""The card form: what was typed, and every problem with it at once, in words for the customer."""

from __future__ import annotations

import hmac
import re
import secrets
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import parse_qsl

from bursar.core.text import luhn_valid
from bursar.processors.simulator.scenarios import CARD_BY_NUMBER, DEFAULT_HOLDER, Card, expiry_is_past

_EXPIRY = re.compile(r"\s*(\d{1,2})\s*[/\- ]?\s*(\d{2}|20\d{2})\s*", re.ASCII)
_SEPARATORS = re.compile(r"[\s\-]+")


@dataclass(frozen=True, slots=True, repr=False)
class Entered:
    """The fields as typed. Not to be printed: it may hold a real card's number."""

    number: str = ""
    holder: str = ""
    expiry: str = ""
    cvc: str = ""

    @property
    def shown_number(self) -> str:
        """What may be put back into the page: only the number of a test card."""
        card = CARD_BY_NUMBER.get(_SEPARATORS.sub("", self.number))
        return card.grouped if card else ""


@dataclass(frozen=True, slots=True)
class Checked:
    card: Card | None
    errors: dict[str, str] = field(default_factory=dict)


def read(raw: bytes) -> dict[str, str]:
    """A form's fields; the last of a name counts."""
    try:
        return dict(parse_qsl(raw.decode(), keep_blank_values=True, max_num_fields=20))
    except ValueError:
        return {}


def entered(fields: dict[str, str]) -> Entered:
    return Entered(*(fields.get(name, "").strip()[:100] for name in ("number", "holder", "expiry", "cvc")))


def filled(card: Card, now: datetime) -> Entered:
    """The form with a test card in it: one tap on the panel."""
    return Entered(card.number, DEFAULT_HOLDER, f"12/{(now.year + 3) % 100:02d}", "123")


def check(typed: Entered, now: datetime) -> Checked:
    card, problem = _check_number(_SEPARATORS.sub("", typed.number))
    problems = {
        "number": problem,
        "holder": None if typed.holder else "Enter the name on the card.",
        "expiry": _check_expiry(typed.expiry, now),
        "cvc": None if re.fullmatch(r"\d{3,4}", typed.cvc, re.ASCII) else "Enter the 3 or 4 digits of the CVC.",
    }
    errors = {name: problem for name, problem in problems.items() if problem}
    return Checked(None if errors else card, errors)


def _check_number(number: str) -> tuple[Card | None, str | None]:
    if not number:
        return None, "Enter the card number."
    if not (number.isascii() and number.isdigit() and 12 <= len(number) <= 19 and luhn_valid(number)):
        return None, "Check the card number: a digit is missing or wrong."
    card = CARD_BY_NUMBER.get(number)
    if card is None:
        return None, "Only the test cards listed on this page work here. Please do not enter a real card."
    return card, None


def _check_expiry(text: str, now: datetime) -> str | None:
    if not text:
        return "Enter the expiry date."
    match = _EXPIRY.fullmatch(text)
    month = int(match[1]) if match else 0
    if match is None or not 1 <= month <= 12:
        return "Write month and year, for example 04/30."
    if expiry_is_past(month, 2000 + int(match[2][-2:]), now):
        return "This date has passed."
    return None


# One form, one attempt ---------------------------------------------------------------------------------------------


def new_ticket(key: bytes, token: str) -> str:
    """Goes into each form: proof that the page is ours, and the name of the attempt it will make."""
    nonce = secrets.token_hex(12)
    return f"{nonce}.{_sign(key, token, nonce)}"


def ticket_is_ours(key: bytes, token: str, ticket: str) -> bool:
    nonce, _, signature = ticket.partition(".")
    return hmac.compare_digest(signature.encode(), _sign(key, token, nonce).encode())


def _sign(key: bytes, token: str, nonce: str) -> str:
    return hmac.digest(key, f"form {token} {nonce}".encode(), "sha256").hex()[:32]
