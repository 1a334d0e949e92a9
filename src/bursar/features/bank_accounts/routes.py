"""/bank-accounts: list, link, read."""

from __future__ import annotations

from bursar.core.errors import (
    AccountBanned,
    BankAccountCreateFailed,
    BankAccountNotFound,
    CurrencyNotSupported,
    DuplicateBankAccount,
)
from bursar.db import listing
from bursar.features.bank_accounts import queries, service
from bursar.features.bank_accounts.schemas import BankAccount, BankAccountQuery, NewBankAccount
from bursar.http.caller import Gate
from bursar.http.context import Ctx
from bursar.http.envelope import Page
from bursar.http.routes import Local, Read, Route


async def list_bank_accounts(ctx: Ctx, query: BankAccountQuery) -> Page:
    filters = {"status": query.status, "use_for": query.use_for, "currency": query.currency}
    rows, total = await listing.page(
        ctx.db, queries.BANK_ACCOUNTS, (ctx.account.account_id,), number=query.page, size=query.size, sort=query.sort,
        filters=filters,
    )  # fmt: skip
    return Page([service.as_reply(row) for row in rows], query.page, query.size, total)


async def link_bank_account(ctx: Ctx, new: NewBankAccount) -> BankAccount:
    return await service.link(ctx, new)


async def show_bank_account(ctx: Ctx, _: None) -> BankAccount:
    return service.as_reply(await service.required(ctx.db, ctx.account.account_id, ctx.path["id"]))


ROUTES = (
    Route(
        method="GET",
        path="/bank-accounts",
        name="list_bank_accounts",
        summary="The account's bank accounts, by safe references.",
        tag="Bank accounts",
        scope="banking:read",
        query=BankAccountQuery,
        reply=BankAccount,
        is_list=True,
        handler=Read(list_bank_accounts),
    ),
    Route(
        method="POST",
        path="/bank-accounts",
        name="link_bank_account",
        summary="Link a bank account; its numbers are not shown again.",
        tag="Bank accounts",
        scope="banking:write",
        gate=Gate.WRITE,
        body=NewBankAccount,
        reply=BankAccount,
        wrap="bank_account",
        status=201,
        errors=(AccountBanned, CurrencyNotSupported, DuplicateBankAccount, BankAccountCreateFailed),
        handler=Local(link_bank_account),
    ),
    Route(
        method="GET",
        path="/bank-accounts/{id}",
        name="show_bank_account",
        summary="One bank account.",
        tag="Bank accounts",
        scope="banking:read",
        reply=BankAccount,
        wrap="bank_account",
        errors=(BankAccountNotFound,),
        handler=Read(show_bank_account),
    ),
)
