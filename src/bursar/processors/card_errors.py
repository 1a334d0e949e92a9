"""Why a card payment failed, in the specification's words. No processor's own codes or wording get past this table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MESSAGES: Final[dict[str, str]] = {
    "card_declined": "The card was declined. Try another card, or ask the bank that issued it.",
    "payment_failed": "The payment did not go through. Try again, or use another card.",
    "authentication_failed": "The bank could not confirm that it was you. Try again, or use another card.",
    "expired_card": "The card has expired. Use another card.",
    "incorrect_cvc": "The security code is not right. Check it and try again.",
    "processing_error": "The bank could not process the card just now. Try again in a moment.",
    "checkout_expired": "This checkout has expired.",
}

# What the customer should do differs for these; the others say no more than that the card was declined.
DECLINES: Final[dict[str, str]] = {
    "generic_decline": MESSAGES["card_declined"],
    "insufficient_funds": "The card does not have enough money on it. Use another card.",
    "lost_card": MESSAGES["card_declined"],
    "stolen_card": MESSAGES["card_declined"],
    "do_not_honor": MESSAGES["card_declined"],
    "incorrect_pin": "The PIN is not right. Try again.",
}


@dataclass(frozen=True, slots=True)
class CardError:
    code: str
    message: str
    decline_code: str | None = None


def card_error(code: str, decline_code: str | None = None) -> CardError:
    """The error as everybody is told it; codes that the specification does not have become its general ones."""
    if code not in MESSAGES:
        return CardError("payment_failed", MESSAGES["payment_failed"])
    if decline_code is None:
        return CardError(code, MESSAGES[code])
    known = decline_code if decline_code in DECLINES else "generic_decline"
    return CardError(code, DECLINES[known], known)
