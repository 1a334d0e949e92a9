"""The simulator's pages in a real browser: with and without script, on a phone and on a desk, by keyboard alone.

With BURSAR_SCREENSHOTS set to a directory, each page is also photographed there.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from axe_playwright_python.async_playwright import Axe  # type: ignore[import-untyped]
from playwright.async_api import Page, async_playwright, expect

from bursar.db.embedded import Urls
from tests.processors.running import Rig, running_simulator

# None: Playwright's own; `make browser` installs one or the other.
CHROMIUM = os.environ.get("BURSAR_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
SCREENSHOTS = os.environ.get("BURSAR_SCREENSHOTS")
SIZES = {"phone": (390, 844), "desk": (1280, 800)}


@pytest.fixture
async def rig(urls: Urls) -> AsyncIterator[Rig]:
    async with running_simulator(urls) as running:
        yield running


@asynccontextmanager
async def browsing(size: str = "phone", *, script: bool = False) -> AsyncIterator[Page]:
    """A fresh browser. Whatever the page's own policy blocks fails the test."""
    width, height = SIZES[size]
    complaints: list[str] = []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = await browser.new_page(viewport={"width": width, "height": height}, java_script_enabled=script)
        page.on("console", lambda message: complaints.append(message.text))
        page.set_default_timeout(10_000)
        yield page
        await browser.close()
    assert [text for text in complaints if "Security Policy" in text] == []


async def photograph(page: Page, name: str) -> None:
    if SCREENSHOTS:
        await page.screenshot(path=f"{SCREENSHOTS}/{name}.png", full_page=True)


async def choose(page: Page, card: str) -> None:
    """One tap on the panel of test cards."""
    button = page.get_by_role("button", name=card)
    if not await button.is_visible():
        await page.get_by_text("more cards").click()
    await button.click()
    await expect(page.get_by_label("Name on card")).to_have_value("Test Customer")


async def submit(page: Page) -> None:
    await page.get_by_role("button", name=re.compile("^Pay ")).click()


async def back_at_the_shop(page: Page) -> None:
    await page.wait_for_url("**/returned")
    await expect(page.get_by_role("heading", name="Back at the shop")).to_be_visible()


@pytest.mark.parametrize("size", SIZES)
async def test_decline_retry_challenge_paid(rig: Rig, size: str) -> None:
    """The whole way, without script: declined, tried again, refused and then approved at the bank, back at the shop."""
    started = await rig.start(2_550)
    async with browsing(size) as page:
        await page.goto(started.page_url)
        await expect(page.get_by_role("heading", name="Harbour Theatre")).to_contain_text("£25.50")
        await photograph(page, f"{size}-1-card")
        await choose(page, "4000 0000 0000 9995")
        await photograph(page, f"{size}-2-filled")
        await submit(page)
        await expect(page.get_by_role("alert")).to_contain_text("not have enough money")
        await expect(page.get_by_label("Card number")).to_have_value("")
        await photograph(page, f"{size}-3-declined")
        for answer in ("No, it was not me", "Yes, approve the payment"):
            await choose(page, "4000 0027 6000 3184")
            await submit(page)
            await expect(page.get_by_role("heading", name="Is this you?")).to_be_visible()
            await photograph(page, f"{size}-4-challenge")
            await page.get_by_role("button", name=answer).click()
            if answer.startswith("No"):
                await expect(page.get_by_role("alert")).to_contain_text("could not confirm")
        await back_at_the_shop(page)
    state = await rig.processor.confirm(started.reference)
    assert [attempt.error.code if attempt.error else None for attempt in state.attempts] == [
        "card_declined",
        "authentication_failed",
        None,
    ]
    assert await rig.hear() == ["payment.failed", "payment.failed", "payment.succeeded"]


async def test_by_hand_and_keyboard(rig: Rig) -> None:
    """Typed in, with Tab between the fields and Enter to pay; script makes no difference."""
    started = await rig.start()
    async with browsing("desk", script=True) as page:
        await page.goto(started.page_url)
        await page.get_by_label("Card number").focus()
        for text in ("4242 4242-42424242", "1/31", "9876", "Ada Lovelace"):
            await page.keyboard.type(text)
            await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        await back_at_the_shop(page)
    state = await rig.processor.confirm(started.reference)
    assert (state.status, state.attempts[0].holder, state.attempts[0].last4) == ("succeeded", "Ada Lovelace", "4242")


