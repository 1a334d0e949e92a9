"""/webhook-deliveries: list, read, retry."""

from __future__ import annotations

from bursar.core.errors import NotFound
from bursar.db import listing
from bursar.features.deliveries import queries, service
from bursar.features.deliveries.schemas import Delivery, DeliveryDetail, DeliveryQuery
from bursar.features.webhooks.errors import WebhookNotActive
from bursar.http.caller import Gate
from bursar.http.context import Ctx
from bursar.http.envelope import Page
from bursar.http.routes import Local, Read, Route


async def list_deliveries(ctx: Ctx, query: DeliveryQuery) -> Page:
    filters = query.model_dump(include=set(queries.DELIVERIES.filters))
    rows, total = await listing.page(
        ctx.db, queries.DELIVERIES, (ctx.account.account_id,), number=query.page, size=query.size, sort=query.sort,
        filters=filters,
    )  # fmt: skip
    return Page([service.as_reply(row) for row in rows], query.page, query.size, total)


async def show_delivery(ctx: Ctx, _: None) -> DeliveryDetail:
    return await service.detail(ctx, ctx.path_id())


async def retry_delivery(ctx: Ctx, _: None) -> Delivery:
    return await service.retry(ctx, ctx.path_id())


ROUTES = (
    Route(
        method="GET",
        path="/webhook-deliveries",
        name="list_webhook_deliveries",
        summary="Deliveries of events and IPNs, newest first.",
        tag="Webhooks",
        scope="webhooks:read",
        query=DeliveryQuery,
        reply=Delivery,
        is_list=True,
        handler=Read(list_deliveries),
    ),
    Route(
        method="GET",
        path="/webhook-deliveries/{id}",
        name="show_webhook_delivery",
        summary="One delivery: what is sent, and every attempt.",
        tag="Webhooks",
        scope="webhooks:read",
        reply=DeliveryDetail,
        wrap="delivery",
        errors=(NotFound,),
        handler=Read(show_delivery),
    ),
    Route(
        method="POST",
        path="/webhook-deliveries/{id}/retry",
        name="retry_webhook_delivery",
        summary="Try a delivery again now.",
        tag="Webhooks",
        scope="webhooks:write",
        gate=Gate.WRITE,
        reply=Delivery,
        wrap="delivery",
        errors=(NotFound, WebhookNotActive),
        handler=Local(retry_delivery),
    ),
)
