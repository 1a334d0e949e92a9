"""Every type of event, by name. Additive types are sent only to endpoints that ask for them by name."""

from __future__ import annotations

import re

TYPES = frozenset(
    f"{family}.{name}"
    for family, names in {
        "transaction": (
            "created succeeded failed cancelled refunded proof_requested proof_submitted proof_approved proof_rejected"
        ),
        "hosted_payment": "expired",
        "payment_link": "paid",
        "balance": "reserve_held reserve_released",
        "payout": "created review in_transit paid failed returned cancelled",
        "disburse.payout": "created review in_transit paid failed returned cancelled",
        "dispute": "created countered accepted won lost deadline_near",
        "kyc": "link_created requires_input verified rejected",
        "compliance": "requested submitted approved rejected overdue",
        "connected_account": "created activated review banned moved",
        "account": "update",
        "bank_account": "created disabled",
        "terminal": "payment_succeeded payment_failed payment_cancelled reader_online reader_offline",
        "support": "ticket_created ticket_replied ticket_resolved",
        "commerce": "commission.updated collection.settled",
        "webhook": "disabled test",
    }.items()
    for name in names.split()
)

ADDITIVE = frozenset(
    f"{family}.{name}"
    for family, names in {
        "subscription": "activated past_due cancelled invoice_paid invoice_failed",
        "contract": "sent signed completed expired",
        "invoice": "paid partially_paid refunded",
        "store": "order_paid order_shipped",
        "gym": "membership_expired checkin_created",
    }.items()
    for name in names.split()
)

_PATTERN = re.compile(r"\*|[a-z_]+(\.[a-z_]+)*\.\*")


def is_subscribable(pattern: str) -> bool:
    """A known type, `*`, or a family with a wildcard that some type matches."""
    if pattern in TYPES or pattern in ADDITIVE:
        return True
    return bool(_PATTERN.fullmatch(pattern)) and any(matches(pattern, type_) for type_ in TYPES | ADDITIVE)


def matches(pattern: str, type_: str) -> bool:
    return pattern in ("*", type_) or (pattern.endswith(".*") and type_.startswith(pattern[:-1]))
