"""Notices to people: made from events, once each, sent by SMTP or kept, shown in a test instance's mailbox."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from datetime import UTC, datetime
from email import message_from_bytes, policy

import pytest

from bursar.db.embedded import Urls
from bursar.db.pool import Database, Record
from bursar.events import outbox
from bursar.events.catalogue import CATALOGUE, MAIL_TO
from bursar.events.fanout import fan_out
from bursar.events.outbox import new_event
from bursar.features.notices.letters import LETTERS, Told
from bursar.features.notices.writing import written
from tests.events.factories import CAUSE, advance, run_jobs
from tests.features.connected_accounts.factory import connect
from tests.features.deliveries.factory import DATA, emit
from tests.support.mailhost import Mailhost
from tests.support.service import Party, Service, running_service, test_settings

# What a person must be able to read in each, subject first.
SAYS = {
    "transaction.succeeded": [
        "Your receipt from Shop: £10.50",
        "Two books",
        "order-1",
        "PAY-1",
        "13:00\u00a0BST",
        "/pay/",
    ],
    "transaction.refunded": ["Your refund from Shop: £4.00", "part of your payment", "£10.50", "RFD-1001"],
    "payout.paid": ["Paid out: £1,250.00 to Shop", "July"],
    "payout.failed": ["A payout of £1,250.00 to Shop could not be made", "The bank account is closed."],
    "payout.returned": ["A payout of £1,250.00 to Shop came back", "back in your balance"],
    "disburse.payout.failed": ["A payout of £1,250.00 to Shop could not be made"],
    "disburse.payout.returned": ["A payout of £1,250.00 to Shop came back"],
    "dispute.created": [
        "Shop: a payment of £10.50 is disputed",
        "Product not received",
        "1 December 2025, 00:00\u00a0GMT",
    ],
    "dispute.deadline_near": ["Shop: answer dispute DISPUTE-1001 by 1 December 2025, 00:00 GMT"],
    "dispute.won": ["Shop: dispute DISPUTE-1001 was decided for you", "£10.50"],
    "dispute.lost": ["Shop: dispute DISPUTE-1001 was decided for the customer"],
    "kyc.link_created": [
        "Shop: please confirm who you are",
        "https://pay.example/verify/1",
        "2 July 2025, 13:00\u00a0BST",
    ],
    "webhook.disabled": ["Shop: a webhook was switched off", "https://shop.example/hook", "410"],
}


async def _notices(service: Service) -> list[Record]:
    return await service.db.fetch("SELECT * FROM notice ORDER BY id")


async def _states(service: Service) -> list[tuple[str, int]]:
    return [(row["status"], row["attempts"]) for row in await _notices(service)]


class TestLetters:
    def test_there_is_one_for_whoever_gets_mail(self) -> None:
        assert set(LETTERS) == set(MAIL_TO) == set(SAYS)
        assert set(MAIL_TO) <= set(CATALOGUE)

    @pytest.mark.parametrize("type_", LETTERS)
    def test_says_what_happened_in_text_and_on_the_page(self, type_: str, urls: Urls) -> None:
        told = Told(1001, "Shop", DATA[type_], datetime(2025, 7, 1, 12, tzinfo=UTC), test_settings(urls))
        letter = LETTERS[type_](told)
        text = written(letter, "Shop", MAIL_TO[type_], "you@example.com", told.settings)
        subject, *parts = SAYS[type_]
        assert text.subject == subject
        for part in parts:
            assert part in text.text
            assert part in text.html
        assert "you@example.com" in text.text
        assert not re.search(r"\n{3}|\{|None", text.text)

    @pytest.mark.parametrize("type_", LETTERS)
    def test_what_others_wrote_stays_text(self, type_: str, urls: Urls) -> None:
        hostile = '<b>Shop</b> & Sons\r\nBcc: all@example.com"><script>'
        told = Told(1001, hostile, DATA[type_], datetime(2025, 7, 1, 12, tzinfo=UTC), test_settings(urls))
        letter = LETTERS[type_](told)
        letter = replace(letter, facts=(*letter.facts, ("For", hostile)), after=hostile)
        text = written(letter, hostile, MAIL_TO[type_], "you@example.com", told.settings)
        assert "\n" not in text.subject
        assert "\r" not in text.subject
        assert "<b>" not in text.html
        assert "<script" not in text.html


class TestMaking:
    async def test_the_event_is_all_it_takes(self, service: Service) -> None:
        merchant = await service.open_account(name="Shop", email="owner@shop.example")
        for type_ in MAIL_TO:
            await emit(service.db, merchant, type_)
        await run_jobs(service)
        told = {"customer": "ada@example.com", "merchant": "owner@shop.example"}
        made = [(row["template"], row["recipient"], row["subject"], row["status"]) for row in await _notices(service)]
        assert made == [(type_, told[to], SAYS[type_][0], "kept") for type_, to in MAIL_TO.items()]

    async def test_once_however_often_it_is_tried(self, urls: Urls) -> None:
        """Several workers at once, and an event that is fanned out a second time, as after a lost answer."""
        async with running_service(urls, worker=False) as service:
            merchant = await service.open_account()
            await emit(service.db, merchant, count=150)
            while sum(await asyncio.gather(*(fan_out(service.db) for _ in range(3)))):
                pass
            owner = await Database.open(urls.owner, size=1, name="test owner")
            await owner.execute("UPDATE event SET fanned_out = false")
            await owner.close()
            while await fan_out(service.db):
                pass
            assert len(await _notices(service)) == 150

    async def test_what_cannot_be_written_holds_up_nobody(self, service: Service) -> None:
        merchant = await service.open_account()
        now = await service.db.fetchval("SELECT instance_now()")
        bad = new_event(
            "payout.paid", {"payout": {}}, account=(merchant.merchant_id, merchant.account_id), platform=None, now=now,
            cause=CAUSE,
        )  # fmt: skip
        await outbox.write(service.db, [bad])
        await emit(service.db, merchant)
        await run_jobs(service)
        assert await _states(service) == [("failed", 1), ("kept", 1)]
        assert (await service.client.get("/mailbox")).status_code == 200


class TestSending:
    async def test_by_smtp_in_text_and_html(self, urls: Urls, mailhost: Mailhost) -> None:
        async with running_service(urls, smtp_url=mailhost.url, mail_from="Pay <pay@example.com>") as service:
            merchant = await service.open_account(name="Shop", email="owner@shop.example")
            await emit(service.db, merchant)
            await run_jobs(service)
            [content] = mailhost.received
            message = message_from_bytes(content, policy=policy.default)
            assert message["To"] == "owner@shop.example"
            assert message["From"] == "Pay <pay@example.com>"
            assert message["Subject"] == "Paid out: £1,250.00 to Shop"
            [event_id] = [row["event_id"] for row in await _notices(service)]
            assert message["Message-ID"] == f"<{event_id}@127.0.0.1>"
            assert [part.get_content_type() for part in message.walk()][1:] == ["text/plain", "text/html"]
            [plain] = [part for part in message.walk() if part.get_content_type() == "text/plain"]
            assert "Sent by Pay to owner@shop.example" in plain.get_content()
            assert await _states(service) == [("sent", 1)]

    async def test_a_mailhost_that_is_away_is_tried_again_on_the_schedule(self, urls: Urls, mailhost: Mailhost) -> None:
        mailhost.refuse = "451 try later"
        async with running_service(urls, smtp_url=mailhost.url) as service:
            merchant = await service.open_account()
            await emit(service.db, merchant)
            await run_jobs(service)
            assert await _states(service) == [("pending", 1)]
            await advance(service, 5)
            assert await _states(service) == [("pending", 2)]
            mailhost.refuse = ""
            await advance(service, 300)
            assert await _states(service) == [("sent", 3)]
            assert len(mailhost.received) == 1

    async def test_a_refused_recipient_is_final(self, urls: Urls, mailhost: Mailhost) -> None:
        mailhost.refuse = "550 no such user"
        async with running_service(urls, smtp_url=mailhost.url) as service:
            merchant = await service.open_account()
            await emit(service.db, merchant)
            await run_jobs(service)
            assert await _states(service) == [("failed", 1)]

    async def test_what_a_worker_left_behind_is_sent_by_another(self, urls: Urls, mailhost: Mailhost) -> None:
        """Claimed and written, and then it died: when its lease is over, the same message goes out."""
        async with running_service(urls, worker=False, smtp_url=mailhost.url) as first:
            merchant = await first.open_account()
            await emit(first.db, merchant)
            await fan_out(first.db)
            await first.db.execute(
                "UPDATE notice SET lease_token = lease_token + 1, lease_until = clock_timestamp() + interval '1 hour'"
            )
            async with running_service(urls, like=first) as second:
                await first.db.execute("UPDATE notice SET lease_until = clock_timestamp() - interval '1 second'")
                await run_jobs(second)
            assert await _states(first) == [("sent", 1)]
            assert len(mailhost.received) == 1


class TestWhoIsTold:
    @pytest.fixture
    async def connected(self, service: Service) -> Party:
        platform = await service.open_account("platform")
        merchant = await service.open_account(platform=platform.merchant_id)
        await service.db.execute(
            "UPDATE account SET connect_email_sms_handle = 'platform' WHERE account_id = $1", merchant.merchant_id
        )
        return merchant

    async def test_not_a_merchant_whose_platform_speaks_to_it(self, service: Service, connected: Party) -> None:
        for type_, to in MAIL_TO.items():
            if to == "merchant":
                await emit(service.db, connected, type_)
        await run_jobs(service)
        assert await _notices(service) == []

    async def test_its_customers_all_the_same(self, service: Service, connected: Party) -> None:
        await emit(service.db, connected, "transaction.succeeded")
        await run_jobs(service)
        assert [row["recipient"] for row in await _notices(service)] == ["ada@example.com"]

    async def test_no_customers_where_that_is_switched_off(self, urls: Urls) -> None:
        async with running_service(urls, customer_notices=False) as service:
            merchant = await service.open_account(email="owner@shop.example")
            for type_ in ("transaction.succeeded", "transaction.refunded", "payout.paid"):
                await emit(service.db, merchant, type_)
            await run_jobs(service)
            assert [row["recipient"] for row in await _notices(service)] == ["owner@shop.example"]

    async def test_nobody_where_a_live_instance_cannot_send(self, urls: Urls) -> None:
        async with running_service(urls, env="live", worker=False) as service:
            merchant = await service.open_account()
            await emit(service.db, merchant)
            counts = await service.worker.run_due()
            assert counts["notices"] == 1
            assert await _notices(service) == []

    async def test_what_is_urgent_also_by_text_message(self, service: Service) -> None:
        platform = await service.open_account("platform")
        account = await connect(service, platform, business_company_name="Shop")
        merchant = replace(platform, account_id=account["id"], merchant_id=int(account["id"].rpartition("_")[2]))
        await emit(service.db, merchant, "payout.paid")
        await emit(service.db, merchant, "payout.failed")
        await run_jobs(service)
        sms = [row for row in await _notices(service) if row["channel"] == "sms"]
        assert [(row["recipient"], row["body_text"]) for row in sms] == [("+447700900123", SAYS["payout.failed"][0])]


class TestMailbox:
    async def test_what_would_have_been_sent(self, service: Service) -> None:
        merchant = await service.open_account(name="<script>alert(1)</script> Ltd", email="owner@shop.example")
        await emit(service.db, merchant, "dispute.created")
        await run_jobs(service)
        page = await service.client.get("/mailbox")
        assert page.status_code == 200
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert "<script" not in page.text
        assert "owner@shop.example" in page.text
        [number] = [row["id"] for row in await _notices(service)]
        for path in (f"/mailbox/{number}", f"/mailbox/{number}/html"):
            shown = await service.client.get(path)
            assert shown.status_code == 200
            assert "DISPUTE-1001" in shown.text
            assert "<script" not in shown.text
        assert "sandbox" in shown.headers["content-security-policy"]
        assert (await service.client.get("/mailbox/999999")).status_code == 404

    async def test_of_one_recipient_and_in_pages(self, service: Service) -> None:
        one, other = await service.open_account(email="one@shop.example"), await service.open_account()
        await emit(service.db, one, count=60)
        await emit(service.db, other)
        await run_jobs(service)
        page = (await service.client.get("/mailbox?to=one@shop.example")).text
        assert page.count("<li>") == 50
        older = re.search(r'href="(/mailbox\?before=[^"]+)"', page)
        assert older is not None
        rest = (await service.client.get(older[1].replace("&amp;", "&"))).text
        assert rest.count("<li>") == 10
        assert "Older messages" not in rest
        assert "Nothing for" in (await service.client.get("/mailbox?to=nobody@example.com")).text

    async def test_a_live_instance_has_none(self, urls: Urls) -> None:
        async with running_service(urls, env="live", worker=False) as service:
            assert (await service.client.get("/mailbox")).status_code == 404
