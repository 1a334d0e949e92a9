"""The outbox: an event and its frozen body are written in the transaction of the change they tell of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from bursar.core.ids import new_event_id
from bursar.db.pool import Queryable
from bursar.db.rows import Rows
from bursar.events.catalogue import CATALOGUE, Audience

_encode = msgspec.json.Encoder(decimal_format="number").encode


class Event(NamedTuple):
    """A row of the outbox, as `EVENTS` has it."""

    account_id: int
    event_id: str
    type: str
    platform_id: int | None
    body: bytes
    created_at: datetime
    audience: Audience = "both"


class Cause(msgspec.Struct, frozen=True):
    """The request that made something happen; none, when it fell due by itself."""

    request_id: str | None
    idempotency_key: str | None
    livemode: bool


def new_event(
    type_: str,
    data: Mapping[str, Any],
    *,
    account: tuple[int, str],
    platform: tuple[int, str] | None,
    now: datetime,
    cause: Cause,
    previous: Mapping[str, Any] | None = None,
    audience: Audience | None = None,
) -> Event:
    """An event with its body as every delivery will send it. `account` and `platform` are (number, public id).

    `audience` narrows who hears of it further than its type does, for what the one side may see and the other not.
    """
    event_id = new_event_id()
    body = _encode(
        {
            "id": event_id,
            "type": type_,
            "created_at": now,
            "account_id": account[1],
            "platform_id": platform[1] if platform else None,
            "livemode": cause.livemode,
            "api_version": "v2",
            "data": data,
            "previous": previous or {},
            "request": {"id": cause.request_id, "idempotency_key": cause.idempotency_key},
        }
    )
    heard_by = audience or CATALOGUE[type_].audience
    return Event(account[0], event_id, type_, platform[0] if platform else None, body, now, heard_by)


EVENTS = Rows(
    "event",
    given=Event._fields,
    derived={"id": "nextval('event_id')"},
)
_INSERT = EVENTS.insert()


async def write(db: Queryable, events: Sequence[Event]) -> None:
    if events:
        await db.execute(_INSERT, events)


async def write_for_one(db: Queryable, event: Event) -> int:
    """An event that is not told to everybody: its deliveries are made by whoever writes it. Returns its number."""
    number: int = await db.fetchval(
        """
        INSERT INTO event (account_id, id, event_id, type, platform_id, body, created_at, audience, fanned_out)
        VALUES ($1, nextval('event_id'), $2, $3, $4, $5, $6, 'none', true)
        RETURNING id
        """,
        event.account_id,
        event.event_id,
        event.type,
        event.platform_id,
        event.body,
        event.created_at,
    )
    return number
