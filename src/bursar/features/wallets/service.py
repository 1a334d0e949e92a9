"""What wallets show: the identities between the balances, and a wallet of nothing before there is one."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from bursar.core.money import format_major
from bursar.db.pool import Queryable, Record
from bursar.features.wallets import queries
from bursar.features.wallets.currencies import currency
from bursar.features.wallets.schemas import Related, Wallet, WalletTransaction
from bursar.http.context import Account


async def wallets(db: Queryable, account: Account) -> list[Wallet]:
    """The account's wallets; one of zero in its own currency where it has none yet."""
    rows = await queries.wallets(db, account.account_id)
    if rows:
        return [as_wallet(row, account) for row in rows]
    opened_at = await queries.opened_at(db, account.account_id)
    nothing = {"id": 0, "currency": account.currency, "main": 0, "pending": 0, "reserve": 0, "updated_at": opened_at}
    return [as_wallet(nothing, account)]


def as_wallet(row: Record | Mapping[str, Any], account: Account) -> Wallet:
    code: str = row["currency"]

    def major(minor: int) -> Decimal:
        return format_major(minor, code)

    available = row["main"] + row["pending"]
    return Wallet(
        id=row["id"],
        account_id=account.public_id,
        currency=currency(code),
        available=major(available),
        pending_funds=major(row["pending"]),
        standard_available=major(row["main"]),
        instant_available=major(max(0, min(available, instant_maximum(account, code)))),
        reserve_balance=major(row["reserve"]),
        business_balance=major(0),
        updated_at=row["updated_at"],
    )


def instant_maximum(account: Account, code: str) -> int:
    """The most an instant payout may be, in minor units: nothing, while the account has instant payouts off."""
    return 0


def as_row(row: Record) -> WalletTransaction:
    code: str = row["currency"]
    kind, _, id_ = row["related"].partition(":")
    return WalletTransaction(
        id=row["id"],
        txn_id=row["txn_id"],
        currency=code,
        amount=format_major(row["amount"], code),
        type=row["type"],
        status=row["status"],
        notes=row["notes"],
        balance_before=format_major(row["balance_before"], code),
        balance_after=format_major(row["balance_after"], code),
        category=row["category"],
        related=Related(kind, int(id_) if id_.isdecimal() else id_),
        created_at=row["created_at"],
    )
