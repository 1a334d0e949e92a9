"""The operator's side of accounts: open, find, change; teams and partners."""

from __future__ import annotations

from typing import Any

from bursar.core.errors import (
    AccountNotFound,
    ConnectedAccountDuplicate,
    CurrencyNotSupported,
    DuplicateResource,
)
from bursar.db import listing
from bursar.features.accounts import activation, queries, service
from bursar.features.accounts.replies import as_operator_account
from bursar.features.accounts.schemas import (
    AccountBundle,
    AccountChanges,
    AccountSearch,
    NewAccount,
    NewPartner,
    NewTeamMember,
    OperatorAccount,
    TeamMember,
)
from bursar.http.context import Audit, Ctx
from bursar.http.envelope import Page
from bursar.http.families import OPERATOR
from bursar.http.routes import Local, Read, Route

_AUDITED = ("status", "kyc_status", "connect_status", "connect_enabled", "payments_paused", "payouts_paused",
            "partner_enabled", "capabilities", "payout_hard_caps", "merchant_pricing")  # fmt: skip


async def open_account(ctx: Ctx, new: NewAccount) -> AccountBundle:
    bundle = await service.open_account(ctx, new)
    ctx.audit = Audit(bundle.merchant_id, after=new.model_dump(mode="json"))
    return bundle


async def list_accounts(ctx: Ctx, search: AccountSearch) -> Page:
    filters = {"kind": search.kind, "status": search.status, "platform": search.platform}
    rows, total = await listing.page(
        ctx.db, queries.ACCOUNTS, (), number=search.page, size=search.per_page, sort=search.sort,
        filters=filters, q=search.q,
    )  # fmt: skip
    return Page([as_operator_account(row) for row in rows], search.page, search.per_page, total)


async def show_account(ctx: Ctx, _: None) -> OperatorAccount:
    account = await service.required(ctx.db, ctx.path["merchant"])
    row = await queries.find_account(ctx.db, account.account_id)
    assert row is not None
    ctx.audit = Audit(account.account_id)
    return as_operator_account(row)


async def change_account(ctx: Ctx, changes: AccountChanges) -> OperatorAccount:
    account = await service.required(ctx.db, ctx.path["merchant"])
    before, after = await service.change_account(ctx, account.account_id, changes)
    after = await activation.activate_if_ready(ctx, account.account_id) or after
    ctx.audit = Audit(account.account_id, before=_seen(before), after=_seen(after))
    return as_operator_account(after)


def _seen(row: Any) -> dict[str, Any]:
    return {name: row[name] for name in _AUDITED}


async def add_team_member(ctx: Ctx, new: NewTeamMember) -> TeamMember:
    account = await service.required(ctx.db, ctx.path["merchant"])
    number = await service.add_team_member(ctx, account.account_id, new.name, new.email)
    ctx.audit = Audit(account.account_id, after={"staff_id": number})
    return TeamMember(number, new.name, new.email)


async def open_partner(ctx: Ctx, new: NewPartner) -> AccountBundle:
    parent = await service.required(ctx.db, ctx.path["merchant"])
    bundle = await service.open_partner(ctx, parent, new)
    ctx.audit = Audit(parent.account_id, after={"partner_id": bundle.partner_id})
    return bundle


def _route(method: str, path: str, name: str, summary: str, handler: Any, **more: Any) -> Route:
    return Route(
        method=method, path=path, name=name, summary=summary, tag="Operator: accounts", family=OPERATOR,
        handler=Read(handler) if method == "GET" else Local(handler), **more,
    )  # fmt: skip


ROUTES = (
    _route("POST", "/accounts", "operator_open_account", "Open an account; its keys are shown this once.",
           open_account, body=NewAccount, reply=AccountBundle, status=201, shows_secret=True,
           errors=(CurrencyNotSupported, ConnectedAccountDuplicate)),
    _route("GET", "/accounts", "operator_list_accounts", "Search accounts.",
           list_accounts, query=AccountSearch, reply=OperatorAccount, is_list=True),
    _route("GET", "/accounts/{merchant}", "operator_show_account", "One account, by merchant number or account id.",
           show_account, reply=OperatorAccount, errors=(AccountNotFound,)),
    _route("PATCH", "/accounts/{merchant}", "operator_change_account", "Change what staff may change.",
           change_account, body=AccountChanges, reply=OperatorAccount, errors=(AccountNotFound,)),
    _route("POST", "/accounts/{merchant}/team", "operator_add_team_member", "Add a person to an account's team.",
           add_team_member, body=NewTeamMember, reply=TeamMember, status=201,
           errors=(AccountNotFound, DuplicateResource)),
    _route("POST", "/accounts/{merchant}/partners", "operator_open_partner", "Open a second-tier platform.",
           open_partner, body=NewPartner, reply=AccountBundle, status=201, shows_secret=True,
           errors=(AccountNotFound,)),
)  # fmt: skip
