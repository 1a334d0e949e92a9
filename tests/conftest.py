"""Fixtures that every kind of test shares: a server, a fresh database, a pool as the service's role."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from bursar.db.embedded import Urls
from bursar.db.pool import Database
from tests.support import databases
from tests.support.service import Service, running_service

# How often the fault suite tries each property: `pytest -m hypothesis --hypothesis-profile=full`.
for tier, examples in {"push": 500, "full": 10_000, "soak": 100_000}.items():
    settings.register_profile(tier, max_examples=examples, deadline=None)


@pytest.fixture(scope="session")
def server() -> Iterator[databases.TestServer]:
    directory = Path(tempfile.mkdtemp(prefix="bursar-test-"))  # not pytest's, which only its own user may enter
    try:
        with databases.running_server(directory) as running:
            asyncio.run(databases.make_template(running.urls))
            yield running
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def urls(server: databases.TestServer) -> Iterator[Urls]:
    """A fresh, migrated database of this test's own."""
    with databases.fresh_database(server.urls) as fresh:
        yield fresh


@pytest.fixture
async def db(urls: Urls) -> AsyncIterator[Database]:
    """A pool on the fresh database, as the role that the service has."""
    opened = await Database.open(urls.service, size=8, name="test")
    yield opened
    await opened.close()


@pytest.fixture
async def service(urls: Urls) -> AsyncIterator[Service]:
    """A running test instance with an empty database of its own."""
    async with running_service(urls) as running:
        yield running
