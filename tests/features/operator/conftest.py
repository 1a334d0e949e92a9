"""One running instance per module; tests that need sweeps of their own start another."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from bursar.db.embedded import Urls
from tests.support import databases
from tests.support.service import Service, running_service


@pytest.fixture(scope="module")
def module_urls(server: databases.TestServer) -> Iterator[Urls]:
    with databases.fresh_database(server.urls) as fresh:
        yield fresh


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bursar(module_urls: Urls) -> AsyncIterator[Service]:
    async with running_service(module_urls) as running:
        yield running
