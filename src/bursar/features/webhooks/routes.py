"""/webhooks: list, register, read, change, delete, rotate the secret, test, replay."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from bursar.core.errors import NotFound
from bursar.db import listing
from bursar.features.webhooks import queries, service
from bursar.features.webhooks.errors import WebhookLimitReached, WebhookNotActive
from bursar.features.webhooks.schemas import (
    Deleted,
    NewWebhook,
    Replay,
    ReplayPeriod,
    RotateSecret,
    Tested,
    Webhook,
    WebhookChanges,
    WebhookWithSecret,
)
from bursar.http.caller import Gate
from bursar.http.context import Ctx
from bursar.http.envelope import Page
from bursar.http.routes import Local, Read, Route
from bursar.http.schemas import PageQuery


class WebhookQuery(PageQuery):
    status: Literal["active", "paused", "disabled"] | None = None


async def list_webhooks(ctx: Ctx, query: WebhookQuery) -> Page:
    rows, total = await listing.page(
        ctx.db, queries.WEBHOOKS, (ctx.account.account_id,), number=query.page, size=query.size, sort=query.sort,
        filters={"status": query.status},
    )  # fmt: skip
    return Page([service.as_reply(row) for row in rows], query.page, query.size, total)


async def create_webhook(ctx: Ctx, body: NewWebhook) -> WebhookWithSecret:
    return await service.register(ctx, ctx.account.account_id, body)


async def show_webhook(ctx: Ctx, _: None) -> Webhook:
    row = await queries.find(ctx.db, ctx.account.account_id, ctx.path_id())
    if row is None:
        raise NotFound
    return service.as_reply(row)


async def change_webhook(ctx: Ctx, body: WebhookChanges) -> Webhook:
    ctx.wakes_worker = body.status == "active"
    return await service.change(ctx, ctx.account.account_id, ctx.path_id(), body)


async def delete_webhook(ctx: Ctx, _: None) -> Deleted:
    await service.delete(ctx, ctx.account.account_id, ctx.path_id())
    return Deleted(deleted=True)


async def rotate_secret(ctx: Ctx, body: RotateSecret) -> WebhookWithSecret:
    grace = timedelta(seconds=body.grace_seconds)
    return await service.rotate_secret(ctx, ctx.account.account_id, ctx.path_id(), grace)


async def send_test(ctx: Ctx, _: None) -> Tested:
    return await service.send_test(ctx, ctx.path_id())


async def replay_events(ctx: Ctx, body: ReplayPeriod) -> Replay:
    return await service.replay(ctx, ctx.path_id(), body)


async def show_replay(ctx: Ctx, _: None) -> Replay:
    row = await queries.find_replay(ctx.db, ctx.account.account_id, ctx.path_id("replay_id"))
    if row is None or row["webhook_id"] != ctx.path_id():
        raise NotFound
    return service.replay_reply(row)


ROUTES = (
    Route(
        method="GET",
        path="/webhooks",
        name="list_webhooks",
        summary="The account's webhooks.",
        tag="Webhooks",
        scope="webhooks:read",
        query=WebhookQuery,
        reply=Webhook,
        is_list=True,
        handler=Read(list_webhooks),
    ),
    Route(
        method="POST",
        path="/webhooks",
        name="create_webhook",
        summary="Register an endpoint; its signing secret is shown this once.",
        tag="Webhooks",
        scope="webhooks:write",
        gate=Gate.WRITE,
        body=NewWebhook,
        reply=WebhookWithSecret,
        wrap="webhook",
        status=201,
        shows_secret=True,
        errors=(WebhookLimitReached,),
        handler=Local(create_webhook),
    ),
    Route(
        method="GET",
        path="/webhooks/{id}",
        name="show_webhook",
        summary="One webhook.",
        tag="Webhooks",
        scope="webhooks:read",
        reply=Webhook,
        wrap="webhook",
        errors=(NotFound,),
        handler=Read(show_webhook),
    ),
    Route(
        method="PATCH",
        path="/webhooks/{id}",
        name="change_webhook",
        summary="Change a webhook's address, events or description; pause or resume it.",
        tag="Webhooks",
        scope="webhooks:write",
        gate=Gate.WRITE,
        body=WebhookChanges,
        reply=Webhook,
        wrap="webhook",
        errors=(NotFound,),
        handler=Local(change_webhook),
    ),
    Route(
        method="DELETE",
        path="/webhooks/{id}",
        name="delete_webhook",
        summary="Delete a webhook.",
        tag="Webhooks",
        scope="webhooks:write",
        gate=Gate.WRITE,
        reply=Deleted,
        errors=(NotFound,),
        handler=Local(delete_webhook),
    ),
    Route(
        method="POST",
        path="/webhooks/{id}/rotate-secret",
        name="rotate_webhook_secret",
        summary="Replace the signing secret; both sign during the grace period.",
        tag="Webhooks",
        scope="webhooks:write",
        gate=Gate.WRITE,
        body=RotateSecret,
        reply=WebhookWithSecret,
        wrap="webhook",
        shows_secret=True,
        errors=(NotFound,),
        handler=Local(rotate_secret),
    ),
    Route(
        method="POST",
        path="/webhooks/{id}/test",
        name="test_webhook",
        summary="Send a `webhook.test` event to this endpoint alone.",
        tag="Webhooks",
        scope="webhooks:write",
        gate=Gate.WRITE,
        reply=Tested,
        wrap="test",
        status=202,
        errors=(NotFound, WebhookNotActive),
        handler=Local(send_test),
    ),
    Route(
        method="POST",
        path="/webhooks/{id}/replay",
        name="replay_webhook",
        summary="Send the events of a period to this endpoint, again or for the first time.",
        tag="Webhooks",
        scope="webhooks:write",
        gate=Gate.WRITE,
        body=ReplayPeriod,
        reply=Replay,
        wrap="replay",
        status=202,
        errors=(NotFound, WebhookNotActive),
        handler=Local(replay_events),
    ),
    Route(
        method="GET",
        path="/webhooks/{id}/replays/{replay_id}",
        name="show_webhook_replay",
        summary="How far a replay is.",
        tag="Webhooks",
        scope="webhooks:read",
        reply=Replay,
        wrap="replay",
        errors=(NotFound,),
        handler=Read(show_replay),
    ),
)
