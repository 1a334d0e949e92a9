"""/events: list, read, send again; and the tail that `bursar listen` follows."""

from __future__ import annotations

import time

import msgspec

from bursar.core.errors import NotFound
from bursar.core.ids import event_id_at
from bursar.db import listing
from bursar.db.pool import Record
from bursar.events import catalogue, fanout
from bursar.features.events import queries
from bursar.features.events.schemas import (
    Event,
    EventQuery,
    Resent,
    Tail,
    TailedEvent,
    TailedIpn,
    TailQuery,
)
from bursar.http.caller import Gate
from bursar.http.context import Ctx
from bursar.http.envelope import Page
from bursar.http.routes import Local, Read, Route

TAIL_LARGEST = 200
UNSETTLED_S = 15.0  # longer than any transaction may take


async def list_events(ctx: Ctx, query: EventQuery) -> Page:
    account = ctx.account
    scope: tuple[int, ...] = (account.account_id,)
    chosen = queries.OF_PLATFORM if account.kind == "platform" else queries.OF_MERCHANT
    if ctx.platform_mode and ctx.caller is not None:
        chosen, scope = queries.OF_CONNECTED, (account.account_id, ctx.caller.owner.account_id)
    filters = {"type": query.type, "since": listing.since(query.since), "until": listing.until(query.until)}
    rows, total = await listing.page(
        ctx.db, chosen, scope, number=query.page, size=query.size, sort=query.sort, filters=filters
    )
    return Page([msgspec.Raw(row["body"]) for row in rows], query.page, query.size, total)


async def show_event(ctx: Ctx, _: None) -> msgspec.Raw:
    return msgspec.Raw((await _found(ctx))["body"])


async def resend_event(ctx: Ctx, _: None) -> Resent:
    """Sends an event again to every endpoint of the account that wants it now."""
    event = await _found(ctx)
    pairs = [
        (event, endpoint)
        for endpoint in await queries.endpoints(ctx.db, _reader(ctx))
        if catalogue.wants(endpoint["events"], event["type"], include_additive=endpoint["include_additive"])
    ]
    drafts = await fanout.drafts_for(ctx.db, pairs)
    made = await fanout.make(ctx.db, drafts, ctx.now, again=True)
    ctx.wakes_worker = True
    return Resent(event["event_id"], made)


def _reader(ctx: Ctx) -> int:
    """Whose view of the event counts: the platform's own, when it acts on a connected account."""
    if ctx.platform_mode and ctx.caller is not None:
        return ctx.caller.owner.account_id
    return ctx.account.account_id


async def _found(ctx: Ctx) -> Record:
    event = await queries.find(ctx.db, _reader(ctx), ctx.path["id"])
    if event is None or (ctx.platform_mode and event["account_id"] != ctx.account.account_id):
        raise NotFound
    return event


async def tail_events(ctx: Ctx, query: TailQuery) -> Tail:
    """What happened after a reply's `after`. The last seconds are told again: some of them may not be committed yet."""
    settled = event_id_at(time.time() - UNSETTLED_S)
    after = query.after or event_id_at(time.time())
    one = ctx.account.account_id if ctx.platform_mode else None
    events = await queries.events_after(ctx.db, _reader(ctx), one, after, TAIL_LARGEST)
    ipns = await queries.ipns_after(ctx.db, _reader(ctx), one, after, TAIL_LARGEST)
    newest = [rows[-1]["event_id"] for rows in (events, ipns) if len(rows) == TAIL_LARGEST]
    return Tail(
        max(after, min(newest) if newest else settled),
        [TailedEvent(row["event_id"], row["type"], row["body"].decode()) for row in events],
        [
            TailedIpn(
                row["event_id"], row["type"], row["url"], row["amount"], row["identifier"],
                [(name, value) for name, value in row["fields"]],
            )
            for row in ipns
        ],
    )  # fmt: skip


ROUTES = (
    Route(
        method="GET",
        path="/events",
        name="list_events",
        summary="What happened, newest first.",
        tag="Events",
        scope="webhooks:read",
        query=EventQuery,
        reply=Event,
        is_list=True,
        handler=Read(list_events),
    ),
    Route(
        method="GET",
        path="/events/{id}",
        name="show_event",
        summary="One event, as it is delivered.",
        tag="Events",
        scope="webhooks:read",
        reply=Event,
        wrap="event",
        errors=(NotFound,),
        handler=Read(show_event),
    ),
    Route(
        method="POST",
        path="/events/{id}/resend",
        name="resend_event",
        summary="Send an event again to every endpoint that wants it.",
        tag="Events",
        scope="webhooks:write",
        gate=Gate.WRITE,
        reply=Resent,
        wrap="resent",
        status=202,
        errors=(NotFound,),
        handler=Local(resend_event),
    ),
    Route(
        method="GET",
        path="/events-tail",
        name="tail_events",
        summary="What happens from now on, for tools that follow it.",
        tag="Events",
        scope="webhooks:read",
        query=TailQuery,
        reply=Tail,
        wrap="tail",
        handler=Read(tail_events),
    ),
)
