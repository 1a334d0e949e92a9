"""Taking a payment in a real browser: declined, tried again, asked by the bank, paid, receipt, back at the shop.

With BURSAR_SCREENSHOTS set to a directory, each page is also photographed there.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qs

import pytest
from axe_playwright_python.async_playwright import Axe  # type: ignore[import-untyped]
from playwright.async_api import Page, async_playwright, expect

from bursar.db.embedded import Urls
from tests.events.receivers import Receiver, receiver
from tests.support.service import Party
from tests.support.till import DECLINED, OK, Till, order, running_till

# None: Playwright's own; `make browser` installs one or the other.
CHROMIUM = os.environ.get("BURSAR_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
SCREENSHOTS = os.environ.get("BURSAR_SCREENSHOTS")
SIZES = {"phone": (390, 844), "desk": (1280, 900)}


@pytest.fixture
async def till(urls: Urls) -> AsyncIterator[Till]:
    async with running_till(urls, processor_timeout_s=5.0) as running:
        yield running


@asynccontextmanager
async def browsing(size: str = "phone", *, script: bool = False, scheme: str = "light") -> AsyncIterator[Page]:
    """A fresh browser. Whatever a page's own policy blocks fails the test."""
    width, height = SIZES[size]
    complaints: list[str] = []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        context = await browser.new_context(
            viewport={"width": width, "height": height},
            java_script_enabled=script,
            color_scheme=scheme,  # type: ignore[arg-type]
        )
        page = await context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.set_default_timeout(10_000)
        yield page
        await browser.close()
    assert [text for text in complaints if "Security Policy" in text] == []


async def photograph(page: Page, name: str) -> None:
    if SCREENSHOTS:
        await page.screenshot(path=f"{SCREENSHOTS}/checkout-{name}.png", full_page=True)


async def press_pay(page: Page) -> None:
    await page.get_by_role("button", name=re.compile("[Pp]ay £")).click()
    await expect(page.get_by_label("Card number")).to_be_visible()


async def enter(page: Page, card: str) -> None:
    """The customer types a card in, on the processor's page."""
    for label, text in (
        ("Card number", card),
        ("Expiry date", "12/34"),
        ("CVC", "123"),
        ("Name on card", "Ada Lovelace"),
    ):
        await page.get_by_label(label).fill(text)
    await page.get_by_role("button", name=re.compile("^Pay ")).click()


async def whole_way(till: Till, page: Page, payment: dict[str, Any], size: str) -> None:
    """Declined, back at the checkout, tried again, asked by the bank, paid; what the customer sees on the way."""
    await page.goto(payment["checkout_url"])
    await expect(page.get_by_role("heading", name="Harbour Books")).to_be_visible()
    await expect(page.get_by_text("£49.99").first).to_be_visible()
    await photograph(page, f"{size}-1-open")
    await press_pay(page)
    assert page.url.startswith(till.service.settings.simulator_public_url)  # another origin has the card
    await enter(page, DECLINED)
    await expect(page.get_by_role("alert")).to_contain_text("declined")
    await page.get_by_role("link", name=re.compile("^Back to")).click()
    await page.wait_for_url("**/return")
    await expect(page.get_by_role("alert")).to_contain_text("The card was declined")
    await photograph(page, f"{size}-2-declined")
    await press_pay(page)
    await enter(page, "4000002760003184")
    await expect(page.get_by_role("heading", name="Is this you?")).to_be_visible()
    await page.get_by_role("button", name="Yes, approve the payment").click()
    await page.wait_for_url("**/return")
    await expect(page.get_by_role("heading", name="Payment received")).to_be_visible()
    for text in (payment["payment_reference"], "order-1", "•••• 3184"):
        await expect(page.get_by_text(text)).to_be_visible()
    await photograph(page, f"{size}-3-paid")
    await expect(page.get_by_role("link", name="Return to shop.example")).to_have_attribute(
        "href", "http://shop.example/paid"
    )


