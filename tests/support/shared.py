"""One running instance for all tests of a module, for tests that each work on accounts of their own.

Such a module says `pytestmark = pytest.mark.asyncio(loop_scope="module")`; its package's conftest imports `service`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from bursar.db.embedded import Urls
from tests.support import databases
from tests.support.service import Service, running_service


@pytest.fixture(scope="module")
def shared_urls(server: databases.TestServer) -> Iterator[Urls]:
    with databases.fresh_database(server.urls) as fresh:
        yield fresh


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def service(shared_urls: Urls) -> AsyncIterator[Service]:
    async with running_service(shared_urls) as running:
        yield running
