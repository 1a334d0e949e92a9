"""What other features may ask of payments."""

from __future__ import annotations

from bursar.core.errors import NotFound
from bursar.db.pool import Record
from bursar.features.payments import queries, reference
from bursar.features.payments.queries import TRANSACTIONS
from bursar.features.payments.schemas import Transaction, TransactionStatus
from bursar.features.payments.views import transaction
from bursar.http.context import LARGEST_ID, Ctx

__all__ = ["TRANSACTIONS", "Transaction", "TransactionStatus", "named", "number_in", "transaction"]


def number_in(text: str) -> int | None:
    """The number of a payment from its id or its reference."""
    if text.isascii() and text.isdigit() and 0 < int(text) <= LARGEST_ID:
        return int(text)
    return reference.number_of(reference.PAYMENT, text)


async def named(ctx: Ctx, text: str) -> Record:
    """A payment of the account by its id or reference; `not_found` for anything else."""
    number = number_in(text)
    row = await queries.find(ctx.db, ctx.account.account_id, number) if number is not None else None
    if row is None:
        raise NotFound
    return row