def verify_webhook(request: Any, secret: str) -> dict[str, Any]:
    """As a receiver does: timestamp and HMAC over the unmodified body."""
    message = request.headers["x-service-timestamp"].encode() + b"." + request.body
    expected = hmac.new(secret.encode(), message, hashlib.sha256).hexdigest()
    assert hmac.compare_digest(request.headers["x-service-signature"], expected)
    body: dict[str, Any] = json.loads(request.body)
    return body


def verify_ipn(request: Any, secret: str) -> dict[str, str]:
    fields = {name: values[0] for name, values in parse_qs(request.body.decode(), strict_parsing=True).items()}
    signed = fields["data[amount]"] + fields["identifier"]
    expected = hmac.new(secret.encode(), signed.encode(), hashlib.sha256).hexdigest().upper()
    assert hmac.compare_digest(fields["signature"], expected)
    return fields


async def registered(till: Till, party: Party, sink: Receiver) -> str:
    reply = await till.service.ops(
        "POST", f"/accounts/{party.merchant_id}/webhooks", {"url": sink.url("/ok/hook"), "events": ["transaction.*"]}
    )
    secret: str = reply.json()["data"]["secret"]
    return secret


@pytest.mark.parametrize("size", SIZES)
async def test_take_a_payment(till: Till, size: str) -> None:
    merchant = await till.service.open_account(name="Harbour Books")
    async with receiver() as sink:
        secret = await registered(till, merchant, sink)
        payment = await till.create(merchant, ipn_url=sink.url("/ok/ipn"))
        async with browsing(size) as page:
            await whole_way(till, page, payment, size)
        events = [verify_webhook(request, secret) for request in await sink.wait_for(3, "/ok/hook")]
        told = [verify_ipn(request, merchant.secret_key) for request in await sink.wait_for(2, "/ok/ipn")]
    assert sorted(event["type"] for event in events) == [
        "transaction.created", "transaction.failed", "transaction.succeeded",
    ]  # fmt: skip
    assert sorted(fields["status"] for fields in told) == ["failed", "success"]
    assert {fields["data[payment_trx]"] for fields in told} == {payment["payment_reference"]}
    shown = await till.transaction(merchant, payment)
    assert (shown["status"], shown["amount"], shown["fee_amount"], shown["net_amount"]) == (
        "succeeded", 49.99, 0.95, 49.04,
    )  # fmt: skip
    [wallet] = (await till.service.get(merchant, "/balances")).json()["data"]["wallets"]
    assert (wallet["available"], wallet["pending_funds"], wallet["standard_available"]) == (49.04, 49.04, 0)
    rows = (await till.service.get(merchant, "/wallet-transactions")).json()["data"]
    assert [(row["type"], row["category"], row["amount"]) for row in rows] == [
        ("debit", "fee", 0.95), ("credit", "payment", 49.99),
    ]  # fmt: skip
    refund = await till.refund(merchant, payment, amount=25)
    assert refund.json()["data"]["transaction"]["refunded_amount"] == 25
    [wallet] = (await till.service.get(merchant, "/balances")).json()["data"]["wallets"]
    assert wallet["available"] == 24.04
    await till.books_agree()


async def test_take_a_payment_for_a_platform(till: Till) -> None:
    """A connected account with an application fee: the platform's key signs the IPN, and half the fee goes back."""
    platform = await till.service.open_account("platform", name="Market Hall")
    shop = await till.service.open_account(platform=platform.account_id, name="Harbour Books")
    async with receiver() as sink:
        secret = await registered(till, platform, sink)
        body = order(connect_application_fee=4, ipn_url=sink.url("/ok/ipn"))
        reply = await till.service.send(platform, "POST", "/hosted-payments", body, Service_Account=shop.account_id)
        payment = reply.json()["data"]
        async with browsing() as page:
            await whole_way(till, page, payment, "connected")
        events = [verify_webhook(request, secret) for request in await sink.wait_for(3, "/ok/hook")]
        told = [verify_ipn(request, platform.secret_key) for request in await sink.wait_for(2, "/ok/ipn")]
    assert {event["account_id"] for event in events} == {shop.account_id}
    assert sorted(fields["status"] for fields in told) == ["failed", "success"]
    assert await till.available(shop) == Decimal("45.04")  # 49.99 less 0.95 and 4.00
    assert await till.available(platform) == Decimal("4.00")
    refund = await till.service.send(
        platform, "POST", f"/transactions/{payment['id']}/refund", {"amount": 25}, Service_Account=shop.account_id
    )
    assert refund.json()["data"]["refund"]["application_fee_reversed"] == 2
    assert await till.available(platform) == Decimal("2.00")
    assert await till.available(shop) == Decimal("22.04")
    await till.books_agree()


