"""Webhooks on the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from pydantic import AfterValidator, Field, StringConstraints

from bursar.events.catalogue import is_subscribable
from bursar.http.schemas import Body, IsoMoment, StrictBody

Status = Literal["active", "paused", "disabled"]


def _event(pattern: str) -> str:
    if not is_subscribable(pattern):
        raise ValueError("must be an event type, a family such as kyc.*, or *")
    return pattern


Events = Annotated[list[Annotated[str, AfterValidator(_event)]], Field(min_length=1, max_length=100)]
Url = Annotated[str, StringConstraints(min_length=8, max_length=2000)]
Description = Annotated[str, StringConstraints(max_length=255)]
IncludeAdditive = Annotated[bool, Field(description="Lets `*` bring the additive types, too.")]
Ordered = Annotated[bool, Field(description="Sends what belongs to one order strictly one after another.")]


class Webhook(msgspec.Struct):
    id: int
    url: str
    status: Status
    events: list[str]
    description: str
    include_additive: bool
    ordered: bool
    disabled_reason: str | None
    secret_hint: str
    created_at: datetime
    updated_at: datetime


class WebhookWithSecret(Webhook):
    """A webhook with its signing secret, which is shown this once."""

    secret: str


class Deleted(msgspec.Struct):
    deleted: bool


class NewWebhook(Body):
    url: Url
    events: Events
    description: Description = ""
    include_additive: IncludeAdditive = False
    ordered: Ordered = False


class OperatorNewWebhook(StrictBody):
    url: Url
    events: Events
    description: Description = ""
    include_additive: IncludeAdditive = False
    ordered: Ordered = False


class WebhookChanges(Body):
    url: Url | None = None
    events: Events | None = None
    description: Description | None = None
    include_additive: IncludeAdditive | None = None
    ordered: Ordered | None = None
    status: Literal["active", "paused"] | None = None


class RotateSecret(Body):
    grace_seconds: int = Field(86_400, ge=0, le=604_800, description="How long the old secret goes on signing, too.")


class Replay(msgspec.Struct):
    """An order to send the events of a period to one webhook, again or for the first time."""

    id: int
    webhook_id: int
    types: list[str]
    since: datetime
    until: datetime
    events: int
    status: Literal["running", "done"]
    created_at: datetime


class Tested(msgspec.Struct):
    """A test event that is on its way."""

    event_id: str
    delivery_id: int


class ReplayPeriod(Body):
    since: IsoMoment = Field(alias="from", description="The first moment of the period.")
    until: IsoMoment | None = Field(None, alias="to", description="The last; default now.")
    types: list[Annotated[str, AfterValidator(_event)]] = Field(
        default_factory=list, max_length=100, description="Only these types; default all that the webhook wants."
    )
