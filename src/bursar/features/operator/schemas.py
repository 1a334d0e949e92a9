"""The operator's own resources on the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
from pydantic import Field

from bursar.http.context import LARGEST_ID
from bursar.http.schemas import StrictBody, StrictQuery

FARTHEST_S = 20 * 366 * 86_400


class Clock(msgspec.Struct):
    now: datetime
    offset_seconds: float


class Ran(msgspec.Struct):
    """One job that ran while the clock moved."""

    job: str
    rows: int
    at: datetime


class Advanced(msgspec.Struct):
    now: datetime
    ran: list[Ran]


class Advance(StrictBody):
    seconds: int = Field(ge=0, le=FARTHEST_S, description="How far to move the instance's clock.")


class Nothing(StrictBody):
    """An empty object."""


class AuditEntry(msgspec.Struct):
    id: int
    account_id: int
    actor: str
    break_glass: bool
    action: str
    target: str
    status: int
    before: Any
    after: Any
    request_id: str
    at: datetime
    real_at: datetime


class AuditQuery(StrictQuery):
    page: int = Field(1, ge=1, le=1_000_000)
    per_page: int = Field(25, ge=1, le=100)
    merchant: int | None = Field(None, ge=0, le=LARGEST_ID, description="Only what was done to this account.")
    action: str | None = Field(None, max_length=80)
