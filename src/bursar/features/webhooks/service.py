"""Registering webhooks, changing and testing them, and giving up on those that no longer answer."""

from __future__ import annotations

from datetime import timedelta

from bursar.core import ids
from bursar.core.errors import NotFound, ValidationFailed
from bursar.db.pool import Record
from bursar.db.sweep import Desk
from bursar.events import fanout, metrics, outbox
from bursar.events.addresses import Refused, parse
from bursar.events.outbox import Cause, new_event
from bursar.events.transport import rules_of
from bursar.features.webhooks import queries
from bursar.features.webhooks.errors import WebhookLimitReached, WebhookNotActive
from bursar.features.webhooks.schemas import (
    NewWebhook,
    OperatorNewWebhook,
    Replay,
    ReplayPeriod,
    Tested,
    Webhook,
    WebhookChanges,
    WebhookWithSecret,
)
from bursar.http.caller import load_account
from bursar.http.context import Ctx
from bursar.settings import Settings

LARGEST = 16


def seal_context(account_id: int, webhook_id: int) -> str:
    return f"webhook:{account_id}:{webhook_id}"


async def register(ctx: Ctx, account_id: int, new: NewWebhook | OperatorNewWebhook) -> WebhookWithSecret:
    """A new endpoint, with the secret that signs what it is sent."""
    check_url(ctx.settings, new.url)
    if await queries.count_under_lock(ctx.db, account_id) >= LARGEST:
        raise WebhookLimitReached(details={"limit": LARGEST})
    webhook_id = await queries.next_id(ctx.db)
    secret = ids.new_webhook_secret()
    sealed = ctx.vault.seal(seal_context(account_id, webhook_id), secret)
    row = await queries.insert(
        ctx.db, account_id, webhook_id, new.url, new.events, new.description, sealed, ids.key_hint(secret),
        new.include_additive, new.ordered, ctx.now,
    )  # fmt: skip
    return _with_secret(row, secret)


async def change(ctx: Ctx, account_id: int, webhook_id: int, changes: WebhookChanges) -> Webhook:
    """A changed endpoint. While it is paused, what it would be sent waits; a disabled one is set going again."""
    if changes.url is not None:
        check_url(ctx.settings, changes.url)
    row = await queries.update(
        ctx.db, account_id, webhook_id, changes.url, changes.events, changes.description, changes.include_additive,
        changes.ordered, changes.status, ctx.now,
    )  # fmt: skip
    if row is None:
        raise NotFound
    if changes.status is not None:
        await queries.open_destination(ctx.db, account_id, webhook_id, paused=changes.status == "paused")
    return as_reply(row)


async def delete(ctx: Ctx, account_id: int, webhook_id: int) -> None:
    if not await queries.delete(ctx.db, account_id, webhook_id):
        raise NotFound
    await _give_up_waiting(ctx, account_id, webhook_id)


async def rotate_secret(ctx: Ctx, account_id: int, webhook_id: int, grace: timedelta) -> WebhookWithSecret:
    """A new secret; during the grace period deliveries are signed with both."""
    secret = ids.new_webhook_secret()
    sealed = ctx.vault.seal(seal_context(account_id, webhook_id), secret)
    row = await queries.replace_secret(
        ctx.db, account_id, webhook_id, sealed, ids.key_hint(secret), ctx.now + grace, ctx.now
    )
    if row is None:
        raise NotFound
    return _with_secret(row, secret)


async def send_test(ctx: Ctx, webhook_id: int) -> Tested:
    """Sends a test event to one endpoint, through the same queue as every other."""
    row = await active(ctx, webhook_id)
    account = ctx.account
    event = new_event(
        "webhook.test",
        {"webhook": as_reply(row)},
        account=(account.account_id, account.public_id),
        platform=account.platform,
        now=ctx.now,
        cause=Cause(ctx.request_id, ctx.idempotency_key, ctx.livemode),
    )
    number = await outbox.write_for_one(ctx.db, event)
    draft = fanout.Draft(
        fanout.webhook(account.account_id, webhook_id),
        fanout.Source(account.account_id, number, event.event_id, event.type),
    )
    [delivery_id] = await fanout.make(ctx.db, [draft], ctx.now)
    ctx.wakes_worker = True
    return Tested(event.event_id, delivery_id)


async def replay(ctx: Ctx, webhook_id: int, period: ReplayPeriod) -> Replay:
    """Orders the events of a period to be sent; the worker makes the deliveries, a batch at a time."""
    await active(ctx, webhook_id)
    until = period.until or ctx.now
    if until < period.since:
        raise ValidationFailed(details={"to": ["must not be before from"]})
    row = await queries.insert_replay(
        ctx.db, ctx.account.account_id, webhook_id, period.types, period.since, until, ctx.now
    )
    ctx.wakes_worker = True
    return replay_reply(row)


async def active(ctx: Ctx, webhook_id: int) -> Record:
    """An endpoint of the account that something can be sent to, now or when it is resumed."""
    row = await queries.find(ctx.db, ctx.account.account_id, webhook_id)
    if row is None:
        raise NotFound
    if row["status"] == "disabled":
        raise WebhookNotActive
    return row


async def disable(desk: Desk, account_id: int, webhook_id: int, reason: str) -> None:
    """Gives up on an endpoint, and tells its owner by every other way there is."""
    async with desk.db.transaction() as db:
        now = await db.fetchval("SELECT instance_now()")
        row = await queries.disable(db, account_id, webhook_id, reason, now)
        account = await load_account(db, account_id)
        if row is None or account is None:
            return
        event = new_event(
            "webhook.disabled",
            {"webhook": as_reply(row)},
            account=(account_id, account.public_id),
            platform=account.platform,
            now=now,
            cause=Cause(None, None, not desk.settings.is_test),
        )
        await outbox.write(db, [event])
        await fanout.queue(db, [(account_id, fanout.webhook_place(webhook_id))], now)
    metrics.endpoints_disabled_total.labels(reason).inc()
    desk.wake()


async def _give_up_waiting(ctx: Ctx, account_id: int, webhook_id: int) -> None:
    """Lets the worker find the place without its endpoint, and give up what still waits there."""
    await queries.open_destination(ctx.db, account_id, webhook_id, paused=False)
    await fanout.queue(ctx.db, [(account_id, fanout.webhook_place(webhook_id))], ctx.now)
    ctx.wakes_worker = True


def check_url(settings: Settings, url: str) -> None:
    """Public HTTPS addresses; a test instance also takes plain HTTP. Where it leads is checked at every delivery."""
    try:
        parse(url, rules_of(settings))
    except Refused as refusal:
        raise ValidationFailed(details={"url": [f"must be a public https address: it {refusal}"]}) from None


def as_reply(row: Record) -> Webhook:
    return Webhook(**{name: row[name] for name in Webhook.__struct_fields__})


def replay_reply(row: Record) -> Replay:
    return Replay(**{name: row[name] for name in Replay.__struct_fields__})


def _with_secret(row: Record, secret: str) -> WebhookWithSecret:
    shown = {name: row[name] for name in Webhook.__struct_fields__}
    return WebhookWithSecret(**shown, secret=secret)
