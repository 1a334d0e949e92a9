"""Webhooks on the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from pydantic import AfterValidator, Field, StringConstraints

from bursar.events.catalogue import is_subscribable
from bursar.http.schemas import Body, StrictBody

Status = Literal["active", "paused", "disabled"]


def _event(pattern: str) -> str:
    if not is_subscribable(pattern):
        raise ValueError("must be an event type, a family such as kyc.*, or *")
    return pattern


Events = Annotated[list[Annotated[str, AfterValidator(_event)]], Field(min_length=1, max_length=100)]
Url = Annotated[str, StringConstraints(min_length=8, max_length=2000)]
Description = Annotated[str, StringConstraints(max_length=255)]


class Webhook(msgspec.Struct):
    id: int
    url: str
    status: Status
    events: list[str]
    description: str
    secret_hint: str
    created_at: datetime
    updated_at: datetime


class WebhookWithSecret(msgspec.Struct):
    """A webhook with its signing secret, which is shown this once."""

    id: int
    url: str
    status: Status
    events: list[str]
    description: str
    secret_hint: str
    secret: str
    created_at: datetime
    updated_at: datetime


class Deleted(msgspec.Struct):
    deleted: bool


class NewWebhook(Body):
    url: Url
    events: Events
    description: Description = ""


class OperatorNewWebhook(StrictBody):
    url: Url
    events: Events
    description: Description = ""


class WebhookChanges(Body):
    url: Url | None = None
    events: Events | None = None
    description: Description | None = None
    status: Literal["active", "paused"] | None = None


class RotateSecret(Body):
    grace_seconds: int = Field(86_400, ge=0, le=604_800, description="How long the old secret goes on signing, too.")
