"""The developer's tools on a whole test instance: real payments, real notifications, a local server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from bursar.cli.account_client import AccountClient
from bursar.cli.client import ClientError, OperatorClient
from bursar.cli.forwarding import Follower, Forwarder
from bursar.cli.triggering import RECIPES, Scene, perform
from bursar.client import OrderGuard, Step, api_status_reader, verify_ipn, verify_webhook
from bursar.db.embedded import Urls
from bursar.events.catalogue import CATALOGUE
from tests.events.factories import register
from tests.events.receivers import Receiver, receiver
from tests.support import databases
from tests.support.service import OPERATOR_KEY, Party
from tests.support.till import DECLINED, Till, running_till

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def till_urls(server: databases.TestServer) -> Iterator[Urls]:
    with databases.fresh_database(server.urls) as fresh:
        yield fresh


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def till(till_urls: Urls) -> AsyncIterator[Till]:
    async with running_till(till_urls) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def hooks() -> AsyncIterator[Receiver]:
    async with receiver() as running:
        yield running


async def test_a_listener_that_uses_the_helpers_ends_with_the_same_paid_orders(
    till: Till, hooks: Receiver, tmp_path: Path
) -> None:
    """Both channels, a declined attempt first, and everything delivered twice."""
    service = till.service
    merchant = await service.open_account()
    webhook = await register(service, merchant, hooks.url("/ok/hook"), ["transaction.succeeded", "transaction.failed"])
    orders = [f"order-{n}" for n in range(4)]
    for identifier in orders:
        payment = await till.create(merchant, identifier, ipn_url=hooks.url("/ok/ipn"))
        await till.pay(payment, DECLINED)
        if identifier != "order-3":
            await till.pay(payment)
    await till.run_due()
    for delivery in (await service.get(merchant, "/webhook-deliveries?per_page=100")).json()["data"]:
        await service.send(merchant, "POST", f"/webhook-deliveries/{delivery['id']}/retry")
    await till.run_due()
    read = api_status_reader(service.base_url, merchant.secret_key)
    guard = OrderGuard(tmp_path / "orders.db")
    fulfilled = []
    assert len(hooks.at("/ok/ipn")) == len(hooks.at("/ok/hook")) == 14
    for request in hooks.requests:
        if request.path == "/ok/ipn":
            update: Any = await asyncio.to_thread(verify_ipn, request.body, request.headers, merchant.secret_key, read)
        else:
            update = verify_webhook(request.body, request.headers, webhook["secret"])
        if (
            guard.apply(update.order, update.id if hasattr(update, "id") else update.event_id, update.outcome)
            is Step.FULFIL
        ):
            fulfilled.append(update.order)
    assert sorted(fulfilled) == orders[:3]
    assert not guard.is_paid("order-3")


async def test_the_ipn_and_the_event_of_one_attempt_can_be_told_apart_and_joined(till: Till, hooks: Receiver) -> None:
    merchant = await till.service.open_account()
    await register(till.service, merchant, hooks.url("/ok/hook"), ["transaction.succeeded"])
    payment = await till.create(merchant, ipn_url=hooks.url("/ok/ipn"))
    await till.pay(payment)
    await till.run_due()
    [told], [notified] = hooks.at("/ok/hook"), hooks.at("/ok/ipn")
    assert told.headers["x-service-event-type"] == notified.headers["x-service-event-type"] == "transaction.succeeded"
    log = (await till.service.get(merchant, "/webhook-deliveries")).json()["data"]
    assert {entry["channel"] for entry in log} == {"webhook", "ipn"}


def _scene(till: Till, party: Party, key: str) -> Scene:
    ops = OperatorClient(till.service.base_url, OPERATOR_KEY)
    return Scene(ops, AccountClient(till.service.base_url, key), ops.get(f"/accounts/{party.merchant_id}").data)


async def test_triggers_make_their_event_happen(till: Till) -> None:
    service = till.service
    merchant = await service.open_account()
    platform = await service.open_account("platform")
    await register(service, merchant, "http://127.0.0.1:9/", ["*"])
    missing = []
    for event in RECIPES:
        party = platform if event.startswith("connected_account") else merchant
        scene = await asyncio.to_thread(_scene, till, party, party.secret_key)
        try:
            lines = await asyncio.to_thread(lambda: list(perform(event, scene)))  # noqa: B023 - awaited at once
            assert lines[-1].startswith(f"{event} has happened: evt_")
        except ClientError as error:
            missing.append((event, str(error)))
    assert [(event, why) for event, why in missing if event != "dispute.created"] == []


async def test_a_trigger_that_is_not_there_says_so(till: Till) -> None:
    merchant = await till.service.open_account()
    scene = await asyncio.to_thread(_scene, till, merchant, merchant.secret_key)
    with pytest.raises(ClientError, match="cannot be triggered yet"):
        await asyncio.to_thread(lambda: list(perform("gym.checkin_created", scene)))
    assert set(RECIPES) <= set(CATALOGUE)


async def test_listening_forwards_the_same_bytes_once_signed_for_the_session(till: Till, hooks: Receiver) -> None:
    service = till.service
    merchant = await service.open_account()
    client = AccountClient(service.base_url, merchant.secret_key)
    follower = Follower(lambda after: client.get("/events-tail", after=after or None).data["tail"], "")
    secret = "whsec_" + "s" * 32
    forwarder = Forwarder(hooks.url("/ok/hook"), hooks.url("/ok/ipn"), secret, merchant.secret_key)
    assert await asyncio.to_thread(follower.poll) == []
    payment = await till.create(merchant)
    await till.pay(payment)
    await till.run_due()
    entries = await asyncio.to_thread(follower.poll)
    lines = [await asyncio.to_thread(forwarder.forward, entry) for entry in entries]
    assert await asyncio.to_thread(follower.poll) == [], "what was seen is not forwarded again"
    assert all(line.split()[0] == "200" for line in lines)
    kinds = {(request.path, request.headers["x-service-event-type"]) for request in hooks.requests}
    assert kinds >= {("/ok/hook", "transaction.succeeded"), ("/ok/ipn", "transaction.succeeded")}
    for request in hooks.at("/ok/hook"):
        event = verify_webhook(request.body, request.headers, secret)
        stored = await service.db.fetchval("SELECT body FROM event WHERE event_id = $1", event.id)
        assert request.body == stored
    [notification] = hooks.at("/ok/ipn")
    read = api_status_reader(service.base_url, merchant.secret_key)
    assert (
        await asyncio.to_thread(verify_ipn, notification.body, notification.headers, merchant.secret_key, read)
    ).paid
    forwarder = Forwarder("localhost:1/x", "localhost:1/x", secret, merchant.secret_key)
    assert (await asyncio.to_thread(forwarder.forward, entries[0])).split()[0] == "refused"
