"""The checkout pages over plain HTTP: what each state shows, and what protects them."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.support.service import Party
from tests.support.till import DECLINED, Till

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def page(till: Till, payment: dict[str, Any], more: str = "") -> httpx.Response:
    return await till.service.client.get(payment["checkout_url"] + more)


class TestWhatEachStateShows:
    async def test_open(self, till: Till, merchant: Party) -> None:
        payment = await till.create(merchant, amount=1234.5, details="Ada & Co <script>alert(1)</script>")
        shown = await page(till, payment)
        assert shown.status_code == 200
        assert "£1,234.50" in shown.text
        assert "A merchant" in shown.text
        assert "Ada &amp; Co &lt;script&gt;" in shown.text
        assert f'action="/pay/{payment["checkout_url"].rpartition("/")[2]}/start"' in shown.text
        assert "shop.example" in shown.text
        assert "4242 4242 4242 4242" in shown.text  # the panel of a test instance

    @pytest.mark.parametrize(("currency", "expected"), [("EUR", "€10.00"), ("USD", "$10.00"), ("GBP", "£10.00")])
    async def test_amounts(self, till: Till, merchant: Party, currency: str, expected: str) -> None:
        payment = await till.create(merchant, currency=currency, amount=10)
        assert expected in (await page(till, payment)).text

    async def test_no_card_field(self, till: Till, merchant: Party) -> None:
        shown = await page(till, await till.create(merchant))
        assert "<input" not in shown.text
        assert "<script" not in shown.text
        assert "<iframe" not in shown.text

    async def test_declined(self, till: Till, merchant: Party) -> None:
        payment = await till.create(merchant)
        await till.pay(payment, DECLINED)
        for more in ("", "/return"):
            shown = await page(till, payment, more)
            assert "The card was declined." in shown.text
            assert "Try again: pay £49.99" in shown.text

    async def test_processing(self, till: Till, merchant: Party) -> None:
        payment = await till.create(merchant)
        await till.fault("payment", "late_callback")
        await till.pay(payment)
        shown = await page(till, payment, "/return")
        assert "Your bank is deciding" in shown.text
        assert shown.headers["refresh"] == "3"

    async def test_paid(self, till: Till, merchant: Party) -> None:
        payment = await till.create(merchant)
        await till.pay(payment)
        for more in ("", "/return"):
            shown = await page(till, payment, more)
            assert shown.status_code == 200
            for text in ("Payment received", "£49.99", payment["payment_reference"], "•••• 4242", "order-1"):
                assert text in shown.text
            assert 'href="http://shop.example/paid"' in shown.text
            assert "/start" not in shown.text

    async def test_refunded(self, till: Till, merchant: Party) -> None:
        await till.pay(await till.create(merchant, "other"))
        payment = await till.create(merchant)
        await till.pay(payment)
        await till.refund(merchant, payment, amount=20)
        assert "£20.00" in (await page(till, payment)).text
        await till.refund(merchant, payment)
        assert "Payment refunded" in (await page(till, payment)).text

    async def test_cancelled_and_expired(self, till: Till, merchant: Party) -> None:
        payment = await till.create(merchant)
        await till.cancel(merchant, payment)
        shown = await page(till, payment)
        assert (shown.status_code, "was cancelled" in shown.text) == (410, True)
        assert 'href="http://shop.example/cancelled"' in shown.text
        other = await till.create(merchant, expires_in=1800)
        await till.advance(minutes=31)
        shown = await page(till, other)
        assert (shown.status_code, "has expired" in shown.text) == (410, True)

    async def test_too_many_attempts(self, till: Till, merchant: Party) -> None:
        payment = await till.create(merchant)
        for _ in range(10):
            await till.pay(payment, DECLINED)
        await till.run_due()
        assert "too many attempts" in (await page(till, payment)).text


class TestTheWayToTheProcessor:
    async def test_there_and_there_again(self, till: Till, merchant: Party) -> None:
        payment = await till.create(merchant)
        replies = [await till.service.client.post(payment["checkout_url"] + "/start") for _ in range(2)]
        assert {reply.status_code for reply in replies} == {303}
        assert len({reply.headers["location"] for reply in replies}) == 1

    async def test_it_cannot_be_reached(self, till: Till, merchant: Party) -> None:
        payment = await till.create(merchant)
        await till.order_start_fault()
        reply = await till.service.client.post(payment["checkout_url"] + "/start", follow_redirects=True)
        assert "We could not open the payment page" in reply.text
        assert "Pay £49.99" in reply.text
        again = await till.service.client.post(payment["checkout_url"] + "/start")
        assert again.headers["location"].startswith(till.service.settings.simulator_public_url)

    async def test_a_shop_that_may_no_longer_take_payments(self, till: Till, merchant: Party) -> None:
        payment = await till.create(merchant)
        await till.service.ops("PATCH", f"/accounts/{merchant.merchant_id}", {"payments_paused": True})
        reply = await till.service.client.post(payment["checkout_url"] + "/start", follow_redirects=True)
        assert "cannot take payments just now" in reply.text

    async def test_a_return_is_no_proof(self, till: Till, merchant: Party) -> None:
        payment = await till.create(merchant)
        assert (await page(till, payment, "/return")).status_code == 200
        await till.service.client.post(payment["checkout_url"] + "/start")
        shown = await page(till, payment, "/return")
        assert "Pay £49.99" in shown.text
        assert await till.status(merchant, payment) == "pending"


class TestProtection:
    async def test_headers(self, till: Till, merchant: Party) -> None:
        shown = await page(till, await till.create(merchant))
        assert shown.headers["cache-control"] == "no-store"
        assert shown.headers["referrer-policy"] == "no-referrer"
        assert shown.headers["x-robots-tag"] == "noindex, nofollow"
        policy = shown.headers["content-security-policy"]
        for part in ("default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "style-src 'sha256-"):
            assert part in policy
        assert "unsafe" not in policy

    async def test_it_comes_whole_and_small(self, till: Till, merchant: Party) -> None:
        shown = await page(till, await till.create(merchant))
        assert len(shown.content) < 30_000
        assert "<link" not in shown.text

    async def test_links_cannot_be_guessed_or_moved(self, till: Till, merchant: Party) -> None:
        payment = await till.create(merchant)
        link = payment["checkout_url"]
        spoiled = link[:-3] + ("AAA" if not link.endswith("AAA") else "BBB")
        for address in (spoiled, link.replace("/pay/", "/verify/"), link.rpartition("/")[0] + "/1"):
            assert (await till.service.client.get(address)).status_code == 404
        assert (await till.service.client.post(spoiled + "/start")).status_code == 404
        assert (await till.service.client.get(spoiled + "/return")).status_code == 404

    async def test_another_site_cannot_press_the_button(self, till: Till, merchant: Party) -> None:
        payment = await till.create(merchant)
        reply = await till.service.client.post(
            payment["checkout_url"] + "/start", headers={"Sec-Fetch-Site": "cross-site"}
        )
        assert reply.status_code == 403
        row = await till.service.db.fetchrow("SELECT started_at FROM payment WHERE id = $1", payment["id"])
        assert row is not None
        assert row["started_at"] is None
