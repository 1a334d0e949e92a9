"""Deliveries on the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec

from bursar.http.schemas import PageQuery

Status = Literal["pending", "succeeded", "failed", "cancelled"]
Channel = Literal["webhook", "ipn"]


class Delivery(msgspec.Struct):
    """One event or IPN to one address. `failed` with `next_attempt_at` is tried again; `exhausted` is final."""

    id: int
    event_id: str
    type: str
    channel: Channel
    webhook_id: int | None
    status: Status
    attempts: int
    last_response_code: int | None
    error: str | None
    duration_ms: int | None
    exhausted: bool
    next_attempt_at: datetime | None
    response_excerpt: str | None
    created_at: datetime


class Attempt(msgspec.Struct):
    number: int
    url: str
    at: datetime
    duration_ms: int
    response_code: int | None
    error: str | None
    response_excerpt: str | None


class Request(msgspec.Struct):
    """What was sent last, or is about to be; signatures are left out."""

    method: str
    url: str | None
    headers: dict[str, str]
    body: Any


class DeliveryDetail(Delivery):
    """A delivery with what is sent, and every attempt so far."""

    request: Request
    history: list[Attempt]


class DeliveryQuery(PageQuery):
    status: Status | None = None
    event_type: str | None = None
    event_id: str | None = None
    webhook_id: int | None = None
    channel: Channel | None = None
    exhausted: bool | None = None
