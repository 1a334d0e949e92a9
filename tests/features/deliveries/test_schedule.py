"""The whole life of a delivery, with the clock moved through its schedule."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import pairwise

import pytest

from bursar.db.embedded import Urls
from bursar.events import sender
from tests.events.factories import advance, deliveries, detail, happen, moment, register, run_jobs
from tests.events.receivers import Receiver, receiver
from tests.support.service import Party, Service, running_service

MINUTE, HOUR, DAY = 60, 3600, 86_400
GAPS = [5, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 14 * HOUR, 20 * HOUR, 24 * HOUR]


@pytest.fixture
async def hooks() -> AsyncIterator[Receiver]:
    async with receiver() as running:
        yield running


@pytest.fixture
async def quick(urls: Urls) -> AsyncIterator[Service]:
    """An instance that does not wait long for receivers."""
    async with running_service(urls, delivery_connect_s=0.3, delivery_total_s=0.3) as running:
        yield running


async def test_a_failing_receiver_is_tried_ten_times_then_given_up_then_replayed(
    service: Service, hooks: Receiver
) -> None:
    merchant = await service.open_account()
    webhook = await register(service, merchant, hooks.url("/fail"))
    [event] = await happen(service.db, merchant)
    await run_jobs(service)
    [first] = await deliveries(service, merchant)
    assert (first["status"], first["attempts"], first["exhausted"]) == ("failed", 1, False)
    assert first["last_response_code"] == 500
    assert first["next_attempt_at"] is not None

    await advance(service, 76 * HOUR)

    [given_up] = await deliveries(service, merchant, "status=failed")
    assert (given_up["attempts"], given_up["exhausted"], given_up["next_attempt_at"]) == (10, True, None)
    history = (await detail(service, merchant, first["id"]))["history"]
    assert [entry["number"] for entry in history] == list(range(1, 11))
    times = [moment(entry["at"]) for entry in history]
    gaps = [(later - earlier).total_seconds() for earlier, later in pairwise(times)]
    assert gaps == pytest.approx(GAPS, abs=1.5)
    assert {request.event_id for request in hooks.requests} == {event.event_id}
    assert {request.body for request in hooks.requests} == {event.body}
    assert [request.attempt for request in hooks.requests] == list(range(1, 11))

    hooks.mood["/fail"] = "ok"
    reply = await service.send(merchant, "POST", f"/webhook-deliveries/{first['id']}/retry")
    assert reply.status_code == 200, reply.text
    assert reply.json()["data"]["delivery"]["status"] == "pending"
    await run_jobs(service)
    [done] = await deliveries(service, merchant)
    assert (done["status"], done["attempts"], done["exhausted"]) == ("succeeded", 11, False)

    period = {"from": "2000-01-01T00:00:00Z"}
    reply = await service.send(merchant, "POST", f"/webhooks/{webhook['id']}/replay", period)
    assert reply.status_code == 202, reply.text
    await run_jobs(service)
    replay = reply.json()["data"]["replay"]
    reply = await service.get(merchant, f"/webhooks/{webhook['id']}/replays/{replay['id']}")
    assert reply.json()["data"]["replay"]["status"] == "done"
    assert reply.json()["data"]["replay"]["events"] == 1
    assert hooks.requests[-1].attempt == 12
    assert hooks.requests[-1].body == event.body


@pytest.mark.parametrize(
    ("path", "code", "error"),
    [
        ("/hang", None, "timeout"),
        ("/drip", None, "timeout"),
        ("/reset", None, "connection reset"),
        ("/redirect", 302, "redirect"),
        ("/unavailable", 503, "status"),
    ],
)
async def test_receivers_that_do_not_accept_are_tried_again(
    quick: Service, hooks: Receiver, path: str, code: int | None, error: str
) -> None:
    merchant = await quick.open_account()
    await register(quick, merchant, hooks.url(path))
    await happen(quick.db, merchant)
    await run_jobs(quick)
    [failed] = await deliveries(quick, merchant)
    assert (failed["status"], failed["last_response_code"], failed["error"]) == ("failed", code, error)
    hooks.mood[path] = "ok"
    await advance(quick, 5)
    [done] = await deliveries(quick, merchant)
    assert (done["status"], done["attempts"], done["last_response_code"]) == ("succeeded", 2, 200)


async def test_retry_after_is_honoured(service: Service, hooks: Receiver) -> None:
    merchant = await service.open_account()
    await register(service, merchant, hooks.url("/busy"))
    await happen(service.db, merchant)
    await run_jobs(service)
    [waiting] = await deliveries(service, merchant)
    due_in = moment(waiting["next_attempt_at"]) - moment(waiting["created_at"])
    assert due_in.total_seconds() == pytest.approx(600, abs=3)
    await advance(service, 590)
    assert len(hooks.requests) == 1
    await advance(service, 20)
    assert len(hooks.requests) == 2


async def test_gone_disables_the_endpoint_and_tells_the_others(service: Service, hooks: Receiver) -> None:
    merchant = await service.open_account(email="owner@shop.example")
    gone = await register(service, merchant, hooks.url("/gone"), ["transaction.*"])
    await register(service, merchant, hooks.url("/ok"), ["webhook.disabled"])
    await happen(service.db, merchant, 3)
    await run_jobs(service)
    reply = await service.get(merchant, f"/webhooks/{gone['id']}")
    shown = reply.json()["data"]["webhook"]
    assert (shown["status"], shown["disabled_reason"]) == ("disabled", "gone")
    assert len(hooks.at("/gone")) == 1, "nothing more is sent to it"
    statuses = sorted(entry["status"] for entry in await deliveries(service, merchant, f"webhook_id={gone['id']}"))
    assert statuses == ["cancelled", "cancelled", "failed"]
    [told] = hooks.at("/ok")
    assert told.headers["x-service-event-type"] == "webhook.disabled"
    mailbox = await service.client.get("/mailbox")
    assert "a webhook was switched off" in mailbox.text
    assert "owner@shop.example" in mailbox.text

    reply = await service.send(merchant, "POST", f"/webhooks/{gone['id']}/test")
    assert (reply.status_code, reply.json()["error"]["code"]) == (409, "webhook_not_active")
    hooks.mood["/gone"] = "ok"
    reply = await service.send(merchant, "PATCH", f"/webhooks/{gone['id']}", {"status": "active"})
    assert reply.json()["data"]["webhook"]["disabled_reason"] is None
    await happen(service.db, merchant)
    await run_jobs(service)
    assert len(hooks.at("/gone")) == 2


async def test_five_days_of_nothing_but_failures_disable_the_endpoint(service: Service, hooks: Receiver) -> None:
    merchant = await service.open_account()
    webhook = await register(service, merchant, hooks.url("/fail"))
    for _ in range(5):
        await happen(service.db, merchant)
        await advance(service, DAY - HOUR)
        assert (await _status(service, merchant, webhook)) == "active"
    await happen(service.db, merchant)
    await advance(service, 6 * HOUR)
    assert (await _status(service, merchant, webhook)) == "disabled"
    assert await deliveries(service, merchant, "status=pending") == []
    reply = await service.get(merchant, "/events?type=webhook.disabled")
    [event] = reply.json()["data"]
    assert event["data"]["webhook"]["disabled_reason"] == "failing"


async def test_one_success_begins_the_count_anew(service: Service, hooks: Receiver) -> None:
    merchant = await service.open_account()
    webhook = await register(service, merchant, hooks.url("/fail"))
    for day in range(8):
        hooks.mood["/fail"] = "ok" if day == 4 else "fail"
        await happen(service.db, merchant)
        await advance(service, DAY)
    assert (await _status(service, merchant, webhook)) == "active"


async def _status(service: Service, merchant: Party, webhook: dict[str, object]) -> str:
    reply = await service.get(merchant, f"/webhooks/{webhook['id']}")
    return str(reply.json()["data"]["webhook"]["status"])


async def test_a_paused_endpoint_gets_everything_later(service: Service, hooks: Receiver) -> None:
    merchant = await service.open_account()
    webhook = await register(service, merchant, hooks.url("/ok"))
    await service.send(merchant, "PATCH", f"/webhooks/{webhook['id']}", {"status": "paused"})
    await happen(service.db, merchant, 3)
    await run_jobs(service)
    await advance(service, HOUR)
    assert hooks.requests == []
    assert [entry["status"] for entry in await deliveries(service, merchant)] == ["pending"] * 3
    await service.send(merchant, "PATCH", f"/webhooks/{webhook['id']}", {"status": "active"})
    await hooks.wait_for(3)


async def test_a_deleted_endpoint_leaves_nothing_waiting(service: Service, hooks: Receiver) -> None:
    merchant = await service.open_account()
    webhook = await register(service, merchant, hooks.url("/fail"))
    await happen(service.db, merchant, 2)
    await run_jobs(service)
    await service.send(merchant, "DELETE", f"/webhooks/{webhook['id']}")
    await run_jobs(service)
    found = await deliveries(service, merchant)
    assert [entry["status"] for entry in found] == ["cancelled", "cancelled"]
    await advance(service, 80 * HOUR)
    assert len(hooks.requests) == 2
    reply = await service.send(merchant, "POST", f"/webhook-deliveries/{found[0]['id']}/retry")
    assert (reply.status_code, reply.json()["error"]["code"]) == (409, "webhook_not_active")


async def test_an_ordered_endpoint_gets_one_order_in_order(service: Service, hooks: Receiver) -> None:
    merchant = await service.open_account()
    await register(service, merchant, hooks.url("/fail"), ordered=True)
    first = await happen(service.db, merchant, identifier="A", type_="transaction.failed")
    second = await happen(service.db, merchant, identifier="A")
    other = await happen(service.db, merchant, identifier="B")
    await run_jobs(service)
    seen = [request.event_id for request in hooks.requests]
    assert sorted(seen) == sorted([first[0].event_id, other[0].event_id]), "the second of A waits for the first"
    hooks.mood["/fail"] = "ok"
    await advance(service, 5)
    sent = [request.event_id for request in hooks.requests[2:]]
    assert sent.index(first[0].event_id) < sent.index(second[0].event_id)
    assert {entry["status"] for entry in await deliveries(service, merchant)} == {"succeeded"}


async def test_the_first_attempt_waits_for_no_poll(
    urls: Urls, hooks: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit rings the worker's bell; `make bench` says how long that takes."""
    monkeypatch.setattr(sender, "POLL_S", 600.0)
    async with running_service(urls) as service:
        merchant = await service.open_account()
        webhook = await register(service, merchant, hooks.url("/ok"))
        for n in range(1, 6):
            reply = await service.send(merchant, "POST", f"/webhooks/{webhook['id']}/test")
            assert reply.status_code == 202
            await hooks.wait_for(n)
