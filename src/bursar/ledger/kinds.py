"""The kinds of wallet entry: whether each asks or records, and what the public row calls it.

The database has the same table as `ledger_class` and `ledger_category`, and enforces the classes; a test compares
the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final


class Class(Enum):
    """A request must leave what it draws on at zero or above; a fact has happened, and always posts."""

    REQUEST = "request"
    FACT = "fact"


@dataclass(frozen=True, slots=True)
class Kind:
    class_: Class
    category: str


_ASKS, _RECORDS = Class.REQUEST, Class.FACT

KINDS: Final[dict[str, Kind]] = {
    "payment": Kind(_RECORDS, "payment"),
    "processing_fee": Kind(_RECORDS, "fee"),
    "application_fee": Kind(_RECORDS, "application_fee"),
    "application_fee_reversal": Kind(_RECORDS, "application_fee"),
    "settlement": Kind(_RECORDS, "settlement"),  # never a public row
    "refund": Kind(_ASKS, "refund"),
    "refund_failed": Kind(_RECORDS, "refund"),
    "reserve": Kind(_ASKS, "reserve"),
    "release": Kind(_RECORDS, "reserve"),
    "payout": Kind(_ASKS, "payout"),
    "payout_fee": Kind(_ASKS, "fee"),
    "payout_return": Kind(_RECORDS, "payout"),
    "payout_fee_return": Kind(_RECORDS, "fee"),
    "disbursement": Kind(_ASKS, "payout"),
    "disbursement_return": Kind(_RECORDS, "payout"),
    "dispute": Kind(_RECORDS, "dispute"),
    "dispute_fee": Kind(_RECORDS, "fee"),
    "dispute_won": Kind(_RECORDS, "dispute"),
    "adjustment": Kind(_RECORDS, "adjustment"),
    "collection_hold": Kind(_ASKS, "collection"),
    "collection_release": Kind(_RECORDS, "collection"),
    "collection": Kind(_RECORDS, "collection"),
    "funding_hold": Kind(_ASKS, "funding"),
    "funding_release": Kind(_RECORDS, "funding"),
    "funding": Kind(_RECORDS, "funding"),
}

# The categories a public row can have.
CATEGORIES: Final = tuple(dict.fromkeys(kind.category for name, kind in KINDS.items() if name != "settlement"))

# A journal whose kind is on the right, under the same reference, undoes an entry whose kind is on the left.
REVERSALS: Final[dict[str, str]] = {
    "payout": "payout_return",
    "disbursement": "disbursement_return",
    "refund": "refund_failed",
    "dispute": "dispute_won",
    "collection_hold": "collection_void",
    "funding_hold": "funding_void",
}

BUCKETS: Final = ("main", "pending", "reserve")

# Accounts of the service itself. They have no balance row: their legs are summed.
FEES: Final = "fees"
ADJUSTMENTS: Final = "adjustments"
PROCESSOR_CLEARING: Final = "processor_clearing"
BANK_TRANSIT: Final = "bank_transit"
BANK: Final = "bank"
UNALLOCATED: Final = "unallocated"
SERVICE_ACCOUNTS: Final = (FEES, ADJUSTMENTS, PROCESSOR_CLEARING, BANK_TRANSIT, BANK, UNALLOCATED)
