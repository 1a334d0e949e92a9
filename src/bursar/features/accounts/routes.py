"""GET /account."""

from __future__ import annotations

from bursar.core.errors import AccountNotFound
from bursar.features.accounts import queries
from bursar.features.accounts.replies import full_reply
from bursar.features.accounts.schemas import AccountReply
from bursar.http.context import Ctx
from bursar.http.routes import Read, Route


async def show_account(ctx: Ctx, _: None) -> AccountReply:
    row = await queries.find_account(ctx.db, ctx.account.account_id)
    if row is None:
        raise AccountNotFound
    reply = await full_reply(ctx.db, row, for_platform=ctx.caller is not None and ctx.caller.is_platform)
    reply.id = ctx.account.public_id  # a test key sees the fixture under its own id
    return reply


ROUTES = (
    Route(
        method="GET",
        path="/account",
        name="show_account",
        summary="The authenticated merchant, or the connected merchant that `Service-Account` names.",
        tag="Accounts",
        scope="accounts:read",
        reply=AccountReply,
        wrap="account",
        handler=Read(show_account),
    ),
)
