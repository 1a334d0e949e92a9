"""API keys on the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from pydantic import AfterValidator, Field

from bursar.http.schemas import Body, StrictBody

AREAS = (
    "payments", "transactions", "balances", "payouts", "disputes", "loans", "banking", "disburse", "terminal",
    "webhooks", "accounts", "identity", "compliance", "support", "connect", "commerce", "management", "store",
    "contracts", "invoices", "subscriptions", "gym", "trade",
)  # fmt: skip
SCOPES = frozenset(f"{area}:{action}" for area in AREAS for action in ("read", "write"))

GRACE_DEFAULT_S = 86_400
GRACE_LONGEST_S = 604_800


def _known_scope(scope: str) -> str:
    if scope not in SCOPES:
        raise ValueError("must be an area followed by :read or :write, such as payments:write")
    return scope


Scope = Annotated[str, AfterValidator(_known_scope)]


class ApiKey(msgspec.Struct):
    id: int
    kind: Literal["secret", "test", "restricted"]
    scopes: list[str]
    hint: str
    replaces_id: int | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


class NewApiKey(msgspec.Struct):
    """A key with its secret, which is shown this once."""

    id: int
    kind: Literal["secret", "test", "restricted"]
    scopes: list[str]
    hint: str
    key: str
    created_at: datetime


class RotateBody(Body):
    grace_seconds: int = Field(
        GRACE_DEFAULT_S, ge=0, le=GRACE_LONGEST_S, description="How long the old key goes on working; 0: not at all."
    )


class IssueBody(StrictBody):
    kind: Literal["secret", "test", "restricted"]
    scopes: list[Scope] = Field(default_factory=list, max_length=len(SCOPES), description="For restricted keys only.")
