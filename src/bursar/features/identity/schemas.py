"""Verification links on the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec
from pydantic import AfterValidator, Field, StringConstraints

from bursar.features.identity.states import Status
from bursar.http.schemas import Body, Metadata, PageQuery, StrictBody

Purpose = Literal["onboarding", "reverification"]


def _web_address(url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("https", "http") and bool(parts.hostname) and not parts.username
    except ValueError:
        usable = False
    if not usable or any(char.isspace() or ord(char) < 32 for char in url):
        raise ValueError("must be a web address")
    return url


class LastError(msgspec.Struct):
    code: str
    message: str


class VerificationLink(msgspec.Struct):
    id: int
    account_id: str
    url: str | None  # while it can be used
    status: Status
    purpose: Purpose
    person_reference: str | None
    return_url: str | None
    last_error: LastError | None
    metadata: dict[str, Any]
    expires_at: datetime
    completed_at: datetime | None
    created_at: datetime


class NewVerificationLink(Body):
    purpose: Purpose = "onboarding"
    person_reference: Annotated[str, StringConstraints(min_length=1, max_length=190)] | None = Field(
        None, description="Your own name for the person, for example an owner."
    )
    return_url: Annotated[str, StringConstraints(max_length=2000), AfterValidator(_web_address)] | None = Field(
        None, description="Where the page leads afterwards."
    )
    expires_in: int = Field(86_400, ge=300, le=604_800, description="Seconds until the link expires.")
    metadata: Metadata = Field(default_factory=dict)


class LinkQuery(PageQuery):
    status: Status | None = None
    purpose: Purpose | None = None


class Decision(StrictBody):
    outcome: Literal["verified", "rejected", "requires_input"]
    code: Annotated[str, StringConstraints(pattern=r"^[a-z_]{2,60}$")] | None = None
    message: Annotated[str, StringConstraints(min_length=1, max_length=500)] | None = None
