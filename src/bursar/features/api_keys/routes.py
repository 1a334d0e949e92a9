"""An account's own keys: see them, rotate them, revoke them. Full secret keys only."""

from __future__ import annotations

from datetime import timedelta

from bursar.core.errors import AccountNotAllowed, NotFound
from bursar.db import listing
from bursar.features.api_keys import queries, service
from bursar.features.api_keys.errors import KeyNotRotatable
from bursar.features.api_keys.schemas import ApiKey, NewApiKey, RotateBody
from bursar.http.caller import Gate
from bursar.http.context import Ctx
from bursar.http.envelope import Page
from bursar.http.routes import Local, Read, Route
from bursar.http.schemas import PageQuery


def _own_account(ctx: Ctx) -> int:
    """Keys are their holder's business: a platform neither sees nor changes those of its connected accounts."""
    if ctx.platform_mode:
        raise AccountNotAllowed("A platform has no access to its connected accounts' keys.")
    return ctx.account.account_id


async def list_keys(ctx: Ctx, query: PageQuery) -> Page:
    rows, total = await listing.page(
        ctx.db, queries.KEYS, (_own_account(ctx),), number=query.page, size=query.size, sort=query.sort
    )
    return Page([service.as_reply(row) for row in rows], query.page, query.size, total)


async def rotate_key(ctx: Ctx, body: RotateBody) -> NewApiKey:
    return await service.rotate(ctx, _own_account(ctx), ctx.path_id(), timedelta(seconds=body.grace_seconds))


async def revoke_key(ctx: Ctx, _: None) -> ApiKey:
    return await service.revoke(ctx, _own_account(ctx), ctx.path_id())


ROUTES = (
    Route(
        method="GET",
        path="/api-keys",
        name="list_api_keys",
        summary="The account's keys, without their secrets.",
        tag="API keys",
        query=PageQuery,
        reply=ApiKey,
        is_list=True,
        handler=Read(list_keys),
    ),
    Route(
        method="POST",
        path="/api-keys/{id}/rotate",
        name="rotate_api_key",
        summary="Issue a successor of a key; both work during the grace period.",
        tag="API keys",
        gate=Gate.WRITE,
        body=RotateBody,
        reply=NewApiKey,
        wrap="api_key",
        shows_secret=True,
        errors=(NotFound, KeyNotRotatable),
        handler=Local(rotate_key),
    ),
    Route(
        method="DELETE",
        path="/api-keys/{id}",
        name="revoke_api_key",
        summary="Revoke a key; it stops working everywhere within a second.",
        tag="API keys",
        gate=Gate.WRITE,
        reply=ApiKey,
        wrap="api_key",
        errors=(NotFound,),
        handler=Local(revoke_key),
    ),
)
