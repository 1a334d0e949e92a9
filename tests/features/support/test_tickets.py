"""/support/tickets, and what staff answer."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.features.connected_accounts.factory import connect, events_of
from tests.features.uploads.corpus import image
from tests.support import signing
from tests.support.service import Party, Service, new_key

pytestmark = pytest.mark.asyncio(loop_scope="module")

TICKETS = "/support/tickets"
NEW = {"subject": "Where is my payout?", "body": "It was due on Monday.", "category": "payouts", "priority": "high",
       "related": {"type": "payout", "id": 1042}}  # fmt: skip


async def open_ticket(service: Service, party: Party, **changes: Any) -> dict[str, Any]:
    headers = changes.pop("headers", {})
    reply = await service.send(party, "POST", TICKETS, {**NEW, **changes}, **headers)
    assert reply.status_code == 201, reply.text
    ticket: dict[str, Any] = reply.json()["data"]["ticket"]
    return ticket


async def write(service: Service, party: Party, ticket: dict[str, Any], body: str = "Any news?") -> httpx.Response:
    return await service.send(party, "POST", f"{TICKETS}/{ticket['id']}/messages", {"body": body})


class TestTickets:
    async def test_a_ticket_with_its_first_message(self, service: Service) -> None:
        merchant = await service.open_account()
        ticket = await open_ticket(service, merchant)
        assert ticket["ticket_ref"] == f"TKT-{ticket['id']}"
        assert (ticket["status"], ticket["category"], ticket["priority"]) == ("open", "payouts", "high")
        assert ticket["related"] == {"type": "payout", "id": "1042"}
        [message] = ticket["messages"]
        assert (message["author"], message["body"], message["attachments"]) == ("merchant", "It was due on Monday.", [])
        for name in (ticket["id"], ticket["ticket_ref"]):
            shown = await service.get(merchant, f"{TICKETS}/{name}")
            assert shown.json()["data"]["ticket"] == ticket
        listed = await service.get(merchant, f"{TICKETS}?status=open&category=payouts&priority=high&q=payout")
        assert listed.json()["data"] == [ticket]
        [event] = await events_of(service, {"id": merchant.account_id}, "support.ticket_created")
        assert event["data"]["ticket"] == ticket

    async def test_defaults_and_the_platform_as_author(self, service: Service) -> None:
        platform = await service.open_account("platform")
        account = await connect(service, platform)
        reply = await service.send(
            platform, "POST", TICKETS, {"subject": "Help", "message": "Please."}, Service_Account=account["id"]
        )
        ticket = reply.json()["data"]["ticket"]
        assert (ticket["category"], ticket["priority"], ticket["related"]) == ("other", "normal", None)
        assert ticket["messages"][0]["author"] == "platform"
        assert ticket["account_id"] == account["id"]
        assert (await service.get(platform, TICKETS)).json()["data"] == []

    async def test_bad_fields_are_named(self, service: Service) -> None:
        merchant = await service.open_account()
        bad: dict[str, Any] = {
            "subject": 7,
            "body": ["x"],
            "category": "gossip",
            "priority": "now",
            "related": {"type": "X!"},
        }
        reply = await service.send(merchant, "POST", TICKETS, bad)
        assert reply.status_code == 422
        assert {name.partition(".")[0] for name in reply.json()["error"]["details"]} == set(bad)

    async def test_back_and_forth(self, service: Service) -> None:
        merchant = await service.open_account()
        ticket = await open_ticket(service, merchant)
        answers = f"/support-tickets/{ticket['id']}/messages"

        async def status() -> str:
            shown: str = (await service.get(merchant, f"{TICKETS}/{ticket['id']}")).json()["data"]["ticket"]["status"]
            return shown

        await write(service, merchant, ticket)
        assert await status() == "open"
        reply = await service.ops("POST", answers, {"body": "Which account?"})
        assert reply.status_code == 201
        assert await status() == "waiting_merchant"
        await write(service, merchant, ticket, "The first one.")
        assert await status() == "waiting_staff"
        await service.ops("POST", answers, {"body": "It left today.", "status": "resolved"})
        assert await status() == "resolved"
        await write(service, merchant, ticket, "It did not arrive.")
        assert await status() == "open", "a reply opens a resolved ticket again"
        closed = await service.send(merchant, "POST", f"{TICKETS}/{ticket['ticket_ref']}/close", {})
        shown = closed.json()["data"]["ticket"]
        assert shown["status"] == "closed"
        assert [message["author"] for message in shown["messages"]] == [
            "merchant", "merchant", "staff", "merchant", "staff", "merchant",
        ]  # fmt: skip
        for reply in (
            await write(service, merchant, ticket),
            await service.send(merchant, "POST", f"{TICKETS}/{ticket['id']}/close", {}),
            await service.ops("POST", answers, {"body": "Hello?"}),
        ):
            assert (reply.status_code, reply.json()["error"]["code"]) == (409, "ticket_closed")
        types = [event["type"] for event in await events_of(service, {"id": merchant.account_id})]
        assert types == ["support.ticket_created", *["support.ticket_replied"] * 4, "support.ticket_resolved",
                         "support.ticket_replied"]  # fmt: skip

    async def test_attachments(self, service: Service) -> None:
        merchant = await service.open_account()
        ticket = await open_ticket(service, merchant)

        async def attach(name: str, content: bytes) -> httpx.Response:
            form = httpx.Request("POST", "http://x", data={"body": "See here."},
                                 files=[("attachments[]", (name, content, "image/png"))])  # fmt: skip
            raw = form.read()
            headers = {
                "Authorization": f"Bearer {merchant.secret_key}",
                "Idempotency-Key": new_key(),
                "Content-Type": form.headers["Content-Type"],
                **signing.legacy(merchant.secret_key, raw),
            }
            return await service.client.post(f"/v2{TICKETS}/{ticket['id']}/messages", content=raw, headers=headers)

        reply = await attach("screen.png", image("PNG"))
        assert reply.status_code == 201, reply.text
        [document] = reply.json()["data"]["ticket"]["messages"][1]["attachments"]
        assert (document["name"], document["mime"]) == ("screen.png", "image/png")
        staff = (await service.ops("GET", f"/support-tickets/{ticket['id']}")).json()["data"]["ticket"]
        assert staff["messages"][1]["attachments"] == [document]
        assert (await attach("screen.png", b"no image")).json()["error"]["code"] == "unsupported_file_type"
        reply = await attach("screen.png", b"x" * (10 * 1024 * 1024 + 1))
        assert reply.json()["error"]["code"] == "file_too_large"

    async def test_another_accounts_ticket_is_not_found(self, service: Service) -> None:
        merchant, other = await service.open_account(), await service.open_account()
        ticket = await open_ticket(service, merchant)
        for reply in (
            await service.get(other, f"{TICKETS}/{ticket['id']}"),
            await write(service, other, ticket),
            await service.send(other, "POST", f"{TICKETS}/{ticket['id']}/close", {}),
            await service.get(merchant, f"{TICKETS}/TKT-x"),
            await service.ops("POST", "/support-tickets/1/messages", {"body": "x"}),
            await service.ops("GET", "/support-tickets/999999"),
        ):
            assert (reply.status_code, reply.json()["error"]["code"]) == (404, "ticket_not_found")
        listed = await service.ops(
            "GET", f"/support-tickets?merchant={merchant.merchant_id}&status=open&category=payouts"
        )
        assert [row["id"] for row in listed.json()["data"]] == [ticket["id"]]

    async def test_the_sandbox_has_one_in_every_state(self, service: Service) -> None:
        merchant = await service.open_account()
        listed = await service.get(merchant.test_secret_key, f"/sandbox/v2{TICKETS}?sort=id")
        assert [ticket["status"] for ticket in listed.json()["data"]] == [
            "open", "waiting_merchant", "waiting_staff", "resolved", "closed",
        ]  # fmt: skip
        body = json.dumps({"body": "x"}).encode()
        path = f"/sandbox/v2{TICKETS}/4/messages"
        reply = await service.send(merchant.test_secret_key, "POST", path, body)
        assert reply.json()["data"]["ticket"]["status"] == "open"
