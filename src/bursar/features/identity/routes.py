"""/identity/verification-links: list, create, read, cancel."""

from __future__ import annotations

from bursar.core.errors import AccountBanned
from bursar.db import listing
from bursar.features.identity import queries, service
from bursar.features.identity.errors import (
    IdentityAlreadyVerified,
    VerificationLinkClosed,
    VerificationLinkNotFound,
)
from bursar.features.identity.schemas import LinkQuery, NewVerificationLink, VerificationLink
from bursar.http.caller import Gate
from bursar.http.context import Ctx
from bursar.http.envelope import Page
from bursar.http.routes import Local, Read, Route


async def list_links(ctx: Ctx, query: LinkQuery) -> Page:
    rows, total = await listing.page(
        ctx.db, queries.LINKS, (ctx.account.account_id,), number=query.page, size=query.size, sort=query.sort,
        filters={"status": query.status, "purpose": query.purpose},
    )  # fmt: skip
    links = [service.as_reply(row, ctx.account.public_id, ctx.settings) for row in rows]
    return Page(links, query.page, query.size, total)


async def create_link(ctx: Ctx, new: NewVerificationLink) -> VerificationLink:
    return await service.create(ctx, new)


async def show_link(ctx: Ctx, _: None) -> VerificationLink:
    row = await queries.find(ctx.db, ctx.account.account_id, ctx.path_id(missing=VerificationLinkNotFound))
    if row is None:
        raise VerificationLinkNotFound
    return service.as_reply(row, ctx.account.public_id, ctx.settings)


async def cancel_link(ctx: Ctx, _: None) -> VerificationLink:
    return await service.cancel(ctx, ctx.path_id(missing=VerificationLinkNotFound))


ROUTES = (
    Route(
        method="GET",
        path="/identity/verification-links",
        name="list_verification_links",
        summary="The account's verification links.",
        tag="Identity",
        scope="identity:read",
        query=LinkQuery,
        reply=VerificationLink,
        is_list=True,
        handler=Read(list_links),
    ),
    Route(
        method="POST",
        path="/identity/verification-links",
        name="create_verification_link",
        summary="A private link to the page where the merchant proves their identity.",
        tag="Identity",
        scope="identity:write",
        gate=Gate.WRITE,
        body=NewVerificationLink,
        reply=VerificationLink,
        wrap="verification_link",
        status=201,
        errors=(AccountBanned, IdentityAlreadyVerified),
        handler=Local(create_link),
    ),
    Route(
        method="GET",
        path="/identity/verification-links/{id}",
        name="show_verification_link",
        summary="One verification link.",
        tag="Identity",
        scope="identity:read",
        reply=VerificationLink,
        wrap="verification_link",
        errors=(VerificationLinkNotFound,),
        handler=Read(show_link),
    ),
    Route(
        method="POST",
        path="/identity/verification-links/{id}/cancel",
        name="cancel_verification_link",
        summary="Withdraw a link that is not finished.",
        tag="Identity",
        scope="identity:write",
        gate=Gate.WRITE,
        reply=VerificationLink,
        wrap="verification_link",
        errors=(AccountBanned, VerificationLinkNotFound, VerificationLinkClosed),
        handler=Local(cancel_link),
    ),
)
