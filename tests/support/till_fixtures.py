"""A running instance with its simulator per module; tests open accounts of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from bursar.db.embedded import Urls
from tests.support import databases
from tests.support.service import Party
from tests.support.till import Till, running_till


@pytest.fixture(scope="module")
def module_urls(server: databases.TestServer) -> Iterator[Urls]:
    with databases.fresh_database(server.urls) as fresh:
        yield fresh


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def till(module_urls: Urls) -> AsyncIterator[Till]:
    async with running_till(module_urls) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def merchant(till: Till) -> Party:
    return await till.service.open_account()


@pytest_asyncio.fixture(loop_scope="module")
async def platform(till: Till) -> Party:
    return await till.service.open_account("platform")


@pytest_asyncio.fixture(loop_scope="module")
async def shop(till: Till, platform: Party) -> Party:
    """A merchant connected to the platform."""
    return await till.service.open_account(platform=platform.account_id)