async def test_by_keyboard(till: Till) -> None:
    merchant = await till.service.open_account(name="Harbour Books")
    payment = await till.create(merchant)
    async with browsing("desk", script=True) as page:
        await page.goto(payment["checkout_url"])
        await page.keyboard.press("Tab")
        await expect(page.get_by_role("button", name="Pay £49.99")).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(page.get_by_label("Card number")).to_be_visible()
        await enter(page, OK)
        await expect(page.get_by_role("heading", name="Payment received")).to_be_visible()


async def test_a_link_is_paid(till: Till) -> None:
    merchant = await till.service.open_account(name="Harbour Books")
    body = {"amount": 25, "currency": "GBP", "details": "Deposit for the reading room"}
    link = (await till.service.send(merchant, "POST", "/payment-links", body)).json()["data"]["payment_link"]
    async with browsing() as page:
        await page.goto(link["checkout_url"] + "/print")
        drawn = page.get_by_role("img", name="QR code of this payment link")
        await expect(drawn).to_be_visible()
        await photograph(page, "link-print")
        await page.goto(link["checkout_url"])
        await photograph(page, "link")
        await press_pay(page)
        await enter(page, OK)
        await expect(page.get_by_role("heading", name="Payment received")).to_be_visible()
        await page.goto(link["checkout_url"])
        await expect(page.get_by_role("heading", name="This link has been paid")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_everybody_can_use_the_pages(till: Till, scheme: str) -> None:
    """axe finds nothing wrong with any page, in either colour scheme."""
    merchant = await till.service.open_account(name="Harbour Books")
    body = {"amount": 25, "currency": "GBP", "details": "Deposit"}
    link = (await till.service.send(merchant, "POST", "/payment-links", body)).json()["data"]["payment_link"]
    opened = await till.create(merchant, "open")
    declined = await till.create(merchant, "declined")
    await till.pay(declined, DECLINED)
    paid = await till.create(merchant, "paid")
    await till.pay(paid)
    processing = await till.create(merchant, "processing")
    await till.fault("payment", "late_callback")
    await till.pay(processing)
    cancelled = await till.create(merchant, "cancelled")
    await till.cancel(merchant, cancelled)
    addresses = [payment["checkout_url"] for payment in (opened, declined, paid, cancelled)]
    addresses += [processing["checkout_url"] + "/return", link["checkout_url"], link["checkout_url"] + "/print"]
    async with browsing("phone", script=True, scheme=scheme) as page:
        for number, address in enumerate(addresses):
            await page.goto(address)
            await page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
            await photograph(page, f"{scheme}-{number}")
            found = await Axe().run(page)
            assert found.violations_count == 0, found.generate_report()


async def test_nothing_but_the_page_is_loaded(till: Till) -> None:
    """One round trip, under 60 KB in all."""
    merchant = await till.service.open_account(name="Harbour Books")
    payment = await till.create(merchant)
    async with browsing() as page:
        loaded: list[str] = []
        page.on("request", lambda request: loaded.append(request.url))
        reply = await page.goto(payment["checkout_url"])
        assert reply is not None
        assert len(await reply.body()) < 60_000
        assert [url for url in loaded if not url.endswith("/favicon.ico")] == [payment["checkout_url"]]
