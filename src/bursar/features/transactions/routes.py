"""/transactions: list and read."""

from __future__ import annotations

from collections.abc import Sequence

from bursar.core.errors import NotFound
from bursar.db import listing
from bursar.db.pool import Record
from bursar.features.payments import service as payments
from bursar.features.payments.schemas import Transaction
from bursar.features.transactions.schemas import TransactionQuery
from bursar.http import shown
from bursar.http.context import Ctx
from bursar.http.envelope import Page
from bursar.http.routes import Read, Route


async def list_transactions(ctx: Ctx, query: TransactionQuery) -> Page:
    return await shown.page(
        ctx, payments.TRANSACTIONS, (ctx.account.account_id,), query, _transactions,
        filters={
            "status": query.status,
            "since": listing.since(query.since),
            "until": listing.until(query.until),
        },
        q=query.q or query.search,
    )  # fmt: skip


async def _transactions(ctx: Ctx, rows: Sequence[Record]) -> list[Transaction]:
    return [payments.transaction(row, ctx.account.public_id) for row in rows]


async def show_transaction(ctx: Ctx, _: None) -> Transaction:
    return payments.transaction(await payments.named(ctx, ctx.path["id"]), ctx.account.public_id)


ROUTES = (
    Route(
        method="GET",
        path="/transactions",
        name="list_transactions",
        summary="The account's transactions.",
        tag="Transactions",
        scope="transactions:read",
        query=TransactionQuery,
        reply=Transaction,
        is_list=True,
        handler=Read(list_transactions),
    ),
    Route(
        method="GET",
        path="/transactions/{id}",
        name="show_transaction",
        summary="One transaction, by id or reference.",
        tag="Transactions",
        scope="transactions:read",
        reply=Transaction,
        wrap="transaction",
        errors=(NotFound,),
        handler=Read(show_transaction),
    ),
)