async def test_mistakes_are_explained(rig: Rig) -> None:
    started = await rig.start()
    async with browsing() as page:
        await page.goto(started.page_url)
        await submit(page)
        for words in ("Enter the card number", "Enter the expiry date", "digits of the CVC", "Enter the name"):
            await expect(page.get_by_text(words)).to_be_visible()
        await expect(page.get_by_label("Card number")).to_be_focused()
        await photograph(page, "phone-5-empty")
        typed = {"Card number": "5555 5555 5555 4444", "Expiry date": "12/19", "CVC": "12", "Name on card": "Ada"}
        for label, text in typed.items():
            await page.get_by_label(label).fill(text)
        await submit(page)
        for words in ("Please do not enter a real card", "This date has passed", "digits of the CVC"):
            await expect(page.get_by_text(words)).to_be_visible()
        await expect(page.get_by_label("Card number")).to_have_value("")
        await expect(page.get_by_label("Name on card")).to_have_value("Ada")
        await photograph(page, "phone-6-mistakes")
        assert "5555" not in await page.content()
        assert "5555" not in page.url
        await page.get_by_label("Card number").fill("4242 4242 4242 4241")
        await submit(page)
        await expect(page.get_by_text("a digit is missing or wrong")).to_be_visible()
    assert (await rig.processor.confirm(started.reference)).attempts == ()


async def test_a_form_sent_twice_is_one_attempt(rig: Rig) -> None:
    started = await rig.start()
    async with browsing() as page:
        await page.goto(started.page_url)
        await choose(page, "4000 0000 0000 0002")
        ticket = await page.locator("main form[method=post] input[name=ticket]").get_attribute("value")
        form: dict[str, str | float | bool] = {
            "number": "4000000000000002",
            "expiry": "12/40",
            "cvc": "123",
            "holder": "Ada",
            "ticket": ticket or "",
        }
        for _ in range(3):
            await page.request.post(started.page_url, form=form)
        assert len((await rig.processor.confirm(started.reference)).attempts) == 1
        forged = await page.request.post(started.page_url, form={**form, "ticket": "a.b"})
        foreign = await page.request.post(started.page_url, form=form, headers={"Sec-Fetch-Site": "cross-site"})
        assert (forged.status, foreign.status) == (403, 403)


async def test_pages_of_payments_that_are_over(rig: Rig) -> None:
    started, paid = await rig.start(), await rig.paid()
    await rig.processor.cancel(started.reference)
    async with browsing() as page:
        await page.goto(started.page_url)
        await expect(page.get_by_role("heading", name="This payment was cancelled")).to_be_visible()
        await photograph(page, "phone-7-cancelled")
        await page.get_by_role("link", name="Return to Harbour Theatre").click()
        await back_at_the_shop(page)
        await page.goto((await rig.processor.confirm(paid)).page_url)
        await back_at_the_shop(page)
        waiting = await rig.start()
        await rig.fault("payment", "late_callback")
        await page.goto(waiting.page_url)
        await choose(page, "4242 4242 4242 4242")
        await submit(page)
        await back_at_the_shop(page)
        missing = await page.goto(f"{rig.settings.simulator_public_url}/pay/nothing")
        assert missing is not None
        assert missing.status == 404
        await photograph(page, "phone-8-missing")


async def test_trust(rig: Rig) -> None:
    """Headers that a card page needs, no third party, one round trip, and nothing that axe complains of."""
    started = await rig.start()
    asked: list[str] = []
    async with browsing("phone", script=True) as page:
        page.on("request", lambda request: asked.append(request.url))
        reply = await page.goto(started.page_url)
        assert reply is not None
        assert [url for url in asked if not url.endswith("/favicon.ico")] == [started.page_url]
        assert len(await reply.body()) < 30_000
        policy = reply.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src" not in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert (reply.headers["referrer-policy"], reply.headers["cache-control"]) == ("no-referrer", "no-store")
        assert await page.evaluate("document.documentElement.scrollWidth") == 390
        problems = [await axe_problems(page)]
        await submit(page)
        problems.append(await axe_problems(page))
        await choose(page, "4000 0027 6000 3184")
        await submit(page)
        problems.append(await axe_problems(page))
        assert problems == [[], [], []]


async def axe_problems(page: Page) -> list[str]:
    # The page's policy forbids script, which is what axe is; the checker is let in by the developer's door.
    results = await Axe().run(page)
    return [f"{found['id']}: {found['help']}" for found in results.response["violations"]]
