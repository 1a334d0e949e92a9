"""The ledger for a bookkeeper: an account's statement, one journal with its accounts, the service's own balances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from bursar.core.money import format_major
from bursar.db.pool import Queryable, Record
from bursar.ledger.kinds import BUCKETS, KINDS

_WALLETS = """
SELECT currency, main, pending, reserve
FROM wallet
WHERE account_id = $1 AND ($2::text IS NULL OR currency = $2)
ORDER BY currency
"""

_ENTRIES = """
-- The newest entries of a wallet in a period, oldest first.
SELECT *
FROM (
    SELECT created_at, seq, kind, related, note, journal_id, main + pending AS moved, reserve, balance_before,
           balance_after
    FROM wallet_entry
    WHERE account_id = $1 AND currency = $2
      AND ($3::timestamptz IS NULL OR created_at >= $3) AND ($4::timestamptz IS NULL OR created_at < $4)
    ORDER BY seq DESC
    LIMIT $5
) AS newest
ORDER BY seq
"""

_JOURNAL = "SELECT * FROM journal WHERE id = $1 ORDER BY account_id LIMIT 1"

_JOURNAL_ENTRIES = """
SELECT account_id, kind, main, pending, reserve, balance_before, balance_after
FROM wallet_entry
WHERE journal_account_id = $1 AND journal_id = $2 AND account_id = ANY ($3)
ORDER BY id
"""

_SERVICE = """
-- The newest seal's totals of the service's own accounts, and what has been posted since.
WITH newest AS (SELECT upto_txid, totals FROM seal ORDER BY number DESC LIMIT 1)
SELECT name, sum(amount)::bigint AS amount
FROM (
    SELECT e.key AS name, e.value::bigint AS amount
    FROM newest, jsonb_each_text(newest.totals) AS e
    UNION ALL
    SELECT j.currency || ' ' || g.account, g.amount
    FROM journal j, unnest(j.accounts, j.amounts) AS g (account, amount)
    WHERE j.txid >= coalesce((SELECT upto_txid FROM newest), 0)
      AND g.account NOT IN ('main', 'pending', 'reserve')
) AS leg
GROUP BY name
ORDER BY name
"""


@dataclass(frozen=True, slots=True)
class Row:
    at: datetime
    seq: int
    journal_id: int
    kind: str
    related: str
    note: str
    money_in: Decimal | None
    money_out: Decimal | None
    reserved: Decimal | None  # what went into the reserve; negative came out of it
    balance: Decimal


@dataclass(frozen=True, slots=True)
class Statement:
    """One wallet: where it stood, what happened, where it stands. Balances are of what is available."""

    account_id: int
    currency: str
    opening: Decimal
    rows: list[Row]
    closing: Decimal
    settled: Decimal
    pending: Decimal
    reserve: Decimal


@dataclass(frozen=True, slots=True)
class Leg:
    account: str
    debit: Decimal | None
    credit: Decimal | None


@dataclass(frozen=True, slots=True)
class Effect:
    """What a journal did to one wallet."""

    account_id: int
    kind: str
    asks: bool
    main: Decimal
    pending: Decimal
    reserve: Decimal
    balance_before: Decimal
    balance_after: Decimal


@dataclass(frozen=True, slots=True)
class Explained:
    journal_id: int
    account_id: int
    kind: str
    ref: str
    related: str
    note: str
    currency: str
    event_at: datetime
    created_at: datetime
    legs: list[Leg]
    effects: list[Effect]


async def statements(
    db: Queryable,
    account_id: int,
    *,
    currency: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    largest: int = 1000,
) -> list[Statement]:
    """A statement per wallet of the account, of its newest `largest` entries in the period."""
    found = []
    for wallet in await db.fetch(_WALLETS, account_id, currency):
        entries = await db.fetch(_ENTRIES, account_id, wallet["currency"], since, until, largest)
        found.append(_statement(account_id, wallet, entries))
    return found


async def explain(db: Queryable, journal_id: int) -> Explained | None:
    """One movement with its accounts, and what it did to each wallet."""
    row = await db.fetchrow(_JOURNAL, journal_id)
    if row is None:
        return None
    currency = row["currency"]
    legs = zip(row["owners"], row["accounts"], row["amounts"], strict=True)
    entries = await db.fetch(_JOURNAL_ENTRIES, row["account_id"], journal_id, sorted(set(row["owners"])))
    return Explained(
        journal_id=journal_id,
        account_id=row["account_id"],
        kind=row["kind"],
        ref=row["ref"],
        related=row["related"],
        note=row["note"],
        currency=currency,
        event_at=row["event_at"],
        created_at=row["created_at"],
        legs=[_leg(owner, account, amount, currency) for owner, account, amount in legs],
        effects=[_effect(entry, currency) for entry in entries],
    )


async def service_balances(db: Queryable) -> dict[tuple[str, str], int]:
    """(currency, account) → minor units of each of the service's own accounts; positive is a credit balance."""
    rows = await db.fetch(_SERVICE)
    return {(row["name"][:3], row["name"][4:]): row["amount"] for row in rows}


def _statement(account_id: int, wallet: Record, entries: Sequence[Record]) -> Statement:
    currency = wallet["currency"]
    available = wallet["main"] + wallet["pending"]
    rows = [_row(entry, currency) for entry in entries]
    return Statement(
        account_id=account_id,
        currency=currency,
        opening=format_major(entries[0]["balance_before"] if entries else available, currency),
        rows=rows,
        closing=rows[-1].balance if rows else format_major(available, currency),
        settled=format_major(wallet["main"], currency),
        pending=format_major(wallet["pending"], currency),
        reserve=format_major(wallet["reserve"], currency),
    )


def _row(entry: Record, currency: str) -> Row:
    moved = entry["moved"]
    return Row(
        at=entry["created_at"],
        seq=entry["seq"],
        journal_id=entry["journal_id"],
        kind=entry["kind"],
        related=entry["related"],
        note=entry["note"],
        money_in=format_major(moved, currency) if moved > 0 else None,
        money_out=format_major(-moved, currency) if moved < 0 else None,
        reserved=format_major(entry["reserve"], currency) if entry["reserve"] else None,
        balance=format_major(entry["balance_after"], currency),
    )


def _leg(owner: int, account: str, amount: int, currency: str) -> Leg:
    name = f"wallet {owner}: {account}" if account in BUCKETS else account
    major = format_major(abs(amount), currency)
    return Leg(name, major if amount < 0 else None, major if amount > 0 else None)


def _effect(entry: Record, currency: str) -> Effect:
    columns = ("main", "pending", "reserve", "balance_before", "balance_after")
    amounts = {column: format_major(entry[column], currency) for column in columns}
    asks = KINDS[entry["kind"]].class_.value == "request"
    return Effect(account_id=entry["account_id"], kind=entry["kind"], asks=asks, **amounts)
