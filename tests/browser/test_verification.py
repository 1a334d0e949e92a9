"""The verification page in a real browser: without script, on a phone, on a desk, and for those who cannot see it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from axe_playwright_python.async_playwright import Axe  # type: ignore[import-untyped]
from playwright.async_api import Browser, Error, Page, expect

from tests.features.bank_accounts.factory import link as link_bank_account
from tests.features.connected_accounts.factory import connect, events_of
from tests.features.identity.factory import LINKS, new_link, outcome_of, path_of, picture
from tests.support.service import Party, Service

pytestmark = pytest.mark.asyncio(loop_scope="module")

PHONE = {"width": 390, "height": 844}
DESK = {"width": 1280, "height": 900}


@asynccontextmanager
async def opened(browser: Browser, *, script: bool = False, **options: Any) -> AsyncIterator[Page]:
    """A page that fails the test if the content policy was ever broken, or anything else was asked of the network."""
    context = await browser.new_context(java_script_enabled=script, **{"viewport": PHONE, **options})
    page = await context.new_page()
    problems: list[str] = []
    page.on("console", lambda said: problems.append(said.text) if said.type in ("error", "warning") else None)
    page.on("requestfailed", lambda request: problems.append(request.url))
    try:
        yield page
    finally:
        await context.close()
    assert [text for text in problems if "status of 4" not in text] == []


async def fill(page: Page, outcome: str = "verified", selfie: bytes | None = None) -> None:
    await page.get_by_label("Passport").check()
    await page.get_by_label("Picture of the document").set_input_files(
        {"name": "passport.jpg", "mimeType": "image/jpeg", "buffer": picture()}
    )
    await page.get_by_label("Picture of your face").set_input_files(
        {"name": "me.png", "mimeType": "image/png", "buffer": picture("PNG") if selfie is None else selfie}
    )
    await page.check(f"input[name=outcome][value={outcome}]")
    await page.get_by_label("These pictures are mine").check()


async def waiting_link(service: Service) -> tuple[Party, dict[str, Any]]:
    merchant = await service.open_account(kyc_status="pending", name="Harbour Coffee Ltd")
    return merchant, await new_link(service, merchant, return_url="https://shop.example/back")


class TestVerification:
    @pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
    async def test_a_merchant_is_verified_and_activated(
        self, service: Service, browser: Browser, size: dict[str, int]
    ) -> None:
        platform = await service.open_account("platform")
        account = await connect(service, platform)
        acting = {"Service_Account": account["id"]}
        link = await new_link(service, platform, return_url="https://shop.example/back", headers=acting)
        async with opened(browser, viewport=size) as page:
            reply = await page.goto(service.base_url + path_of(link))
            assert reply is not None
            assert reply.status == 200
            await fill(page)
            await page.get_by_role("button", name="Send for checking").click()
            assert "checking" in await page.locator("h1").inner_text()
            await outcome_of(service, platform, link, **acting)
            await page.get_by_role("link", name="Look again").click()
            assert await page.locator("h1").inner_text() == "Your identity is confirmed"
            back = page.get_by_role("link", name="Continue to shop.example")
            assert await back.get_attribute("href") == "https://shop.example/back"
        await link_bank_account(service, platform, **acting)
        types = [event["type"] for event in await events_of(service, account)]
        assert types[-1] == "connected_account.activated"

    async def test_the_page_comes_forward_by_itself(self, service: Service, browser: Browser) -> None:
        merchant, link = await waiting_link(service)
        async with opened(browser) as page:
            await page.goto(service.base_url + path_of(link))
            await page.get_by_role("button", name="Send sample pictures instead").click()
            await outcome_of(service, merchant, link)
            await page.get_by_text("Your identity is confirmed").wait_for(timeout=20_000)

    async def test_a_bad_picture_is_explained_and_sent_again(self, service: Service, browser: Browser) -> None:
        merchant, link = await waiting_link(service)
        async with opened(browser) as page:
            await page.goto(service.base_url + path_of(link))
            await fill(page, selfie=b"this is no picture")
            await page.get_by_role("button", name="Send for checking").click()
            await expect(page).to_have_title(re.compile("^Error: "))
            await page.get_by_role("alert").get_by_role("link").click()
            assert page.url.endswith("#selfie")
            await fill(page, outcome="requires_input")
            await page.get_by_role("button", name="Send for checking").click()
            await outcome_of(service, merchant, link)
            await expect(page.get_by_role("alert")).to_contain_text("We need new pictures", timeout=20_000)

    async def test_what_the_browser_itself_asks_for(self, service: Service, browser: Browser) -> None:
        merchant, link = await waiting_link(service)
        async with opened(browser) as page:
            await page.goto(service.base_url + path_of(link))
            await page.get_by_role("button", name="Send for checking").click()
            assert await page.locator("h1").inner_text() == "Confirm your identity"
        shown = await service.get(merchant, f"{LINKS}/{link['id']}")
        assert shown.json()["data"]["verification_link"]["status"] == "opened", "nothing was sent"

    async def test_names_are_text_and_never_markup(self, service: Service, browser: Browser) -> None:
        name = "<img src=x onerror=alert(1)><script>alert(2)</script>"
        merchant = await service.open_account(kyc_status="pending", name=name)
        link = await new_link(service, merchant)
        said: list[str] = []
        async with opened(browser, script=True) as page:
            page.on("dialog", lambda dialog: said.append(dialog.message))
            await page.goto(service.base_url + path_of(link))
            assert name in await page.locator(".lead").inner_text()
        assert said == []

    @pytest.mark.parametrize("look", [{"viewport": PHONE}, {"viewport": DESK}, {"color_scheme": "dark"}],
                             ids=["phone", "desk", "dark"])  # fmt: skip
    async def test_everybody_can_use_it(self, service: Service, browser: Browser, look: dict[str, Any]) -> None:
        merchant, link = await waiting_link(service)
        async with opened(browser, script=True, **look) as page:
            url = service.base_url + path_of(link)
            await page.goto(url)
            await _accessible(page)
            await fill(page, outcome="requires_input", selfie=b"none")
            await page.get_by_role("button", name="Send for checking").click()
            await expect(page).to_have_title(re.compile("^Error: "))
            await _accessible(page)
            await page.get_by_role("button", name="Send sample pictures instead").click()
            await expect(page.get_by_role("status")).to_be_visible()
            await _accessible(page)
            await outcome_of(service, merchant, link)
            await expect(page.get_by_role("heading", name="Your identity is confirmed")).to_be_visible(timeout=20_000)
            await _accessible(page)
            await page.goto(service.base_url + "/verify/unknown")
            await _accessible(page)

    async def test_nothing_is_wider_than_the_smallest_phone(self, service: Service, browser: Browser) -> None:
        name = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft"
        merchant = await service.open_account(kyc_status="pending", name=name)
        link = await new_link(service, merchant)
        async with opened(browser, script=True, viewport={"width": 320, "height": 640}) as page:
            await page.goto(service.base_url + path_of(link))
            assert await page.evaluate("document.documentElement.scrollWidth") <= 320


async def _accessible(page: Page) -> None:
    """A page that waits for an outcome reads itself again, and then so does this."""
    for _ in range(5):
        try:
            found = await Axe().run(page)
        except Error as error:
            if "context was destroyed" not in str(error):
                raise
            await page.wait_for_load_state()
        else:
            assert found.violations_count == 0, found.generate_report()
            return
    pytest.fail("the page never stood still")
