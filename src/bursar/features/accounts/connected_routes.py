"""/connected-accounts: list, create, read, change."""

from __future__ import annotations

from bursar.core import ids
from bursar.core.errors import (
    AccountBanned,
    AccountNotFound,
    ConnectedAccountCreateFailed,
    ConnectedAccountDuplicate,
    ConnectNotEnabled,
    Forbidden,
    InvalidAccountId,
    PlatformSafetyLimit,
)
from bursar.db import listing
from bursar.db.pool import Record
from bursar.features.accounts import connected_change, connected_create, connected_queries
from bursar.features.accounts.connected_schemas import (
    ConnectedAccountChanges,
    ConnectedAccountQuery,
    NewConnectedAccount,
)
from bursar.features.accounts.replies import full_replies, full_reply
from bursar.features.accounts.schemas import AccountReply
from bursar.http.context import Account, Ctx
from bursar.http.envelope import Answer, Page
from bursar.http.pipeline import V2_SINCE
from bursar.http.routes import Local, Read, Route


def platform_of(ctx: Ctx) -> Account:
    """The platform that calls. Whoever has no platform access learns just that."""
    assert ctx.caller is not None
    owner = ctx.caller.owner
    if owner.kind != "platform" or not owner.connect_enabled:
        raise ConnectNotEnabled
    return owner


async def _named(ctx: Ctx, *, lock: bool) -> Record:
    """The connected account in the path, by its full id or its number; somebody else's is not found."""
    platform = platform_of(ctx)
    parsed = ids.parse_account_id(ctx.path["account_id"])
    if parsed is None:
        raise InvalidAccountId
    number, full = parsed
    find = connected_queries.lock_connected if lock else connected_queries.find_connected
    row = await find(ctx.db, platform.account_id, number)
    if row is None or full not in (None, row["public_id"]):
        raise AccountNotFound
    return row


async def list_connected_accounts(ctx: Ctx, query: ConnectedAccountQuery) -> Page:
    filters = {
        "status": query.status,
        "kyc_status": query.kyc_status,
        "connect_status": query.connect_status,
        "since": listing.since(query.since),
        "until": listing.until(query.until),
    }
    rows, total = await listing.page(
        ctx.db, connected_queries.CONNECTED, (platform_of(ctx).account_id,), number=query.page, size=query.size,
        sort=query.sort, filters=filters, q=query.q or query.search,
    )  # fmt: skip
    return Page(await full_replies(ctx.db, rows, for_platform=True), query.page, query.size, total)


async def create_connected_account(ctx: Ctx, new: NewConnectedAccount) -> AccountReply:
    return await connected_create.create(ctx, platform_of(ctx), new)


async def show_connected_account(ctx: Ctx, _: None) -> Answer:
    return _answer(ctx, await full_reply(ctx.db, await _named(ctx, lock=False), for_platform=True))


async def change_connected_account(ctx: Ctx, changes: ConnectedAccountChanges) -> Answer:
    return _answer(ctx, await connected_change.change(ctx, await _named(ctx, lock=True), changes))


def _answer(ctx: Ctx, reply: AccountReply) -> Answer:
    """The bare number is a legacy name of an account; who uses it is told so."""
    legacy = ctx.path["account_id"].isdigit()
    return Answer(reply, headers={"Deprecation": f"@{V2_SINCE}"} if legacy else {})


ROUTES = (
    Route(
        method="GET",
        path="/connected-accounts",
        name="list_connected_accounts",
        summary="The platform's connected merchants.",
        tag="Accounts",
        scope="accounts:read",
        query=ConnectedAccountQuery,
        reply=AccountReply,
        is_list=True,
        errors=(ConnectNotEnabled,),
        handler=Read(list_connected_accounts),
    ),
    Route(
        method="POST",
        path="/connected-accounts",
        name="create_connected_account",
        summary="Connect a merchant; it starts pending, and its onboarding follows.",
        tag="Accounts",
        scope="accounts:write",
        body=NewConnectedAccount,
        reply=AccountReply,
        wrap="account",
        status=201,
        errors=(
            ConnectNotEnabled,
            AccountBanned,
            PlatformSafetyLimit,
            ConnectedAccountDuplicate,
            ConnectedAccountCreateFailed,
        ),
        handler=Local(create_connected_account),
    ),
    Route(
        method="GET",
        path="/connected-accounts/{account_id}",
        name="show_connected_account",
        summary="One connected merchant.",
        tag="Accounts",
        scope="accounts:read",
        reply=AccountReply,
        wrap="account",
        errors=(ConnectNotEnabled, AccountNotFound, InvalidAccountId),
        handler=Read(show_connected_account),
    ),
    Route(
        method="PATCH",
        path="/connected-accounts/{account_id}",
        name="change_connected_account",
        summary="Change a connected merchant's name, telephone number, notices, connection status or metadata.",
        tag="Accounts",
        scope="accounts:write",
        body=ConnectedAccountChanges,
        reply=AccountReply,
        wrap="account",
        errors=(ConnectNotEnabled, AccountNotFound, InvalidAccountId, AccountBanned, Forbidden),
        handler=Local(change_connected_account),
    ),
)
