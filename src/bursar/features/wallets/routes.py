"""/balances, its alias /balance, and /wallet-transactions: read-only."""

from __future__ import annotations

from bursar.core.errors import NotFound
from bursar.core.money import format_major
from bursar.db import listing
from bursar.features.wallets import queries, service
from bursar.features.wallets.schemas import (
    Balances,
    CardSummary,
    IssuingSummary,
    WalletTransaction,
    WalletTransactionQuery,
)
from bursar.http.context import Ctx
from bursar.http.envelope import Page
from bursar.http.routes import Read, Route


async def show_balances(ctx: Ctx, _: None) -> Balances:
    account = ctx.account
    zero = format_major(0, account.currency)
    return Balances(
        account_id=account.public_id,
        wallets=await service.wallets(ctx.db, account),
        card=CardSummary(0, 0, 0, zero, account.currency),
        issuing=IssuingSummary(False, "not_enabled", zero, zero, account.currency, None),
    )


async def list_rows(ctx: Ctx, query: WalletTransactionQuery) -> Page:
    rows, total = await listing.page(
        ctx.db, queries.ROWS, (ctx.account.account_id,), number=query.page, size=query.size, sort=query.sort,
        filters={
            "type": query.type,
            "category": query.category,
            "status": query.status,
            "currency": query.currency,
            "since": listing.since(query.since),
            "until": listing.until(query.until),
        },
    )  # fmt: skip
    return Page([service.as_row(row) for row in rows], query.page, query.size, total)


async def show_row(ctx: Ctx, _: None) -> WalletTransaction:
    row = await queries.find_row(ctx.db, ctx.account.account_id, ctx.path_id())
    if row is None:
        raise NotFound
    return service.as_row(row)


ROUTES = (
    Route(
        method="GET",
        path="/balances",
        name="show_balances",
        summary="The account's wallets, one per currency.",
        tag="Balances",
        scope="balances:read",
        reply=Balances,
        handler=Read(show_balances),
    ),
    Route(
        method="GET",
        path="/balance",
        name="show_balance",
        summary="Alias of /balances.",
        tag="Balances",
        scope="balances:read",
        reply=Balances,
        successor="/balances",
        handler=Read(show_balances),
    ),
    Route(
        method="GET",
        path="/wallet-transactions",
        name="list_wallet_transactions",
        summary="The rows of the account's wallet ledger.",
        tag="Balances",
        scope="balances:read",
        query=WalletTransactionQuery,
        reply=WalletTransaction,
        is_list=True,
        handler=Read(list_rows),
    ),
    Route(
        method="GET",
        path="/wallet-transactions/{id}",
        name="show_wallet_transaction",
        summary="One row of the wallet ledger.",
        tag="Balances",
        scope="balances:read",
        reply=WalletTransaction,
        wrap="wallet_transaction",
        errors=(NotFound,),
        handler=Read(show_row),
    ),
)
