"""Posting: hands a list of journals to the database in one statement and says what became of each."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, Protocol

import msgspec

from bursar.core.errors import InsufficientBalance
from bursar.core.money import format_major
from bursar.db.pool import Record
from bursar.ledger.lines import Journal

# More in one call gains nothing and keeps wallets locked for longer.
LARGEST_LIST = 1000

POST = """
SELECT outcomes, ids, available
FROM ledger_post($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)
"""


class Outcome(Enum):
    POSTED = "posted"
    EXISTING = "existing"  # the same fact was posted before
    INSUFFICIENT = "insufficient"  # a request that the wallet does not cover
    EMPTY = "empty"  # a settlement of which nothing was left


class Posting(msgspec.Struct, frozen=True):
    """What became of one journal. `available_minor` says what there was when it was not enough."""

    outcome: Outcome
    journal_id: int | None
    available_minor: int | None = None


class _Fetches(Protocol):
    async def fetchrow(self, query: str, *args: Any) -> Record | None: ...


async def post(db: _Fetches, journals: Sequence[Journal], *, require: bool = False) -> list[Posting]:
    """Posts the journals in the caller's transaction, once; the wallets stay locked until it ends.

    A request that is not covered fails alone and is reported; with `require` it raises `insufficient_balance`.
    """
    keys = [journal.key for journal in journals]
    unique: dict[tuple[int, str, str], Journal] = {}
    for key, journal in zip(keys, journals, strict=True):
        unique.setdefault(key, journal)
    listed = list(unique.values())
    if not listed:
        return []
    if len(listed) > LARGEST_LIST:
        raise ValueError(f"at most {LARGEST_LIST} journals a call")
    row = await db.fetchrow(POST, *arguments(listed))
    assert row is not None
    found = {
        key: Posting(_OUTCOMES[outcome], id_, available)
        for key, outcome, id_, available in zip(unique, row["outcomes"], row["ids"], row["available"], strict=True)
    }
    postings = []
    for key, journal in zip(keys, journals, strict=True):
        posting = found[key]
        if require and posting.outcome is Outcome.INSUFFICIENT:
            raise insufficient(journal, posting)
        postings.append(posting)
        if posting.outcome is Outcome.POSTED:  # its twin further down the list is not posted again
            found[key] = Posting(Outcome.EXISTING, posting.journal_id)
    return postings


def insufficient(journal: Journal, posting: Posting) -> InsufficientBalance:
    available = format_major(posting.available_minor or 0, journal.currency)
    return InsufficientBalance(details={"available": available, "currency": journal.currency})


def arguments(journals: Sequence[Journal]) -> tuple[list[Any], ...]:
    """The journals as the arrays of `ledger_post`."""
    wallets: dict[tuple[int, str], int] = {}
    places: list[int] = []
    owners: list[int] = []
    lines = []
    for number, journal in enumerate(journals, 1):
        for line in journal.lines:
            lines.append(line)
            owners.append(number)
            places.append(
                wallets.setdefault((line.account_id, journal.currency), len(wallets) + 1) if line.account_id else 0
            )
    return (
        [journal.account_id for journal in journals],
        [journal.kind for journal in journals],
        [journal.ref for journal in journals],
        [journal.currency for journal in journals],
        [journal.related for journal in journals],
        [journal.note for journal in journals],
        [journal.event_at for journal in journals],
        [account_id for account_id, _ in wallets],
        [currency for _, currency in wallets],
        owners,
        places,
        [line.op for line in lines],
        [line.via for line in lines],
        [line.kind for line in lines],
        [line.amount for line in lines],
        [line.source for line in lines],
        [line.settles_at for line in lines],
    )


_OUTCOMES = {outcome.value: outcome for outcome in Outcome}
