"""/payment-links: one address, one amount, one payment or several."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import httpx
import pytest

from tests.support.service import Party
from tests.support.till import DECLINED, OK, Till

pytestmark = pytest.mark.asyncio(loop_scope="module")

BODY = {"amount": 25, "currency": "GBP", "details": "Deposit"}


def code(reply: httpx.Response) -> str | None:
    body = reply.json()
    return None if body["success"] else str(body["error"]["code"])


async def made(till: Till, merchant: Party, **fields: Any) -> dict[str, Any]:
    reply = await till.service.send(merchant, "POST", "/payment-links", {**BODY, **fields})
    assert reply.status_code == 201, reply.text
    link: dict[str, Any] = reply.json()["data"]["payment_link"]
    return link


async def shown(till: Till, merchant: Party, link: dict[str, Any]) -> dict[str, Any]:
    data: dict[str, Any] = (await till.service.get(merchant, f"/payment-links/{link['id']}")).json()["data"]
    found: dict[str, Any] = data["payment_link"]
    return found


async def pressed(till: Till, link: dict[str, Any]) -> str:
    """A customer opens the link and presses Pay; where that leads."""
    reply = await till.service.client.post(link["checkout_url"] + "/start")
    assert reply.status_code == 303
    return reply.headers["location"]


class TestCreate:
    async def test_the_least(self, till: Till, merchant: Party) -> None:
        link = await made(till, merchant)
        assert (link["amount"], link["currency"], link["status"]) == (25, "GBP", "pending")
        assert link["checkout_url"].startswith(f"{till.service.base_url}/link/")
        assert (link["max_payments"], link["payments"], link["expires_at"]) == (1, 0, None)
        assert await shown(till, merchant, link) == link
        listed = (await till.service.get(merchant, "/payment-links?status=pending")).json()
        assert listed["data"] == [link]
        assert listed["meta"]["pagination"]["total"] == 1

    async def test_what_it_refuses(self, till: Till, merchant: Party) -> None:
        for fields, expected in (
            ({"amount": 0}, "validation_error"),
            ({"currency": "CHF"}, "currency_not_supported"),
            ({"details": ""}, "validation_error"),
            ({"success_url": "javascript:1"}, "validation_error"),
            ({"max_payments": 0}, "validation_error"),
            ({"expires_at": "2020-01-01T00:00:00Z"}, "validation_error"),
            ({"connect_application_fee": 1}, "invalid_connect_application_fee"),
        ):
            assert code(await till.service.send(merchant, "POST", "/payment-links", {**BODY, **fields})) == expected

    async def test_somebody_else_s(self, till: Till, merchant: Party) -> None:
        link = await made(till, merchant)
        other = await till.service.open_account()
        assert code(await till.service.get(other, f"/payment-links/{link['id']}")) == "not_found"
        change = await till.service.send(other, "PATCH", f"/payment-links/{link['id']}", {"status": "cancelled"})
        assert code(change) == "not_found"


class TestPaying:
    async def test_once(self, till: Till, merchant: Party) -> None:
        link = await made(till, merchant, ipn_url="http://127.0.0.1:9/ipn")
        assert (await till.ops_pay(link["reference"], DECLINED)).json()["data"]["status"] == "failed"
        assert (await till.ops_pay(link["reference"])).json()["data"]["status"] == "succeeded"
        after = await shown(till, merchant, link)
        assert (after["status"], after["payments"]) == ("paid", 1)
        [transaction] = (await till.service.get(merchant, "/transactions")).json()["data"]
        assert (transaction["payment_type"], transaction["identifier"]) == ("link", f"{link['reference']}-1")
        told = ["transaction.created", "transaction.failed", "transaction.succeeded", "payment_link.paid"]
        assert await till.events(merchant) == told
        assert await till.ipns(merchant) == ["transaction.failed", "transaction.succeeded"]
        assert await till.available(merchant) == Decimal("24.42")
        assert (await till.ops_pay(link["reference"])).status_code == 404  # there is nothing more to pay
        assert (await pressed(till, link)).startswith("/link/")

    async def test_customers_share_the_last_checkout(self, till: Till, merchant: Party) -> None:
        link = await made(till, merchant)
        addresses = await asyncio.gather(*(pressed(till, link) for _ in range(8)))
        assert len(set(addresses)) == 1  # one page at the processor: one of them can pay
        count = await till.service.db.fetchval("SELECT count(*) FROM payment WHERE link_id = $1", link["id"])
        assert count == 1

    async def test_several_times(self, till: Till, merchant: Party) -> None:
        link = await made(till, merchant, max_payments=3)
        for number in (1, 2, 3):
            assert (await till.ops_pay(link["reference"])).json()["data"]["status"] == "succeeded"
            after = await shown(till, merchant, link)
            assert (after["payments"], after["status"]) == (number, "paid" if number == 3 else "pending")
        assert (await till.ops_pay(link["reference"])).status_code == 404

    async def test_never_more_often_than_it_may(self, till: Till, merchant: Party) -> None:
        link = await made(till, merchant, max_payments=3)
        replies = await asyncio.gather(*(till.ops_pay(link["reference"]) for _ in range(9)))
        await till.run_due()
        assert (await shown(till, merchant, link))["payments"] <= 3
        paid = await till.service.db.fetchval(
            "SELECT count(*) FROM payment WHERE link_id = $1 AND status = 'succeeded'", link["id"]
        )
        assert paid == (await shown(till, merchant, link))["payments"]
        assert {reply.status_code for reply in replies} <= {200, 404, 409}
        await till.books_agree()

    async def test_with_a_platform_s_fee(self, till: Till, platform: Party, shop: Party) -> None:
        reply = await till.service.send(
            platform, "POST", "/payment-links", {**BODY, "connect_application_fee": 2}, Service_Account=shop.account_id
        )
        link = reply.json()["data"]["payment_link"]
        assert link["connect_application_fee"] == 2
        await till.ops_pay(link["reference"])
        assert await till.available(platform) == Decimal("2.00")
        assert await till.available(shop) == Decimal("22.42")


class TestEnding:
    async def test_cancelled(self, till: Till, merchant: Party) -> None:
        link = await made(till, merchant)
        await pressed(till, link)
        path = f"/payment-links/{link['id']}"
        reply = await till.service.send(merchant, "PATCH", path, {"status": "cancelled"})
        assert reply.json()["data"]["payment_link"]["status"] == "cancelled"
        assert (await till.ops_pay(link["reference"])).status_code == 404
        await till.run_due()
        [transaction] = (await till.service.get(merchant, "/transactions")).json()["data"]
        assert transaction["status"] == "cancelled"
        again = await till.service.send(merchant, "PATCH", path, {"status": "cancelled"})
        assert code(again) == "not_cancelable"
        other = await till.service.send(merchant, "PATCH", path, {"status": "paid"})
        assert code(other) == "validation_error"

    async def test_cancelled_while_somebody_pays(self, till: Till, merchant: Party) -> None:
        """Whoever comes first at the processor: the payment is paid or cancelled, never both."""
        for _ in range(6):
            link = await made(till, merchant)
            await pressed(till, link)
            change = till.service.send(merchant, "PATCH", f"/payment-links/{link['id']}", {"status": "cancelled"})
            await asyncio.gather(change, till.ops_pay(link["reference"]))
            await till.run_due()
            row = await till.service.db.fetchrow(
                "SELECT status, (SELECT payments FROM payment_link WHERE id = link_id) AS payments"
                " FROM payment WHERE link_id = $1",
                link["id"],
            )
            assert row is not None
            assert (row["status"], row["payments"]) in (("succeeded", 1), ("cancelled", 0))
        await till.books_agree()

    async def test_cancelled_while_others_open_it(self, till: Till, merchant: Party) -> None:
        """A payment that is made while the link is being cancelled is closed with it, and nobody waits in a circle."""
        for _ in range(4):
            link = await made(till, merchant, max_payments=4)
            change = till.service.send(merchant, "PATCH", f"/payment-links/{link['id']}", {"status": "cancelled"})
            pays = [till.ops_pay(link["reference"]) for _ in range(10)]
            replies = await asyncio.gather(*pays[:5], change, *pays[5:])
            assert {reply.status_code for reply in replies} <= {200, 404, 409, 422}
            await till.run_due()
            after = await shown(till, merchant, link)
            left = await till.service.db.fetch("SELECT status FROM payment WHERE link_id = $1", link["id"])
            assert {row["status"] for row in left} <= {"succeeded", "cancelled"}
            assert after["payments"] == [row["status"] for row in left].count("succeeded") <= 4
        await till.books_agree()

    async def test_expired(self, till: Till, merchant: Party) -> None:
        now = (await till.service.ops("GET", "/clock")).json()["data"]["now"]
        year = int(now[:4])
        link = await made(till, merchant, expires_at=f"{year + 1}-01-01T00:00:00Z")
        await till.advance(days=400)
        assert (await shown(till, merchant, link))["status"] == "expired"
        assert (await pressed(till, link)).startswith("/link/")


class TestPages:
    async def test_it_shows_what_is_paid(self, till: Till, merchant: Party) -> None:
        link = await made(till, merchant, details="Deposit <b>for</b> the room")
        page = await till.service.client.get(link["checkout_url"])
        assert page.status_code == 200
        assert "£25.00" in page.text
        assert "A merchant" in page.text
        assert "Deposit &lt;b&gt;for&lt;/b&gt; the room" in page.text

    async def test_the_code_and_the_view_to_print(self, till: Till, merchant: Party) -> None:
        link = await made(till, merchant)
        drawn = await till.service.client.get(link["qr_url"])
        assert (drawn.status_code, drawn.headers["content-type"]) == (200, "image/svg+xml")
        assert drawn.text.startswith("<svg")
        printed = await till.service.client.get(link["checkout_url"] + "/print")
        assert "/qr.svg" in printed.text

    async def test_what_is_no_link(self, till: Till, merchant: Party) -> None:
        payment = await till.create(merchant)
        token = payment["checkout_url"].rpartition("/")[2]
        for path in (f"/link/{token}", "/link/nothing", "/link/nothing/print", "/link/nothing/qr.svg"):
            assert (await till.service.client.get(path)).status_code == 404
        assert (await till.service.client.post("/link/nothing/start")).status_code == 404

    async def test_the_states(self, till: Till, merchant: Party) -> None:
        link = await made(till, merchant)
        await till.ops_pay(link["reference"], OK)
        assert "has been paid" in (await till.service.client.get(link["checkout_url"])).text
        other = await made(till, merchant)
        await till.service.send(merchant, "PATCH", f"/payment-links/{other['id']}", {"status": "cancelled"})
        page = await till.service.client.get(other["checkout_url"])
        assert (page.status_code, "withdrawn" in page.text) == (410, True)
