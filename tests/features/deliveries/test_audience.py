"""Who is told of what, and who may look."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from bursar.db.embedded import Urls
from tests.events.factories import deliveries, happen, register, run_jobs
from tests.events.receivers import Receiver, receiver
from tests.support.service import Party, Service, running_service

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def service(shared_urls: Urls) -> AsyncIterator[Service]:
    async with running_service(shared_urls) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def hooks() -> AsyncIterator[Receiver]:
    async with receiver() as running:
        yield running


async def _family(service: Service) -> tuple[Party, Party, Party]:
    platform = await service.open_account("platform")
    merchant = await service.open_account(platform=platform.merchant_id)
    stranger = await service.open_account("platform")
    return platform, merchant, stranger


async def test_an_accounts_endpoints_and_those_of_its_platform_then(service: Service, hooks: Receiver) -> None:
    platform, merchant, stranger = await _family(service)
    for party, path in ((platform, "/ok/platform"), (merchant, "/ok/merchant"), (stranger, "/ok/stranger")):
        await register(service, party, hooks.url(path))
    both = await happen(service.db, merchant, platform=platform)
    after_leaving = await happen(service.db, merchant)  # it no longer belonged to the platform
    only_platform = await happen(service.db, merchant, platform=platform, type_="commerce.commission.updated")
    only_account = await happen(service.db, merchant, platform=platform, audience="account")
    await run_jobs(service)
    told = {path: {request.event_id for request in hooks.at(path)} for path in ("/ok/platform", "/ok/merchant")}
    assert told["/ok/platform"] == {both[0].event_id, only_platform[0].event_id}
    assert told["/ok/merchant"] == {both[0].event_id, after_leaving[0].event_id, only_account[0].event_id}
    assert hooks.at("/ok/stranger") == []


async def test_additive_types_only_by_name(service: Service, hooks: Receiver) -> None:
    merchant = await service.open_account()
    await register(service, merchant, hooks.url("/ok/star"), ["*"])
    await register(service, merchant, hooks.url("/ok/named"), ["invoice.paid"])
    await register(service, merchant, hooks.url("/ok/family"), ["invoice.*"])
    await register(service, merchant, hooks.url("/ok/all"), ["*"], include_additive=True)
    await register(service, merchant, hooks.url("/ok/other"), ["kyc.*", "payout.paid"])
    await happen(service.db, merchant, type_="invoice.paid")
    await run_jobs(service)
    assert {request.path for request in hooks.requests} == {"/ok/named", "/ok/family", "/ok/all"}


async def test_what_happened_before_an_endpoint_was_registered_is_not_sent_to_it(
    service: Service, hooks: Receiver
) -> None:
    merchant = await service.open_account()
    async with service.db.transaction() as db:  # keeps the fan-out away until the endpoint is there
        await db.execute("SELECT pg_advisory_xact_lock(1717661295)")
        await happen(service.db, merchant)
        await register(service, merchant, hooks.url())
    await run_jobs(service)
    assert hooks.requests == []


async def test_an_event_is_fanned_out_once_per_endpoint(service: Service, hooks: Receiver) -> None:
    platform = await service.open_account("platform")
    await register(service, platform, hooks.url("/ok/1"), ["*", "transaction.*", "transaction.succeeded"])
    await happen(service.db, platform, 3)
    await run_jobs(service)
    await run_jobs(service)
    assert len(hooks.requests) == 3


class TestReading:
    async def test_events_are_seen_by_those_who_were_told(self, service: Service) -> None:
        platform, merchant, stranger = await _family(service)
        [event] = await happen(service.db, merchant, platform=platform)
        path = f"/events/{event.event_id}"
        for party in (platform, merchant):
            reply = await service.get(party, path)
            assert reply.status_code == 200
            assert reply.json()["data"]["event"]["id"] == event.event_id
            listed = (await service.get(party, "/events?type=transaction.succeeded")).json()["data"]
            assert [entry["id"] for entry in listed] == [event.event_id]
        assert (await service.get(stranger, path)).status_code == 404
        acting = await service.get(platform, path, Service_Account=merchant.account_id)
        assert acting.status_code == 200
        assert (await service.get(stranger, "/events?type=transaction.succeeded")).json()["data"] == []

    async def test_what_is_for_the_platform_alone_is_hidden_from_the_account(self, service: Service) -> None:
        platform, merchant, _ = await _family(service)
        [event] = await happen(service.db, merchant, platform=platform, type_="commerce.commission.updated")
        assert (await service.get(platform, f"/events/{event.event_id}")).status_code == 200
        assert (await service.get(merchant, f"/events/{event.event_id}")).status_code == 404
        assert event.event_id not in (await service.get(merchant, "/events")).text
        assert event.event_id not in (await service.get(merchant, "/events-tail?after=evt_0")).text
        assert event.event_id in (await service.get(platform, "/events-tail?after=evt_0")).text

    async def test_a_delivery_of_another_account_is_not_there(self, service: Service, hooks: Receiver) -> None:
        platform, merchant, stranger = await _family(service)
        await register(service, merchant, hooks.url())
        await happen(service.db, merchant, platform=platform)
        await run_jobs(service)
        [delivery] = await deliveries(service, merchant)
        path = f"/webhook-deliveries/{delivery['id']}"
        for party in (platform, stranger):
            assert (await service.get(party, path)).status_code == 404
            assert (await service.send(party, "POST", f"{path}/retry")).status_code == 404
        acting = await service.get(platform, "/webhook-deliveries", Service_Account=merchant.account_id)
        assert [entry["id"] for entry in acting.json()["data"]] == [delivery["id"]]

    async def test_filters_and_paging(self, service: Service, hooks: Receiver) -> None:
        merchant = await service.open_account()
        await register(service, merchant, hooks.url("/ok"))
        await register(service, merchant, hooks.url("/fail"), ["transaction.failed"])
        await happen(service.db, merchant, 3)
        await happen(service.db, merchant, type_="transaction.failed")
        await run_jobs(service)
        assert len(await deliveries(service, merchant, "status=succeeded")) == 4
        assert len(await deliveries(service, merchant, "status=failed")) == 1
        assert len(await deliveries(service, merchant, "event_type=transaction.failed")) == 2
        assert len(await deliveries(service, merchant, "limit=2")) == 2
        assert len(await deliveries(service, merchant, "limit=2&page=3")) == 1
        assert (await service.get(merchant, "/webhook-deliveries?status=odd")).status_code == 422
        assert (await service.get(merchant, "/webhook-deliveries?limit=101")).status_code == 422


class TestResending:
    async def test_by_id_to_every_endpoint_that_wants_it_now(self, service: Service, hooks: Receiver) -> None:
        merchant = await service.open_account()
        await register(service, merchant, hooks.url("/ok/first"))
        [event] = await happen(service.db, merchant)
        await run_jobs(service)
        await register(service, merchant, hooks.url("/ok/second"))
        await register(service, merchant, hooks.url("/ok/third"), ["payout.paid"])
        reply = await service.send(merchant, "POST", f"/events/{event.event_id}/resend")
        assert reply.status_code == 202, reply.text
        assert len(reply.json()["data"]["resent"]["delivery_ids"]) == 2
        await run_jobs(service)
        assert [request.path for request in hooks.requests].count("/ok/first") == 2
        assert len(hooks.at("/ok/second")) == 1
        assert hooks.at("/ok/third") == []
        assert {request.body for request in hooks.requests} == {event.body}
        assert len(await deliveries(service, merchant)) == 2, "one delivery per event and endpoint, however often"

    async def test_by_period_and_type(self, service: Service, hooks: Receiver) -> None:
        merchant = await service.open_account()
        early = await happen(service.db, merchant)
        await service.ops("POST", "/clock/advance", {"seconds": 7200})
        late = await happen(service.db, merchant, 600)
        await happen(service.db, merchant, type_="payout.paid")
        await run_jobs(service)
        webhook = await register(service, merchant, hooks.url())
        start = late[0].created_at.isoformat()
        reply = await service.send(
            merchant, "POST", f"/webhooks/{webhook['id']}/replay", {"from": start, "types": ["transaction.*"]}
        )
        assert reply.status_code == 202, reply.text
        await run_jobs(service)
        seen = {request.event_id for request in hooks.requests}
        assert seen == {event.event_id for event in late}
        assert early[0].event_id not in seen
        bad = {"from": start, "to": "2001-01-01T00:00:00Z"}
        assert (await service.send(merchant, "POST", f"/webhooks/{webhook['id']}/replay", bad)).status_code == 422


async def test_the_sandbox_sends_nothing(service: Service, hooks: Receiver) -> None:
    merchant = await service.open_account()
    webhook = await register(service, merchant, hooks.url())
    reply = await service.send(merchant, "POST", f"/sandbox/v2/webhooks/{webhook['id']}/test")
    assert reply.status_code == 202, reply.text
    samples = await service.get(merchant.test_secret_key, "/sandbox/v2/webhook-deliveries")
    assert {entry["status"] for entry in samples.json()["data"]} == {"pending", "succeeded", "failed", "cancelled"}
    reply = await service.send(merchant.test_secret_key, "POST", "/sandbox/v2/webhook-deliveries/2/retry")
    assert reply.status_code == 200, reply.text
    await run_jobs(service)
    assert hooks.requests == []
