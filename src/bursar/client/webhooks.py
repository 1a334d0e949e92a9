"""Registered webhooks: JSON, signed with the endpoint's secret."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from bursar.client.verification import TOLERANCE_S, VerificationFailed, as_list, check_body, lowered


@dataclass(frozen=True)
class WebhookEvent:
    """A genuine event. `id` is the same on every repeat."""

    id: str
    type: str
    account_id: str
    data: Mapping[str, Any]
    body: Mapping[str, Any] = field(repr=False)

    @property
    def order(self) -> str | None:
        """The merchant's own reference, where the event is about a payment."""
        identifier = self.data.get("transaction", {}).get("identifier")
        return None if identifier is None else str(identifier)

    @property
    def outcome(self) -> str | None:
        """`success` or `failed`, as IPNs say it; None when the event is about something else."""
        return {"transaction.succeeded": "success", "transaction.failed": "failed"}.get(self.type)


def verify_webhook(
    body: bytes,
    headers: Mapping[str, str],
    secret: str | Sequence[str],
    *,
    tolerance_s: int = TOLERANCE_S,
    now: float | None = None,
) -> WebhookEvent:
    """The event in a request, or `VerificationFailed`. `body` is the raw body, before anything parsed it."""
    given = lowered(headers)
    check_body(body, given, as_list(secret), tolerance_s, now)
    try:
        event = json.loads(body, parse_float=Decimal)
        found = WebhookEvent(event["id"], event["type"], event["account_id"], event["data"], event)
    except (ValueError, KeyError, TypeError):
        raise VerificationFailed("the body is not an event") from None
    if given.get("x-service-event-id", found.id) != found.id:
        raise VerificationFailed("the event id in the header is another one")
    return found
