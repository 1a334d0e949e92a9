"""What the ledger's tests share: journals in short, balances in short, and the audit as the last word."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg

from bursar.db.embedded import Urls
from bursar.db.pool import Database
from bursar.ledger import audit, journals
from bursar.ledger.audit import Report
from bursar.ledger.lines import Journal
from bursar.ledger.post import Outcome, Posting, post

SHOP, PLATFORM, OTHER = 1001, 1002, 1003
LATER = datetime.now(UTC) + timedelta(days=2)


@dataclass(frozen=True)
class Balance:
    main: int
    pending: int
    reserve: int

    @property
    def available(self) -> int:
        return self.main + self.pending


async def balance(db: Database, account_id: int = SHOP, currency: str = "GBP") -> Balance:
    row = await db.fetchrow(
        "SELECT main, pending, reserve FROM wallet WHERE account_id = $1 AND currency = $2", account_id, currency
    )
    return Balance(*row) if row else Balance(0, 0, 0)


async def parts(db: Database, account_id: int = SHOP) -> dict[str, int]:
    rows = await db.fetch("SELECT source, amount FROM unsettled WHERE account_id = $1", account_id)
    return {row["source"]: row["amount"] for row in rows}


async def posted(db: Database, *listed: Journal) -> list[Posting]:
    """Posts the journals, all of which must go through."""
    postings = await post(db, listed)
    assert all(posting.outcome is Outcome.POSTED for posting in postings), postings
    return postings


async def outcomes(db: Database, *listed: Journal) -> list[str]:
    return [posting.outcome.value for posting in await post(db, listed)]


def pay(number: int = 1, amount: int = 10_000, account_id: int = SHOP, **facts: Any) -> Journal:
    facts = {"currency": "GBP", "settles_at": LATER, **facts}
    return journals.payment(account_id=account_id, transaction_id=number, amount=amount, **facts)


def top_up(number: int, amount: int, account_id: int = SHOP, currency: str = "GBP") -> Journal:
    """Settled money, by the operator."""
    return journals.adjustment(account_id=account_id, adjustment_id=number, currency=currency, amount=amount)


def payout(number: int, amount: int, account_id: int = SHOP, **facts: Any) -> Journal:
    return journals.payout(account_id=account_id, payout_id=number, currency="GBP", amount=amount, **facts)


def refund(number: int, amount: int, of: int = 1, account_id: int = SHOP, **facts: Any) -> Journal:
    return journals.refund(
        account_id=account_id, refund_id=number, transaction_id=of, currency="GBP", amount=amount, **facts
    )


def reserve(number: int, amount: int, of: int = 1, account_id: int = SHOP) -> Journal:
    return journals.reserve(account_id=account_id, hold_id=number, transaction_id=of, currency="GBP", amount=amount)


def release(number: int, amount: int, of: int = 1, account_id: int = SHOP) -> Journal:
    return journals.reserve_release(
        account_id=account_id, release_id=number, transaction_id=of, currency="GBP", amount=amount
    )


def dispute(number: int, amount: int, of: int = 1, account_id: int = SHOP, fee: int = 1_500) -> Journal:
    return journals.dispute(
        account_id=account_id, dispute_id=number, transaction_id=of, currency="GBP", amount=amount, fee=fee
    )


def dispute_won(number: int, amount: int, account_id: int = SHOP) -> Journal:
    return journals.dispute_won(account_id=account_id, dispute_id=number, currency="GBP", amount=amount)


def settle(of: int = 1, account_id: int = SHOP) -> Journal:
    return journals.settlement(account_id=account_id, currency="GBP", source=f"transaction:{of}")


async def audited(urls: Urls, anchor: str | None = None) -> Report:
    async with audit.session(urls.service) as session:
        return await audit.verify(session, anchor=anchor)


async def assert_sound(urls: Urls) -> None:
    report = await audited(urls)
    assert report.ok, [check for check in report.checks if not check.ok]


async def as_owner(urls: Urls, *statements: str) -> None:
    """Does by hand what the service cannot."""
    connection = await asyncpg.connect(urls.owner)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()
