"""From what happened to who is told: each event becomes one delivery per interested endpoint, each IPN one, and an
event that people are told of becomes a notice, too.

Interested are the account's own endpoints and those of the platform it belonged to when the event happened. Making
deliveries is one short transaction per batch; sending them is the business of `events.sender`, writing and sending
notices that of `features.notices`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

import msgspec

from bursar.core.crashpoints import crashpoint
from bursar.db.clock import CLOCK_LOCK
from bursar.db.pool import Connection, Database, Queryable, Record
from bursar.events import catalogue
from bursar.events.addresses import Refused, Rules, parse

BATCH = 100
FAN_OUT_LOCK = 0x66616E6F  # "fano": one worker at a time, so that deliveries are made in the order of the events

_TAKE_EVENTS = """
-- The oldest events that nobody was told of yet.
UPDATE event
SET fanned_out = true
WHERE (account_id, id) IN (SELECT account_id, id FROM event WHERE NOT fanned_out ORDER BY id LIMIT $1)
  AND NOT fanned_out
RETURNING account_id, id, event_id, type, platform_id, audience, created_at
"""

_TAKE_IPNS = """
UPDATE ipn
SET fanned_out = true
WHERE (account_id, id) IN (SELECT account_id, id FROM ipn WHERE NOT fanned_out ORDER BY id LIMIT $1)
  AND NOT fanned_out
RETURNING account_id, id, event_id, type, url
"""

_ENDPOINTS = """
-- The endpoints of some accounts; a paused one still collects what it will be sent later.
SELECT account_id, id, events, include_additive, ordered, created_at
FROM webhook
WHERE account_id = ANY ($1) AND status <> 'disabled'
ORDER BY account_id, id
"""

_INSERT = """
-- Deliveries, once per event and place. One that exists is left alone, or begun anew when `again` says so.
WITH made AS (
    INSERT INTO delivery AS held
        (account_id, id, channel, place, webhook_id, source_account_id, source_id, event_id, type, order_key,
         next_attempt_at, created_at, updated_at)
    SELECT p.account_id, nextval('delivery_id'), p.channel, p.place, p.webhook_id, s.account_id, s.id, s.event_id,
           s.type, d.order_key, $12, $12, $12
    FROM unnest($1::integer[], $2::integer[], $3::text[])
         WITH ORDINALITY AS d (place_n, source_n, order_key, n)
    JOIN unnest($4::bigint[], $5::text[], $6::text[], $7::bigint[])
         WITH ORDINALITY AS p (account_id, channel, place, webhook_id, n) ON p.n = d.place_n
    JOIN unnest($8::bigint[], $9::bigint[], $10::text[], $11::text[])
         WITH ORDINALITY AS s (account_id, id, event_id, type, n) ON s.n = d.source_n
    ORDER BY d.n
    ON CONFLICT (account_id, place, event_id) DO UPDATE
        SET status = 'pending', step = 0, exhausted = false, next_attempt_at = excluded.next_attempt_at,
            updated_at = excluded.updated_at
        WHERE $13
    RETURNING id
)
SELECT coalesce(array_agg(id), '{}') FROM made
"""

_NOTICES = """
-- A notice per event, once. To whom and in what words is decided when it is written.
INSERT INTO notice (account_id, id, channel, template, event_id, next_attempt_at, created_at)
SELECT account_id, nextval('notice_id'), 'email', type, event_id, $4, $4
FROM unnest($1::bigint[], $2::text[], $3::text[]) WITH ORDINALITY AS n (account_id, type, event_id, n)
ORDER BY n
ON CONFLICT (account_id, event_id, channel) DO NOTHING
"""

_QUEUE = """
-- Puts places into the queue, in one order everywhere, so that two of these never wait for each other.
INSERT INTO destination AS held (account_id, place, due_at)
SELECT account_id, place, $3
FROM unnest($1::bigint[], $2::text[]) AS p (account_id, place)
ORDER BY account_id, place
ON CONFLICT (account_id, place) DO UPDATE
    SET due_at = least(coalesce(held.due_at, excluded.due_at), excluded.due_at)
