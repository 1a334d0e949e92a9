"""Registering webhooks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from urllib.parse import urlsplit

from bursar.core import ids
from bursar.core.errors import NotFound, ValidationFailed
from bursar.db.pool import Record
from bursar.features.webhooks import queries
from bursar.features.webhooks.errors import WebhookLimitReached
from bursar.features.webhooks.schemas import Webhook, WebhookWithSecret
from bursar.http.context import Ctx

LARGEST = 16


def seal_context(account_id: int, webhook_id: int) -> str:
    return f"webhook:{account_id}:{webhook_id}"


async def register(ctx: Ctx, account_id: int, url: str, events: Sequence[str], description: str) -> WebhookWithSecret:
    """A new endpoint, with the secret that signs what it is sent."""
    check_url(ctx, url)
    if await queries.count_under_lock(ctx.db, account_id) >= LARGEST:
        raise WebhookLimitReached(details={"limit": LARGEST})
    webhook_id = await queries.next_id(ctx.db)
    secret = ids.new_webhook_secret()
    sealed = ctx.vault.seal(seal_context(account_id, webhook_id), secret)
    row = await queries.insert(
        ctx.db, account_id, webhook_id, url, events, description, sealed, ids.key_hint(secret), ctx.now
    )
    return _with_secret(row, secret)


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


def check_url(ctx: Ctx, url: str) -> None:
    """Public HTTPS addresses; a test instance also takes plain HTTP. Where it leads is checked at every delivery."""
    try:
        parts = urlsplit(url)
        port_ok = parts.port is None or 0 < parts.port < 65536
    except ValueError:
        port_ok = False
    allowed = ("https", "http") if ctx.settings.is_test else ("https",)
    if not port_ok or parts.scheme not in allowed or not parts.hostname or parts.username or parts.fragment:
        raise ValidationFailed(details={"url": ["must be a public https address"]})


def as_reply(row: Record) -> Webhook:
    return Webhook(**{name: row[name] for name in Webhook.__struct_fields__})


def _with_secret(row: Record, secret: str) -> WebhookWithSecret:
    shown = {name: row[name] for name in Webhook.__struct_fields__}
    return WebhookWithSecret(**shown, secret=secret)
