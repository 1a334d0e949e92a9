"""What the open transaction has posted so far: for dry runs, which tell of it and take it back."""

from __future__ import annotations

from typing import Any

from bursar.core.money import format_major
from bursar.db.pool import Queryable

WALLET = ("main", "pending", "reserve")


async def posted(db: Queryable, account_id: int) -> list[dict[str, Any]]:
    """Each journal of this transaction with what it did to the account's own wallet."""
    rows = await db.fetch(
        """
        SELECT kind, currency, owners, accounts, amounts
        FROM journal
        WHERE txid = pg_current_xact_id_if_assigned()::text::bigint
        ORDER BY id
        """
    )
    return [
        {"type": "journal", "journal": row["kind"], "currency": row["currency"], "wallet": _own(row, account_id)}
        for row in rows
    ]


def _own(row: Any, account_id: int) -> dict[str, Any]:
    legs = zip(row["owners"], row["accounts"], row["amounts"], strict=True)
    return {
        bucket: format_major(amount, row["currency"])
        for owner, bucket, amount in legs
        if owner == account_id and bucket in WALLET
    }
