"""Issuing, rotating and revoking keys."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from bursar.core import ids
from bursar.core.errors import NotFound, ValidationFailed
from bursar.db.pool import Record
from bursar.features.api_keys import queries
from bursar.features.api_keys.errors import KeyNotRotatable
from bursar.features.api_keys.schemas import ApiKey, NewApiKey
from bursar.http.context import Ctx


def seal_context(account_id: int, key_id: int) -> str:
    """What a sealed key is bound to: it opens for this account and key only."""
    return f"api_key:{account_id}:{key_id}"


async def issue(
    ctx: Ctx, account_id: int, kind: str, scopes: Sequence[str] = (), replaces_id: int | None = None
) -> NewApiKey:
    """A new key of an account, with the secret that is never shown again."""
    if (kind == "restricted") != bool(scopes):
        raise ValidationFailed(details={"scopes": ["are for restricted keys, and these need at least one"]})
    key_id = await queries.next_id(ctx.db)
    key = ids.new_key(kind)
    sealed = ctx.vault.seal(seal_context(account_id, key_id), key)
    hint = ids.key_hint(key)
    await queries.insert(
        ctx.db, account_id, key_id, kind, scopes, ctx.vault.lookup(key), sealed, hint, replaces_id, ctx.now
    )
    return NewApiKey(key_id, kind, list(scopes), hint, key, ctx.now)  # type: ignore[arg-type]  # checked above


async def rotate(ctx: Ctx, account_id: int, key_id: int, grace: timedelta) -> NewApiKey:
    """A successor of a key, which itself goes on working for the grace period."""
    row = await queries.lock(ctx.db, account_id, key_id)
    if row is None:
        raise NotFound
    if row["revoked_at"] is not None or row["expires_at"] is not None:
        raise KeyNotRotatable
    new = await issue(ctx, account_id, row["kind"], row["scopes"], replaces_id=key_id)
    await queries.expire(ctx.db, account_id, key_id, ctx.now + grace)
    ctx.account_changed(account_id)
    return new


async def revoke(ctx: Ctx, account_id: int, key_id: int) -> ApiKey:
    if await queries.lock(ctx.db, account_id, key_id) is None:
        raise NotFound
    row = await queries.revoke(ctx.db, account_id, key_id, ctx.now)
    ctx.account_changed(account_id)
    return as_reply(row)


def as_reply(row: Record) -> ApiKey:
    return ApiKey(**{name: row[name] for name in ApiKey.__struct_fields__})
