"""What these tests make: endpoints, events, and a view of the delivery log."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from bursar.db.clock import instance_now
from bursar.db.pool import Database
from bursar.events import outbox
from bursar.events.outbox import Cause, Event, new_event
from tests.support.service import Party, Service

CAUSE = Cause("req_test", None, livemode=False)


async def register(
    service: Service, party: Party, url: str, events: Sequence[str] = ("*",), **more: Any
) -> dict[str, Any]:
    reply = await service.send(party, "POST", "/webhooks", {"url": url, "events": list(events), **more})
    assert reply.status_code == 201, reply.text
    webhook: dict[str, Any] = reply.json()["data"]["webhook"]
    return webhook


async def happen(
    db: Database,
    party: Party,
    count: int = 1,
    *,
    type_: str = "transaction.succeeded",
    platform: Party | None = None,
    identifier: str | None = None,
    **more: Any,
) -> list[Event]:
    """Events as a feature would write them."""
    now = await instance_now(db)
    events = [
        new_event(
            type_,
            {"transaction": {"identifier": identifier or f"order-{n}", "status": "succeeded", "amount": 10.00}},
            account=(party.merchant_id, party.account_id),
            platform=(platform.merchant_id, platform.account_id) if platform else None,
            now=now,
            cause=CAUSE,
            **more,
        )
        for n in range(count)
    ]
    await outbox.write(db, events)
    return events


async def deliveries(service: Service, party: Party, query: str = "per_page=100&sort=id") -> list[dict[str, Any]]:
    reply = await service.get(party, f"/webhook-deliveries?{query}")
    assert reply.status_code == 200, reply.text
    found: list[dict[str, Any]] = reply.json()["data"]
    return found


async def detail(service: Service, party: Party, delivery_id: int) -> dict[str, Any]:
    reply = await service.get(party, f"/webhook-deliveries/{delivery_id}")
    found: dict[str, Any] = reply.json()["data"]["delivery"]
    return found


async def run_jobs(service: Service) -> dict[str, int]:
    reply = await service.ops("POST", "/jobs/run", {})
    assert reply.status_code == 200, reply.text
    counts: dict[str, int] = reply.json()["data"]
    return counts


async def advance(service: Service, seconds: float) -> dict[str, Any]:
    reply = await service.ops("POST", "/clock/advance", {"seconds": int(seconds)})
    assert reply.status_code == 200, reply.text
    advanced: dict[str, Any] = reply.json()["data"]
    return advanced


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)
