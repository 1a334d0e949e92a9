"""/payment-links: create, list, read, cancel."""

from __future__ import annotations

from collections.abc import Sequence

from bursar.core.errors import (
    CurrencyNotSupported,
    InvalidConnectApplicationFee,
    NotCancelable,
    NotFound,
    ProviderNotConfigured,
)
from bursar.db.pool import Record
from bursar.features.payment_links import queries, service
from bursar.features.payment_links.schemas import LinkChanges, LinkQuery, NewPaymentLink, PaymentLink
from bursar.http import shown
from bursar.http.caller import Gate
from bursar.http.context import Ctx
from bursar.http.envelope import Page
from bursar.http.routes import Batched, Local, Read, Route


async def list_links(ctx: Ctx, query: LinkQuery) -> Page:
    return await shown.page(
        ctx, queries.LINKS, (ctx.account.account_id,), query, _links, filters={"status": query.status}
    )


async def _links(ctx: Ctx, rows: Sequence[Record]) -> list[PaymentLink]:
    return [service.as_reply(row, ctx.account.public_id, ctx.settings) for row in rows]


async def show_link(ctx: Ctx, _: None) -> PaymentLink:
    row = await queries.find(ctx.db, ctx.account.account_id, ctx.path_id())
    if row is None:
        raise NotFound
    return service.as_reply(row, ctx.account.public_id, ctx.settings)


async def change_link(ctx: Ctx, _: LinkChanges) -> PaymentLink:
    return service.as_reply(await service.cancel(ctx, ctx.path_id()), ctx.account.public_id, ctx.settings)


ROUTES = (
    Route(
        method="POST",
        path="/payment-links",
        name="create_payment_link",
        summary="Create a link that anybody who has it can pay.",
        tag="Payment links",
        scope="payments:write",
        gate=Gate.PAYMENTS,
        body=NewPaymentLink,
        reply=PaymentLink,
        wrap="payment_link",
        status=201,
        errors=(CurrencyNotSupported, InvalidConnectApplicationFee, ProviderNotConfigured),
        handler=Batched("payment_link_id", service.prepare, service.apply, queries.NEW),
    ),
    Route(
        method="GET",
        path="/payment-links",
        name="list_payment_links",
        summary="The account's payment links.",
        tag="Payment links",
        scope="payments:read",
        query=LinkQuery,
        reply=PaymentLink,
        is_list=True,
        handler=Read(list_links),
    ),
    Route(
        method="GET",
        path="/payment-links/{id}",
        name="show_payment_link",
        summary="One payment link.",
        tag="Payment links",
        scope="payments:read",
        reply=PaymentLink,
        wrap="payment_link",
        errors=(NotFound,),
        handler=Read(show_link),
    ),
    Route(
        method="PATCH",
        path="/payment-links/{id}",
        name="change_payment_link",
        summary="Cancel a payment link.",
        tag="Payment links",
        scope="payments:write",
        gate=Gate.WRITE,
        body=LinkChanges,
        reply=PaymentLink,
        wrap="payment_link",
        errors=(NotFound, NotCancelable),
        handler=Local(change_link),
    ),
)
