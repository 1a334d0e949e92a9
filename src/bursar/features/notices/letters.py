"""What people are told, in words: one letter per type of event in `catalogue.MAIL_TO`. Pure functions of the event.

A letter is made of parts, not of prose with marks in it, so that nothing a merchant or a customer wrote can become a
link or a heading. How the parts look as text and as a page is `writing`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bursar.core.calendar import shown_moment
from bursar.core.money import parse_major, shown_amount
from bursar.features.payments import service as payments
from bursar.settings import Settings

LONGEST_FACT = 200


@dataclass(frozen=True, slots=True)
class Told:
    """An event, and whose it is."""

    account_id: int
    business: str
    data: Mapping[str, Any]
    at: datetime
    settings: Settings


@dataclass(frozen=True, slots=True)
class Letter:
    subject: str
    heading: str
    text: str
    facts: tuple[tuple[str, str], ...]
    amount: str | None = None  # what it is about, set large
    action: tuple[str, str] | None = None  # what there is to do, and where
    after: str = ""
    urgent: bool = False  # also a text message, where there is a number


def _amount(resource: Mapping[str, Any], name: str = "amount") -> str:
    return shown_amount(parse_major(resource[name], resource["currency"]), resource["currency"])


def _facts(*facts: tuple[str, str | None]) -> tuple[tuple[str, str], ...]:
    """Those that are known, each on one line and not too long."""
    return tuple((name, _one_line(value)) for name, value in facts if value)


def _one_line(text: str) -> str:
    text = re.sub(r"[ \t\r\n\f\v]+", " ", text).strip()  # spaces that do not break stay
    return text if len(text) <= LONGEST_FACT else text[: LONGEST_FACT - 1] + "…"


def _moment(text: str | None) -> str | None:
    return shown_moment(datetime.fromisoformat(text)) if text else None


# To customers -------------------------------------------------------------------------------------------------------


def receipt(told: Told) -> Letter:
    paid = told.data["transaction"]
    amount = _amount(paid)
    return Letter(
        subject=f"Your receipt from {told.business}: {amount}",
        heading="Thank you for your payment",
        text=f"{told.business} has received it in full.",
        amount=amount,
        facts=_facts(
            ("Paid to", told.business),
            ("For", paid["details"]),
            ("Order", paid["identifier"]),
            ("Reference", paid["reference"]),
            ("Paid on", _moment(paid["paid_at"])),
        ),
        action=("See your receipt", payments.checkout_url(told.settings, told.account_id, paid["id"])),
        after=f"If you have a question about your order, please ask {told.business}.",
    )


def refund(told: Told) -> Letter:
    paid, back = told.data["transaction"], told.data["refund"]
    amount = _amount(back)
    whole = paid["status"] == "refunded"
    return Letter(
        subject=f"Your refund from {told.business}: {amount}",
        heading="Your refund is on its way",
        text=f"{told.business} has sent {'your payment' if whole else 'part of your payment'} back to the card you "
        "paid with. Most banks show it within five to ten working days.",
        amount=amount,
        facts=_facts(
            ("Refunded by", told.business),
            ("Of your payment", _amount(paid)),
            ("Order", paid["identifier"]),
            ("Reference", paid["reference"]),
            ("Refund", back["reference"]),
            ("Refunded on", shown_moment(told.at)),
        ),
        action=("See your payment", payments.checkout_url(told.settings, told.account_id, paid["id"])),
        after=f"If you have a question about your refund, please ask {told.business}.",
    )


# To merchants: payouts ----------------------------------------------------------------------------------------------

_FAILURES = {
    "account_closed": "The bank account is closed.",
    "no_account": "The bank does not know this account.",
    "invalid_account": "The account number or sort code is not right.",
    "account_frozen": "The bank account is frozen.",
    "name_mismatch": "The name does not match the bank account.",
    "bank_declined": "The bank declined it.",
    "could_not_process": "The bank could not process it.",
}


def _payout_facts(told: Told, when: str) -> tuple[tuple[str, str], ...]:
    payout = told.data["payout"]
    failure = payout.get("failure_code")
    return _facts(
        ("Reason", failure and _FAILURES.get(failure, failure.replace("_", " "))),
        ("Payout", str(payout["id"])),
        ("Reference", payout.get("reference")),
        (when, shown_moment(told.at)),
    )


def payout_paid(told: Told) -> Letter:
    amount = _amount(told.data["payout"])
    return Letter(
        subject=f"Paid out: {amount} to {told.business}",
        heading="Your payout has arrived",
        text="It was paid to your bank account. Depending on your bank it may take a few hours until you see it.",
        amount=amount,
        facts=_payout_facts(told, "Paid on"),
    )


def payout_failed(told: Told) -> Letter:
    amount = _amount(told.data["payout"])
    return Letter(
        subject=f"A payout of {amount} to {told.business} could not be made",
        heading="Your payout could not be made",
        text="The money is back in your balance.",
        amount=amount,
        facts=_payout_facts(told, "Failed on"),
        after="Please check the bank details before you try again.",
        urgent=True,
    )


def payout_returned(told: Told) -> Letter:
    amount = _amount(told.data["payout"])
    return Letter(
        subject=f"A payout of {amount} to {told.business} came back",
        heading="Your payout came back",
        text="The bank has returned it. The money is back in your balance.",
        amount=amount,
        facts=_payout_facts(told, "Returned on"),
        after="Please check the bank details before you try again.",
        urgent=True,
    )


# To merchants: disputes ---------------------------------------------------------------------------------------------


def _dispute_facts(dispute: Mapping[str, Any], *, deadline: bool) -> tuple[tuple[str, str], ...]:
    return _facts(
        ("Case", dispute["case_id"]),
        ("Payment", dispute["transaction_reference"]),
        ("Reason", dispute["reason"].replace("_", " ").capitalize()),
        ("Answer by", _moment(dispute["response_deadline"]) if deadline else None),
    )


def dispute_created(told: Told) -> Letter:
    dispute = told.data["dispute"]
    amount = _amount(dispute)
    return Letter(
        subject=f"{told.business}: a payment of {amount} is disputed",
        heading="A customer disputes a payment",
        text="The amount and the dispute fee were taken from your balance until it is decided.",
        amount=amount,
        facts=_dispute_facts(dispute, deadline=True),
        after="You can send evidence, once, or accept the dispute. Without an answer it is decided for the customer.",
        urgent=True,
    )


def dispute_deadline_near(told: Told) -> Letter:
    dispute = told.data["dispute"]
    deadline = _moment(dispute["response_deadline"])
    return Letter(
        subject=f"{told.business}: answer dispute {dispute['case_id']} by {deadline}",
        heading="A dispute needs your answer",
        text=f"The time to answer ends on {deadline}.",
        amount=_amount(dispute),
        facts=_dispute_facts(dispute, deadline=True),
        after="You can send evidence, once, or accept the dispute. Without an answer it is decided for the customer.",
        urgent=True,
    )


def dispute_won(told: Told) -> Letter:
    dispute = told.data["dispute"]
    amount = _amount(dispute)
    return Letter(
        subject=f"{told.business}: dispute {dispute['case_id']} was decided for you",
        heading="You won the dispute",
        text="The amount is back in your balance. The dispute fee is not returned.",
        amount=amount,
        facts=_dispute_facts(dispute, deadline=False),
    )


def dispute_lost(told: Told) -> Letter:
    dispute = told.data["dispute"]
    return Letter(
        subject=f"{told.business}: dispute {dispute['case_id']} was decided for the customer",
        heading="The dispute was decided for the customer",
        text="The amount stays with the customer. This is final; there is nothing you need to do.",
        amount=_amount(dispute),
        facts=_dispute_facts(dispute, deadline=False),
    )


# To merchants: the account ------------------------------------------------------------------------------------------


def verification_link(told: Told) -> Letter:
    link = told.data["verification_link"]
    return Letter(
        subject=f"{told.business}: please confirm who you are",
        heading="Please confirm who you are",
        text=f"So that {told.business} can take payments, its identity has to be verified. It takes a few minutes; "
        "have your passport, driving licence or identity card at hand.",
        facts=_facts(("Valid until", _moment(link["expires_at"]))),
        action=("Start the verification", link["url"]),
        after="The link is for you alone. Please do not forward this message.",
    )


_DISABLED = {
    "gone": "It answered 410 Gone, which asks us to stop.",
    "failing": "It has done nothing but fail for five days.",
}


def webhook_disabled(told: Told) -> Letter:
    webhook = told.data["webhook"]
    return Letter(
        subject=f"{told.business}: a webhook was switched off",
        heading="A webhook was switched off",
        text="We no longer send events to this address. Nothing is lost: events are kept.",
        facts=_facts(
            ("Webhook", str(webhook["id"])),
            ("Address", webhook["url"]),
            ("Why", _DISABLED.get(webhook["disabled_reason"], webhook["disabled_reason"])),
            ("Since", shown_moment(told.at)),
        ),
        after="Once the address answers again, set the webhook to active and replay the time it missed.",
    )


LETTERS: dict[str, Callable[[Told], Letter]] = {
    "transaction.succeeded": receipt,
    "transaction.refunded": refund,
    "payout.paid": payout_paid,
    "payout.failed": payout_failed,
    "payout.returned": payout_returned,
    "disburse.payout.failed": payout_failed,
    "disburse.payout.returned": payout_returned,
    "dispute.created": dispute_created,
    "dispute.deadline_near": dispute_deadline_near,
    "dispute.won": dispute_won,
    "dispute.lost": dispute_lost,
    "kyc.link_created": verification_link,
    "webhook.disabled": webhook_disabled,
}
