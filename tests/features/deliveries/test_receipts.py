"""Receipts and refund notices, from a real payment to the customer's mailbox, whenever the worker dies on the way."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from email import message_from_bytes, policy

import pytest

from bursar.db.embedded import Urls
from bursar.db.pool import Record
from tests.events.factories import run_jobs
from tests.features.deliveries.factory import emit
from tests.support.mailhost import Mailhost
from tests.support.service import Party, Service, running_service
from tests.support.till import DECLINED, Till, running_till


@pytest.fixture
async def till(urls: Urls) -> AsyncIterator[Till]:
    async with running_till(urls) as running:
        yield running


async def _mail(till: Till, party: Party) -> list[Record]:
    await till.run_due()
    return await till.service.db.fetch(
        "SELECT recipient, subject, body_text FROM notice WHERE account_id = $1 ORDER BY id", party.merchant_id
    )


class TestOfAPayment:
    async def test_when_it_succeeds_and_once(self, till: Till) -> None:
        shop = await till.service.open_account(name="Harbour Books")
        payment = await till.create(shop)
        await till.pay(payment, DECLINED)
        assert await _mail(till, shop) == []
        await till.pay(payment)
        [receipt] = await _mail(till, shop)
        assert (receipt["recipient"], receipt["subject"]) == (
            "ada@example.com", "Your receipt from Harbour Books: £49.99",
        )  # fmt: skip
        for part in ("Two books", "order-1", payment["payment_reference"], payment["checkout_url"]):
            assert part in receipt["body_text"]
        page = await till.service.client.get(payment["checkout_url"])
        assert "Payment received" in page.text

    async def test_every_refund_has_its_own(self, till: Till) -> None:
        shop = await till.service.open_account(name="Harbour Books")
        await till.pay(await till.create(shop, "another", customer_email="bob@example.com"))
        payment = await till.create(shop)
        await till.pay(payment)
        for fields in ({"amount": 9.99}, {}):
            assert (await till.refund(shop, payment, **fields)).status_code == 200
        part, rest = [mail for mail in await _mail(till, shop) if "refund" in mail["subject"]]
        assert [part["subject"], rest["subject"]] == [
            "Your refund from Harbour Books: £9.99", "Your refund from Harbour Books: £40.00",
        ]  # fmt: skip
        assert "part of your payment" in part["body_text"]
        assert "part of your payment" not in rest["body_text"]

    async def test_nobody_whose_address_is_not_known(self, till: Till) -> None:
        shop = await till.service.open_account()
        reply = await till.service.send(
            shop, "POST", "/payment-links", {"amount": 25, "currency": "GBP", "details": "A workshop"}
        )
        link = reply.json()["data"]["payment_link"]
        reference = await till.service.db.fetchval("SELECT reference FROM payment_link WHERE id = $1", link["id"])
        assert (await till.ops_pay(reference)).status_code == 200
        assert await _mail(till, shop) == []
        assert await till.service.db.fetchval("SELECT count(*) FROM notice") == 0


@pytest.mark.parametrize(
    "point", ["fan_out.before_commit", "fan_out.after_commit", "notice.claimed", "notice.sent", "notice.sent:2"]
)
async def test_a_worker_that_dies_loses_none(urls: Urls, mailhost: Mailhost, point: str) -> None:
    """What was sent and not written down is sent again, under the same name."""
    async with running_service(urls, worker=False, smtp_url=mailhost.url) as service:
        shop = await service.open_account()
        await emit(service.db, shop, "transaction.succeeded", count=20)
        await _dies_at(service, mailhost, point)
        await service.db.execute("UPDATE notice SET lease_until = clock_timestamp() WHERE lease_until IS NOT NULL")
        async with running_service(urls, like=service) as successor:
            await run_jobs(successor)
        assert await service.db.fetchval("SELECT count(*) FROM notice WHERE status = 'sent'") == 20
        names = {str(message_from_bytes(mail, policy=policy.default)["Message-ID"]) for mail in mailhost.received}
        assert len(names) == 20
        again = len(mailhost.received) - len(names)
        assert (again > 0) == point.startswith("notice.sent")


async def _dies_at(service: Service, mailhost: Mailhost, point: str) -> None:
    settings = service.settings
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("BURSAR_")},
        "BURSAR_ENV": "test",
        "BURSAR_BASE_URL": settings.base_url,
        "BURSAR_DATABASE_URL": settings.database_url.get_secret_value(),
        "BURSAR_KEY_PEPPER": settings.key_pepper.hex(),
        "BURSAR_SEAL_PUBLIC_KEY": settings.seal_public_key.hex(),
        "BURSAR_SEAL_PRIVATE_KEY": settings.seal_private_key.hex(),
        "BURSAR_SMTP_URL": mailhost.url.get_secret_value(),
        "BURSAR_CRASHPOINT": point,
        "BURSAR_LOG_LEVEL": "error",
    }
    worker = await asyncio.create_subprocess_exec(sys.executable, "-m", "bursar", "worker", env=environment)
    async with asyncio.timeout(60):
        assert await worker.wait() < 0
