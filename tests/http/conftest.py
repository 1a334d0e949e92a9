"""One running instance per module, with the tests' own routes. Tests open accounts of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from io import StringIO

import pytest
import pytest_asyncio
import structlog

from bursar import logs
from bursar.db.embedded import Urls
from bursar.settings import Settings
from tests.support import databases
from tests.support.routes import Till, declared_routes
from tests.support.service import Party, Service, running_service


@pytest.fixture(scope="module")
def module_urls(server: databases.TestServer) -> Iterator[Urls]:
    with databases.fresh_database(server.urls) as fresh:
        yield fresh


@pytest.fixture(scope="module")
def till() -> Till:
    return Till()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bursar(module_urls: Urls, till: Till) -> AsyncIterator[Service]:
    """A running instance that the tests of a module share."""
    async with running_service(module_urls, routes=declared_routes(till), trusted_proxies="127.0.0.1/32") as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def merchant(bursar: Service) -> Party:
    return await bursar.open_account()


@pytest_asyncio.fixture(loop_scope="module")
async def platform(bursar: Service) -> Party:
    return await bursar.open_account("platform")


@pytest_asyncio.fixture(loop_scope="module")
async def shop(bursar: Service, platform: Party) -> Party:
    """A merchant connected to the platform."""
    return await bursar.open_account(platform=platform.account_id)


@pytest.fixture(scope="module", autouse=True)
def log_lines() -> Iterator[StringIO]:
    """What the service logs, as it does in production: one JSON object a line."""
    written = StringIO()
    logs.configure(Settings(log_level="debug"), "test", written)
    yield written
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()