"""


class Place(NamedTuple):
    """Where a delivery goes, and whose that is."""

    account_id: int
    channel: str
    name: str
    webhook_id: int | None


class Source(NamedTuple):
    """The event or IPN that a delivery tells of."""

    account_id: int
    id: int
    event_id: str
    type: str


class Draft(NamedTuple):
    """A delivery that is to be made."""

    place: Place
    source: Source
    order_key: str | None = None


def webhook_place(webhook_id: int) -> str:
    return f"webhook:{webhook_id}"


@lru_cache(maxsize=4096)
def webhook(account_id: int, webhook_id: int) -> Place:
    return Place(account_id, "webhook", webhook_place(webhook_id), webhook_id)


def ipn_place(url: str) -> str:
    """IPNs of an account to one host share a queue; an address that cannot be sent to has one that goes nowhere."""
    try:
        return "ipn:" + parse(url, Rules(plain_http=True, loopback=True, ports=None)).origin
    except Refused:
        return "ipn:"


async def fan_out(db: Database, *, commanded: bool = False) -> int:
    """Makes the deliveries of one batch; returns how many events and IPNs it was.

    Unless it is `commanded` by whoever moves the clock, it holds still while the clock is being moved. Whoever commands
    it waits for its turn: nobody else has one for long then.
    """
    async with db.transaction() as connection:
        if not await _has_turn(connection, commanded=commanded):
            return 0
        events = await connection.fetch(_TAKE_EVENTS, BATCH)
        ipns = await connection.fetch(_TAKE_IPNS, BATCH)
        if not events and not ipns:
            return 0
        now = await connection.fetchval("SELECT instance_now()")
        events.sort(key=lambda event: event["id"])
        drafts = await _drafts_of_events(connection, events)
        drafts += [
            Draft(Place(ipn["account_id"], "ipn", ipn_place(ipn["url"]), None), _source(ipn))
            for ipn in sorted(ipns, key=lambda ipn: ipn["id"])
        ]
        await make(connection, drafts, now)
        await _make_notices(connection, [event for event in events if event["type"] in catalogue.MAIL_TO], now)
        crashpoint("fan_out.before_commit")
    crashpoint("fan_out.after_commit")
    return len(events) + len(ipns)


async def _has_turn(db: Connection, *, commanded: bool) -> bool:
    if commanded:
        await db.execute("SELECT pg_advisory_xact_lock($1)", FAN_OUT_LOCK)
        return True
    free = "SELECT pg_try_advisory_xact_lock($1) AND pg_try_advisory_xact_lock_shared($2)"
    return bool(await db.fetchval(free, FAN_OUT_LOCK, CLOCK_LOCK))


async def make(db: Queryable, drafts: Sequence[Draft], now: datetime, *, again: bool = False) -> list[int]:
    """Writes deliveries, due at once, and puts their places into the queue. Returns the ids of those now waiting."""
    if not drafts:
        return []
    to, about, order_keys = zip(*drafts, strict=True)
    places = {place: n for n, place in enumerate(dict.fromkeys(to), 1)}
    sources = {source: n for n, source in enumerate(dict.fromkeys(about), 1)}
    made: list[int] = await db.fetchval(
        _INSERT,
        [places[place] for place in to],
        [sources[source] for source in about],
        order_keys if any(order_keys) else (),
        *zip(*places, strict=True),
        *zip(*sources, strict=True),
        now,
        again,
    )
    await queue(db, {(place.account_id, place.name) for place in places}, now)
    return made


async def _make_notices(db: Connection, events: Sequence[Record], now: datetime) -> None:
    if events:
        columns = ([event[name] for event in events] for name in ("account_id", "type", "event_id"))
        await db.execute(_NOTICES, *columns, now)


async def queue(db: Queryable, places: Iterable[tuple[int, str]], now: datetime) -> None:
    """Something is due at these places from `now` on."""
    ordered = sorted(places)
    await db.execute(_QUEUE, [account_id for account_id, _ in ordered], [place for _, place in ordered], now)


def audience(event: Record) -> list[int]:
    """The accounts whose endpoints may be told."""
    accounts: list[int] = []
    if event["audience"] in ("both", "account"):
        accounts.append(event["account_id"])
    if event["audience"] in ("both", "platform") and event["platform_id"] is not None:
        accounts.append(event["platform_id"])
    return accounts


async def _drafts_of_events(db: Connection, events: Sequence[Record]) -> list[Draft]:
    told = {account_id for event in events for account_id in audience(event)}
    endpoints: dict[int, list[Record]] = defaultdict(list)
    for endpoint in await db.fetch(_ENDPOINTS, sorted(told)):
        endpoints[endpoint["account_id"]].append(endpoint)
    pairs = [
        (event, endpoint)
        for event in events
        for account_id in audience(event)
        for endpoint in endpoints[account_id]
        # What happened before an endpoint was registered can be replayed to it, but is not sent by itself.
        if endpoint["created_at"] <= event["created_at"]
        and catalogue.wants(endpoint["events"], event["type"], include_additive=endpoint["include_additive"])
    ]
    return await drafts_for(db, pairs)


async def drafts_for(db: Queryable, pairs: Sequence[tuple[Record, Record]]) -> list[Draft]:
    """Deliveries of these events to these endpoints, with the order that each belongs to where that matters."""
    ordered = {(event["account_id"], event["id"]) for event, endpoint in pairs if endpoint["ordered"]}
    keys = await _order_keys(db, ordered)
    sources = {number: _source(event) for number, event in {event["id"]: event for event, _ in pairs}.items()}
    return [
        Draft(
            webhook(endpoint["account_id"], endpoint["id"]),
            sources[event["id"]],
            keys.get((event["account_id"], event["id"])) if endpoint["ordered"] else None,
        )
        for event, endpoint in pairs
    ]


def _source(row: Record) -> Source:
    return Source(row["account_id"], row["id"], row["event_id"], row["type"])


async def _order_keys(db: Queryable, events: Iterable[tuple[int, int]]) -> dict[tuple[int, int], str]:
    wanted = sorted(events)
    if not wanted:
        return {}
    rows = await db.fetch(
        """
        SELECT account_id, id, type, body
        FROM event
        WHERE (account_id, id) IN (SELECT * FROM unnest($1::bigint[], $2::bigint[]))
        """,
        [account_id for account_id, _ in wanted],
        [number for _, number in wanted],
    )
    return {(row["account_id"], row["id"]): order_key(row["account_id"], row["type"], row["body"]) for row in rows}


def order_key(account_id: int, type_: str, body: bytes) -> str:
    """What an event is about: the merchant's order where it has one, else the resource itself."""
    resource = catalogue.CATALOGUE[type_].resource
    about = msgspec.json.decode(body)["data"].get(resource) or {}
    identifier = about.get("identifier") or about.get("order_id")
    return f"{account_id}:{identifier}" if identifier else f"{account_id}:{resource}:{about.get('id')}"
