"""A real browser: the system's, or else Playwright's own; `make browser` installs one or the other."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator

import pytest_asyncio
from playwright.async_api import Browser, async_playwright

from tests.support.shared import service, shared_urls

__all__ = ["browser", "service", "shared_urls"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    found = os.environ.get("BURSAR_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    async with async_playwright() as playwright:
        opened = await playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield opened
        await opened.close()
