"""What several of these tests start from."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator

import pytest

from bursar.db.embedded import Urls
from bursar.db.roles import create_database, drop_database, with_database
from tests.support.databases import TestServer


@pytest.fixture
def empty(server: TestServer) -> Iterator[Urls]:
    """A database that has not been migrated."""
    name = f"empty_{secrets.token_hex(4)}"
    asyncio.run(create_database(server.urls.owner, name))
    urls = server.urls
    yield Urls(*(with_database(url, name) for url in (urls.admin, urls.owner, urls.service)))
    asyncio.run(drop_database(server.urls.owner, name))
