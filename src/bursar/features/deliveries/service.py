"""Sending a delivery again, and showing what it sends."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import msgspec

from bursar.core.errors import NotFound
from bursar.db.pool import Record
from bursar.events import fanout
from bursar.events.signing import identifying_headers
from bursar.features.deliveries import queries
from bursar.features.deliveries.schemas import Attempt, Delivery, DeliveryDetail, Request
from bursar.features.webhooks.errors import WebhookNotActive
from bursar.http.context import Ctx

_TYPES = {"webhook": "application/json", "ipn": "application/x-www-form-urlencoded"}


async def retry(ctx: Ctx, delivery_id: int) -> Delivery:
    """Tries a delivery again now, whatever came of it; if that fails, its schedule begins anew."""
    account_id = ctx.account.account_id
    found = await queries.find(ctx.db, account_id, delivery_id)
    if found is None:
        raise NotFound
    if found["channel"] == "webhook" and found["webhook_status"] not in ("active", "paused"):
        raise WebhookNotActive
    row = await queries.begin_anew(ctx.db, account_id, delivery_id, ctx.now)
    assert row is not None
    await fanout.queue(ctx.db, [(account_id, row["place"])], ctx.now)
    ctx.wakes_worker = True
    return as_reply(row)


async def detail(ctx: Ctx, delivery_id: int) -> DeliveryDetail:
    row = await queries.find(ctx.db, ctx.account.account_id, delivery_id)
    if row is None:
        raise NotFound
    tried = await queries.attempts(ctx.db, ctx.account.account_id, delivery_id)
    return DeliveryDetail(
        **_shown(row),
        request=_request(row, tried),
        history=[Attempt(**{name: entry[name] for name in Attempt.__struct_fields__}) for entry in tried],
    )


def as_reply(row: Record) -> Delivery:
    return Delivery(**_shown(row))


def _shown(row: Record) -> dict[str, Any]:
    shown = {name: row[name] for name in Delivery.__struct_fields__ if name != "error"}
    return {**shown, "error": row["last_error"]}


def _request(row: Record, tried: list[Record]) -> Request:
    last = tried[-1] if tried else None
    timestamp = int(last["sent_at"].timestamp()) if last else 0
    number = last["number"] if last else 1
    headers = identifying_headers(row["event_id"], row["type"], row["id"], number, timestamp)
    if last is None:
        del headers["X-Service-Timestamp"]  # it is stamped when it is sent
    body: Any
    if row["channel"] == "webhook":
        body = msgspec.Raw(row["body"])
    else:
        body = urlencode([(name, value) for name, value in row["fields"]])
    return Request(
        "POST", last["url"] if last else row["url"], {"Content-Type": _TYPES[row["channel"]], **headers}, body
    )
