"""A real PostgreSQL for the tests: the embedded server, or any server that BURSAR_TEST_ADMIN_URL names.

One migrated template per test process; each test works on its own copy, so commits and locks are real.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit

from bursar.db.embedded import EmbeddedServer, Urls
from bursar.db.migrate import migrate
from bursar.db.roles import OWNER, SERVICE, create_database, drop_database, ensure_roles, with_database

TEMPLATE = f"bursar_template_{os.getpid()}"
_numbers = itertools.count(1)


@dataclass(frozen=True)
class TestServer:
    """Where tests make their databases."""

    __test__ = False

    urls: Urls
    embedded: EmbeddedServer | None


@contextmanager
def running_server(directory: Path) -> Iterator[TestServer]:
    if admin := os.environ.get("BURSAR_TEST_ADMIN_URL"):
        yield TestServer(_prepared(admin), None)
        return
    server = EmbeddedServer(directory)
    urls = server.start()
    try:
        yield TestServer(urls, server)
    finally:
        server.stop()


def _prepared(admin: str) -> Urls:
    """Roles on a server that is not ours. Passwords are fixed, so that parallel test processes agree."""
    owner, service = "test-owner-password", "test-service-password"
    asyncio.run(ensure_roles(admin, owner, service))
    host = urlsplit(admin)
    place = host.netloc.rpartition("@")[2]

    def login(role: str, password: str) -> str:
        query = f"?{host.query}" if host.query else ""
        return f"{host.scheme}://{role}:{quote(password)}@{place}/bursar{query}"

    return Urls(admin=admin, owner=login(OWNER, owner), service=login(SERVICE, service))


async def make_template(urls: Urls) -> None:
    await drop_database(urls.owner, TEMPLATE)
    await create_database(urls.owner, TEMPLATE)
    await migrate(with_database(urls.owner, TEMPLATE))


@contextmanager
def fresh_database(urls: Urls) -> Iterator[Urls]:
    """A copy of the template, gone afterwards."""
    name = f"t{os.getpid()}_{next(_numbers)}_{secrets.token_hex(3)}"
    asyncio.run(create_database(urls.owner, name, TEMPLATE))
    try:
        yield Urls(*(with_database(url, name) for url in (urls.admin, urls.owner, urls.service)))
    finally:
        asyncio.run(drop_database(urls.owner, name))
