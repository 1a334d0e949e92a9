"""Events on the wire: the very object that is delivered."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
from pydantic import Field

from bursar.http.schemas import IsoDate, IsoMoment, PageQuery, Query


class Cause(msgspec.Struct):
    id: str | None
    idempotency_key: str | None


class Event(msgspec.Struct):
    """An event as endpoints are sent it. `data` holds the resource under its name."""

    id: str
    type: str
    created_at: datetime
    account_id: str
    platform_id: str | None
    livemode: bool
    api_version: str
    data: dict[str, Any]
    previous: dict[str, Any]
    request: Cause


class Resent(msgspec.Struct):
    """Deliveries that are on their way again."""

    event_id: str
    delivery_ids: list[int]


class EventQuery(PageQuery):
    type: str | None = Field(None, max_length=80, description="Only events of this type.")
    since: IsoMoment | IsoDate | None = Field(None, alias="from")
    until: IsoMoment | IsoDate | None = Field(None, alias="to")


class TailQuery(Query):
    after: str = Field("", max_length=80, description="Where the last reply said to read on; empty: from now on.")


class TailedEvent(msgspec.Struct):
    event_id: str
    type: str
    body: str  # exactly what is delivered


class TailedIpn(msgspec.Struct):
    event_id: str
    type: str
    url: str
    amount: str
    identifier: str
    fields: list[tuple[str, str]]


class Tail(msgspec.Struct):
    """What happened lately. The last seconds come again, since they may not be complete; drop what you have seen."""

    after: str
    events: list[TailedEvent]
    ipns: list[TailedIpn]
