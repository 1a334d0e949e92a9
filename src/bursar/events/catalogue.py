"""Every type of event in one table: when it happens, what its `data` holds, who may hear of it and who gets mail.

`bursar.events.reference` writes the documentation from this table, and a subscription is checked against it. Additive
types are for those who name them (or their family); `*` alone does not bring them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

Audience = Literal["both", "account", "platform", "none"]
Person = Literal["customer", "merchant"]


@dataclass(frozen=True, slots=True)
class EventType:
    name: str
    resource: str  # the key of the resource in `data`
    when: str
    additive: bool = False
    audience: Audience = "both"  # the account's endpoints, its platform's, both, or only one endpoint asked for


def _family(
    family: str, resource: str, happenings: dict[str, str], *, additive: bool = False, audience: Audience = "both"
) -> list[EventType]:
    return [EventType(f"{family}.{name}", resource, when, additive, audience) for name, when in happenings.items()]


_PAYOUT = {
    "created": "A payout was requested and its amount set aside.",
    "review": "A payout waits for a decision by staff.",
    "in_transit": "A payout is on its way to the bank.",
    "paid": "A payout arrived.",
    "failed": "A payout could not be made; its amount is back in the balance.",
    "returned": "A paid payout came back from the bank.",
    "cancelled": "A payout was cancelled before it left.",
}

_ALL: tuple[EventType, ...] = (
    *_family("transaction", "transaction", {
        "created": "A checkout was created.",
        "succeeded": "A payment was confirmed.",
        "failed": "A payment attempt failed; the order may still be paid.",
        "cancelled": "A payment was cancelled before it was paid.",
        "refunded": "A payment was refunded, in part or in full.",
        "proof_requested": "Staff asked for proof of what was sold.",
        "proof_submitted": "Proof was submitted.",
        "proof_approved": "Staff approved the proof.",
        "proof_rejected": "Staff rejected the proof.",
    }),
    *_family("hosted_payment", "hosted_payment", {"expired": "A checkout was not paid in time."}),
    *_family("payment_link", "payment_link", {"paid": "A payment link was paid."}),
    *_family("balance", "balance", {
        "reserve_held": "Part of a balance was set aside as a reserve.",
        "reserve_released": "An approved reserve was released.",
    }),
    *_family("payout", "payout", _PAYOUT),
    *_family("disburse.payout", "payout", _PAYOUT),
    *_family("dispute", "dispute", {
        "created": "A customer disputed a payment.",
        "countered": "Evidence was submitted.",
        "accepted": "The dispute was accepted.",
        "won": "The dispute was decided for the merchant.",
        "lost": "The dispute was decided for the customer.",
        "deadline_near": "The time to respond is nearly over.",
    }),
    *_family("kyc", "verification_link", {
        "link_created": "A verification link was created.",
        "requires_input": "The person has to try again.",
        "verified": "The identity was verified.",
        "rejected": "The identity was rejected.",
    }),
    *_family("compliance", "compliance_request", {
        "requested": "Staff asked for documents or information.",
        "submitted": "The account answered.",
        "approved": "Staff approved the answer.",
        "rejected": "Staff rejected the answer.",
        "overdue": "The request was not answered in time.",
    }),
    *_family("connected_account", "account", {
        "created": "A connected account was created.",
        "activated": "A connected account became active.",
        "review": "A connected account went into review.",
        "banned": "A connected account was banned.",
        "moved": "A connected account moved to another platform.",
    }),
    *_family("account", "account", {"update": "An account was changed."}),
    *_family("bank_account", "bank_account", {
        "created": "A bank account was linked.",
        "disabled": "A bank account can no longer be used.",
    }),
    *_family("terminal", "payment", {
        "payment_succeeded": "A terminal payment succeeded.",
        "payment_failed": "A terminal payment failed.",
        "payment_cancelled": "A terminal payment was cancelled.",
    }),
    *_family("terminal", "reader", {
        "reader_online": "A reader came online.",
        "reader_offline": "A reader went offline.",
    }),
    *_family("support", "ticket", {
        "ticket_created": "A support ticket was opened.",
        "ticket_replied": "A support ticket got a reply.",
        "ticket_resolved": "A support ticket was resolved.",
    }),
    *_family("commerce", "commission", {
        "commission.updated": "A commission changed its state; sent to the original platform.",
    }, audience="platform"),
    *_family("commerce", "collection", {
        "collection.settled": "A collection of fees was settled; sent to the original merchant and platform.",
    }),
    *_family("webhook", "webhook", {"disabled": "An endpoint was disabled after it kept failing, or answered 410."}),
    *_family("webhook", "webhook", {"test": "You asked for a test; sent to that endpoint alone."}, audience="none"),
    *_family("subscription", "subscription", {
        "activated": "A subscription became active.",
        "past_due": "A renewal could not be charged.",
        "cancelled": "A subscription was cancelled.",
        "invoice_paid": "A subscription's invoice was paid.",
        "invoice_failed": "A subscription's invoice could not be charged.",
    }, additive=True),
    *_family("contract", "contract", {
        "sent": "A contract was sent to its signer.",
        "signed": "A contract was signed.",
        "completed": "A contract is complete.",
        "expired": "A contract was not signed in time.",
    }, additive=True),
    *_family("invoice", "invoice", {
        "paid": "An invoice was paid in full.",
        "partially_paid": "Part of an invoice was paid.",
        "refunded": "An invoice was refunded in full.",
    }, additive=True),
    *_family("store", "order", {
        "order_paid": "A store order was paid.",
        "order_shipped": "A store order was shipped.",
    }, additive=True),
    *_family("gym", "membership", {"membership_expired": "A membership expired."}, additive=True),
    *_family("gym", "checkin", {"checkin_created": "A client checked in."}, additive=True),
)  # fmt: skip

CATALOGUE: dict[str, EventType] = {event.name: event for event in _ALL}
assert len(CATALOGUE) == len(_ALL), "an event type is listed twice"

# Who is also told by e-mail. What the letter says is `bursar.features.notices.letters`.
MAIL_TO: dict[str, Person] = {
    "transaction.succeeded": "customer",
    "transaction.refunded": "customer",
    "payout.paid": "merchant",
    "payout.failed": "merchant",
    "payout.returned": "merchant",
    "disburse.payout.failed": "merchant",
    "disburse.payout.returned": "merchant",
    "dispute.created": "merchant",
    "dispute.deadline_near": "merchant",
    "dispute.won": "merchant",
    "dispute.lost": "merchant",
    "kyc.link_created": "merchant",
    "webhook.disabled": "merchant",
}

TYPES = frozenset(name for name, event in CATALOGUE.items() if not event.additive)
ADDITIVE = frozenset(name for name, event in CATALOGUE.items() if event.additive)

_PATTERN = re.compile(r"\*|[a-z_]+(\.[a-z_]+)*\.\*")


def is_subscribable(pattern: str) -> bool:
    """A known type, `*`, or a family with a wildcard that some type matches."""
    if pattern in CATALOGUE:
        return True
    return bool(_PATTERN.fullmatch(pattern)) and any(matches(pattern, type_) for type_ in CATALOGUE)


def matches(pattern: str, type_: str) -> bool:
    return pattern in ("*", type_) or (pattern.endswith(".*") and type_.startswith(pattern[:-1]))


def wants(patterns: Sequence[str], type_: str, *, include_additive: bool) -> bool:
    """Whether an endpoint that asked for `patterns` is sent events of this type."""
    return _wants(tuple(patterns), type_, include_additive)


@lru_cache(maxsize=4096)
def _wants(patterns: tuple[str, ...], type_: str, include_additive: bool) -> bool:
    if type_ in ADDITIVE and not include_additive:
        patterns = tuple(pattern for pattern in patterns if pattern != "*")
    return any(matches(pattern, type_) for pattern in patterns)


def known(types: Iterable[str]) -> bool:
    return all(type_ in CATALOGUE for type_ in types)
