"""Notices to people: written with what they tell of, sent by SMTP or kept, shown in a test instance's mailbox."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from email import message_from_bytes
from typing import Any

import pytest
from pydantic import SecretStr

from bursar.core.errors import NotFound
from bursar.db.clock import instance_now
from bursar.db.embedded import Urls
from bursar.features.notices import service as notices
from bursar.features.notices.service import Template
from tests.events.factories import advance, run_jobs
from tests.support.service import Party, Service, running_service

FACTS: dict[str, dict[str, str]] = {
    "receipt": {"business": "Shop", "amount": "£10.50", "details": "Books", "identifier": "order-1",
                "reference": "PAY-1", "date": "1 January 2025", "url": "https://pay.example/r/1"},
    "verification_link": {"business": "Shop", "url": "https://pay.example/v/1", "expires": "2 January 2025"},
    "payout_paid": {"business": "Shop", "amount": "£10.50", "last4": "9911", "reference": "PO-1", "date": "today"},
    "payout_failed": {"business": "Shop", "amount": "£10.50", "last4": "9911", "reference": "PO-1", "why": "closed"},
    "dispute_opened": {"business": "Shop", "amount": "£10.50", "case_id": "DP-1", "reference": "PAY-1",
                       "why": "fraudulent", "deadline": "9 January 2025"},
    "webhook_disabled": {"business": "Shop", "url": "https://shop.example/hook", "why": "It answered 410 Gone."},
}  # fmt: skip


class Mailhost(socketserver.StreamRequestHandler):
    """A few lines of SMTP."""

    received: list[bytes]
    refuse: str = ""

    def handle(self) -> None:
        host: Any = self.server
        self._say("220 ready")
        while line := self.rfile.readline().strip().upper():
            if line.startswith(b"RCPT") and host.refuse:
                self._say(host.refuse)
            elif line == b"DATA":
                self._say("354 go on")
                content = b""
                while (part := self.rfile.readline()) != b".\r\n":
                    content += part
                host.received.append(content)
                self._say("250 taken")
            elif line == b"QUIT":
                self._say("221 bye")
                return
            else:
                self._say("250 ok")

    def _say(self, text: str) -> None:
        self.wfile.write(text.encode() + b"\r\n")


@pytest.fixture
def mailhost() -> Iterator[Any]:
    host: Any = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Mailhost)
    host.daemon_threads = True
    host.received, host.refuse = [], ""
    threading.Thread(target=host.serve_forever, args=(0.05,), daemon=True).start()
    yield host
    host.shutdown()
    host.server_close()


async def _tell(service: Service, party: Party, template: Template = "payout_paid") -> bool:
    async with service.db.transaction() as db:
        now = await instance_now(db)
        facts = {name: value for name, value in FACTS[template].items() if name != "business"}
        return await notices.to_merchant(db, party.merchant_id, template, facts, now, service.settings)


async def _states(service: Service) -> list[tuple[str, int]]:
    rows = await service.db.fetch("SELECT status, attempts FROM notice ORDER BY id")
    return [(row["status"], row["attempts"]) for row in rows]


def _smtp(mailhost: Any) -> SecretStr:
    return SecretStr(f"smtp://127.0.0.1:{mailhost.server_address[1]}")


class TestTemplates:
    @pytest.mark.parametrize("template", FACTS)
    def test_every_one_is_complete_and_escapes_what_it_is_given(self, template: Template) -> None:
        hostile = {**FACTS[template], "business": "<b>Shop</b> & Sons\r\nBcc: all@example.com"}
        subject, text, html = notices.written(template, hostile)
        assert "\n" not in subject
        assert "{" not in subject + text
        assert "<b>" not in html
        assert "\r" not in subject


class TestSending:
    async def test_by_smtp_in_text_and_html(self, urls: Urls, mailhost: Any) -> None:
        async with running_service(urls, smtp_url=_smtp(mailhost), mail_from="Pay <pay@example.com>") as service:
            merchant = await service.open_account(email="owner@shop.example")
            assert await _tell(service, merchant)
            await run_jobs(service)
            [content] = mailhost.received
            message = message_from_bytes(content)
            assert message["To"] == "owner@shop.example"
            assert message["From"] == "Pay <pay@example.com>"
            assert message["Subject"] == "Payout of £10.50 to A merchant" or "=?utf-8?" in message["Subject"]
            assert message["Message-ID"]
            assert [part.get_content_type() for part in message.walk()][1:] == ["text/plain", "text/html"]
            assert await _states(service) == [("sent", 1)]

    async def test_a_mailhost_that_is_away_is_tried_again_on_the_schedule(self, urls: Urls, mailhost: Any) -> None:
        mailhost.refuse = "451 try later"
        async with running_service(urls, smtp_url=_smtp(mailhost)) as service:
            merchant = await service.open_account()
            await _tell(service, merchant)
            await run_jobs(service)
            assert await _states(service) == [("pending", 1)]
            await advance(service, 5)
            assert await _states(service) == [("pending", 2)]
            mailhost.refuse = ""
            await advance(service, 300)
            assert await _states(service) == [("sent", 3)]
            assert len(mailhost.received) == 1

    async def test_a_refused_recipient_is_final(self, urls: Urls, mailhost: Any) -> None:
        mailhost.refuse = "550 no such user"
        async with running_service(urls, smtp_url=_smtp(mailhost)) as service:
            merchant = await service.open_account()
            await _tell(service, merchant)
            await run_jobs(service)
            assert await _states(service) == [("failed", 1)]


class TestWhoIsTold:
    async def test_a_platform_that_speaks_for_itself_keeps_the_service_silent(self, service: Service) -> None:
        platform = await service.open_account("platform")
        merchant = await service.open_account(platform=platform.merchant_id)
        assert await _tell(service, merchant)
        await service.db.execute(
            "UPDATE account SET connect_email_sms_handle = 'platform' WHERE account_id = $1", merchant.merchant_id
        )
        assert not await _tell(service, merchant)
        assert await _tell(service, platform)


class TestMailbox:
    async def test_what_would_have_been_sent(self, service: Service) -> None:
        merchant = await service.open_account(name="<script>alert(1)</script> Ltd", email="owner@shop.example")
        await _tell(service, merchant, "dispute_opened")
        async with service.db.transaction() as db:
            now = await instance_now(db)
            await notices.by_sms(db, merchant.merchant_id, "+447700900123", "payout_paid", FACTS["payout_paid"], now)
        await run_jobs(service)
        assert await _states(service) == [("kept", 1), ("kept", 1)]
        page = await service.client.get("/mailbox")
        assert page.status_code == 200
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert "<script" not in page.text
        assert "owner@shop.example" in page.text
        number = await service.db.fetchval("SELECT min(id) FROM notice")
        message = await service.client.get(f"/mailbox/{number}")
        assert "DP-1" in message.text
        assert "<script" not in message.text
        assert (await service.client.get("/mailbox.css")).headers["content-type"].startswith("text/css")
        assert (await service.client.get("/mailbox/999999")).json()["error"]["code"] in (
            "endpoint_not_found",
            NotFound.code,
        )

    async def test_a_live_instance_has_none(self, urls: Urls) -> None:
        async with running_service(urls, env="live", worker=False) as service:
            assert (await service.client.get("/mailbox")).status_code == 404
