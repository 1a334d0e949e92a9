"""Signatures, checked by code that is not the service's: the standard library of webhooks, and a few lines from the
documentation.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from urllib.parse import parse_qsl

import pytest
import pytest_asyncio
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from bursar.core.money import Money
from bursar.db.clock import instance_now
from bursar.db.embedded import Urls
from bursar.events import ipn
from bursar.events.ipn import Failure, Ipn, SigningKey
from tests.events.factories import deliveries, detail, happen, register, run_jobs
from tests.events.receivers import Received, Receiver, receiver
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


def hex_digest(secret: str, message: bytes) -> str:
    return hmac.new(secret.encode(), message, hashlib.sha256).hexdigest()


def full_body(request: Received, secret: str) -> str:
    return hex_digest(secret, request.headers["x-service-timestamp"].encode() + b"." + request.body)


class TestWebhooks:
    async def test_both_signatures_verify(self, service: Service, hooks: Receiver) -> None:
        merchant = await service.open_account()
        webhook = await register(service, merchant, hooks.url())
        [event] = await happen(service.db, merchant)
        [request] = await hooks.wait_for(1)
        assert request.headers["x-service-signature"] == full_body(request, webhook["secret"])
        payload = Webhook(webhook["secret"]).verify(request.body, request.headers)
        assert payload["id"] == event.event_id == request.headers["webhook-id"] == request.event_id
        assert request.headers["x-service-event-type"] == payload["type"] == "transaction.succeeded"
        assert abs(int(request.headers["x-service-timestamp"]) - request.at) < 2
        with pytest.raises(WebhookVerificationError):
            Webhook(webhook["secret"]).verify(request.body + b" ", request.headers)

    async def test_during_rotation_both_secrets_sign(self, service: Service, hooks: Receiver) -> None:
        merchant = await service.open_account()
        webhook = await register(service, merchant, hooks.url())
        rotate = f"/webhooks/{webhook['id']}/rotate-secret"
        new = (await service.send(merchant, "POST", rotate, {"grace_seconds": 3600})).json()["data"]["webhook"][
            "secret"
        ]
        await happen(service.db, merchant)
        [request] = await hooks.wait_for(1)
        expected = [full_body(request, new), full_body(request, webhook["secret"])]
        assert request.headers["x-service-signature"].split(",") == expected
        for secret in (new, webhook["secret"]):
            Webhook(secret).verify(request.body, request.headers)
        await service.ops("POST", "/clock/advance", {"seconds": 3601})
        await happen(service.db, merchant)
        await run_jobs(service)
        assert hooks.requests[-1].headers["x-service-signature"] == full_body(hooks.requests[-1], new)

    async def test_the_envelope(self, service: Service, hooks: Receiver) -> None:
        platform = await service.open_account("platform")
        merchant = await service.open_account(platform=platform.merchant_id)
        await register(service, merchant, hooks.url())
        await service.ops("PATCH", f"/accounts/{merchant.merchant_id}", {"status": "review"})
        requests = await hooks.wait_for(2)
        bodies = {request.headers["x-service-event-type"]: json.loads(request.body) for request in requests}
        update = bodies["account.update"]
        assert set(update) == {
            "id", "type", "created_at", "account_id", "platform_id", "livemode", "api_version", "data", "previous",
            "request",
        }  # fmt: skip
        assert update["account_id"] == merchant.account_id
        assert update["platform_id"] == platform.account_id
        assert update["livemode"] is False
        assert update["api_version"] == "v2"
        assert update["data"]["account"]["status"] == "review"
        assert update["previous"] == {"status": "active"}
        assert update["request"]["id"].startswith("req_")
        assert "connected_account.review" in bodies


async def _key_id(service: Service, party: Party) -> int:
    keys = (await service.get(party, "/api-keys?sort=id")).json()["data"]
    return int(next(key["id"] for key in keys if key["kind"] == "secret"))


async def _notify(service: Service, merchant: Party, key: SigningKey, url: str, **more: object) -> str:
    facts: dict[str, object] = {
        "account_id": merchant.merchant_id,
        "url": url,
        "key": key,
        "status": "success",
        "identifier": "order-1",
        "amount": Money(1050, "GBP"),
        "payment_trx": "TRX-1",
        "account_holder": "Ada Lovelace",
        **more,
    }
    async with service.db.transaction() as db:
        return await ipn.enqueue(db, Ipn(**facts), await instance_now(db))  # type: ignore[arg-type]


class TestIpns:
    async def test_a_failed_attempt_as_a_form(self, service: Service, hooks: Receiver) -> None:
        merchant = await service.open_account()
        key = SigningKey(merchant.merchant_id, await _key_id(service, merchant))
        error = Failure("card_declined", "The card was declined.", "insufficient_funds")
        event_id = await _notify(service, merchant, key, hooks.url("/ok/ipn"), status="failed", error=error)
        await run_jobs(service)
        [request] = hooks.requests
        assert request.headers["content-type"] == "application/x-www-form-urlencoded"
        form = parse_qsl(request.body.decode(), strict_parsing=True)
        signature = hex_digest(merchant.secret_key, b"10.50order-1").upper()
        assert form == [
            ("status", "failed"),
            ("identifier", "order-1"),
            ("signature", signature),
            ("error[code]", "card_declined"),
            ("error[message]", "The card was declined."),
            ("error[decline_code]", "insufficient_funds"),
            ("data[payment_trx]", "TRX-1"),
            ("data[status]", "failed"),
            ("data[amount]", "10.50"),
            ("data[account_holder]", "Ada Lovelace"),
            ("data[payment_type]", "hosted"),
            ("data[currency][code]", "GBP"),
            ("data[currency][symbol]", "£"),
            ("data[error][code]", "card_declined"),
            ("data[error][message]", "The card was declined."),
            ("data[error][decline_code]", "insufficient_funds"),
        ]
        assert request.event_id == event_id
        assert request.headers["x-service-signature"] == full_body(request, merchant.secret_key)
        [logged] = await deliveries(service, merchant, "channel=ipn")
        assert (logged["status"], logged["type"], logged["webhook_id"]) == ("succeeded", "transaction.failed", None)
        shown = await detail(service, merchant, logged["id"])
        assert "signature" not in shown["request"]["body"]

    async def test_success_has_no_error(self, service: Service, hooks: Receiver) -> None:
        merchant = await service.open_account()
        key = SigningKey(merchant.merchant_id, await _key_id(service, merchant))
        await _notify(service, merchant, key, hooks.url())
        await run_jobs(service)
        form = dict(parse_qsl(hooks.requests[0].body.decode()))
        assert form["status"] == form["data[status]"] == "success"
        assert not any("error" in name for name in form)

    async def test_a_platforms_checkout_is_signed_with_the_platforms_key(
        self, service: Service, hooks: Receiver
    ) -> None:
        platform = await service.open_account("platform")
        merchant = await service.open_account(platform=platform.merchant_id)
        key = SigningKey(platform.merchant_id, await _key_id(service, platform))
        await _notify(service, merchant, key, hooks.url())
        await run_jobs(service)
        form = dict(parse_qsl(hooks.requests[0].body.decode()))
        assert form["signature"] == hex_digest(platform.secret_key, b"10.50order-1").upper()

    async def test_the_newest_key_signs_and_the_previous_one_too_in_its_grace(
        self, service: Service, hooks: Receiver
    ) -> None:
        merchant = await service.open_account()
        key_id = await _key_id(service, merchant)
        first = merchant.secret_key
        reply = await service.send(first, "POST", f"/api-keys/{key_id}/rotate", {"grace_seconds": 3600})
        second = reply.json()["data"]["api_key"]["key"]
        key = SigningKey(merchant.merchant_id, key_id)
        await _notify(service, merchant, key, hooks.url())
        await run_jobs(service)
        form = dict(parse_qsl(hooks.requests[0].body.decode()))
        assert form["signature"] == hex_digest(second, b"10.50order-1").upper()
        assert form["signature_previous"] == hex_digest(first, b"10.50order-1").upper()
        await service.ops("POST", "/clock/advance", {"seconds": 3601})
        await _notify(service, merchant, key, hooks.url())
        await run_jobs(service)
        form = dict(parse_qsl(hooks.requests[1].body.decode()))
        assert form["signature"] == hex_digest(second, b"10.50order-1").upper()
        assert "signature_previous" not in form

    async def test_with_every_key_revoked_nothing_is_sent(self, service: Service, hooks: Receiver) -> None:
        merchant = await service.open_account()
        key_id = await _key_id(service, merchant)
        await _notify(service, merchant, SigningKey(merchant.merchant_id, 999_999), hooks.url())
        await run_jobs(service)
        assert hooks.requests == []
        [logged] = await deliveries(service, merchant)
        assert (logged["status"], logged["error"]) == ("failed", "no signing key is left")
        assert key_id < 999_999

    async def test_amount_and_identifier_cannot_be_split_in_two_ways(self) -> None:
        """The decimals are fixed, so only one amount can stand before a given rest."""
        texts: dict[str, tuple[int, str]] = {}
        for minor in range(0, 2000, 7):
            for identifier in ("", "1", "05x", "0.50", "5x", "00"):
                text = ipn.printed(Money(minor, "GBP")) + identifier
                assert texts.setdefault(text, (minor, identifier)) == (minor, identifier)
