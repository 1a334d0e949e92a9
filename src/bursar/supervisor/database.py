"""The database that the service is given: reached, brought to this program's schema, and found fit for use."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import asyncpg
import structlog

from bursar.db import migrate
from bursar.db.embedded import EmbeddedServer
from bursar.db.pool import Database
from bursar.http import guard
from bursar.settings import PREFIX, Settings, SettingsError
from bursar.supervisor.errors import DatabaseUnusable

WATCH_EVERY_S = 1.0
CONNECTIONS_LEAST = 100

log = structlog.get_logger()


@dataclass(frozen=True)
class Prepared:
    """Where the service logs in, and the embedded server when that is what it logs in to."""

    service_url: str = field(repr=False)
    server: EmbeddedServer | None

    async def watch(self) -> None:
        """Starts the embedded server again when it is gone; another server is somebody else's to keep up."""
        while True:
            await asyncio.sleep(WATCH_EVERY_S)
            if self.server is not None and not await asyncio.to_thread(self.server.is_running):
                log.warning("database.died")
                await asyncio.to_thread(self.server.start)
                log.info("database.restarted")


@asynccontextmanager
async def prepared(settings: Settings) -> AsyncIterator[Prepared]:
    """The database, migrated and checked; the embedded server runs for as long as the block does."""
    if url := settings.database_url.get_secret_value():
        if owner_url := settings.migration_url.get_secret_value():
            await apply(owner_url)
        await check(url)
        await _check_service(url, settings)
        yield Prepared(url, None)
        return
    async with embedded(settings) as server:
        urls = server.urls()
        await apply(urls.owner)
        await _check_service(urls.service, settings)
        yield Prepared(urls.service, server)


@asynccontextmanager
async def embedded(settings: Settings) -> AsyncIterator[EmbeddedServer]:
    server = EmbeddedServer(settings.data_dir, {"max_connections": str(_connections(settings))})
    await asyncio.to_thread(server.start)
    try:
        yield server
    finally:
        await asyncio.to_thread(server.stop)


def _connections(settings: Settings) -> int:
    """Pools and one for hints per process, the worker's own, and some for people."""
    per_api = settings.pool_size + settings.sandbox_pool_size + 1
    return max(CONNECTIONS_LEAST, settings.api_processes * per_api + settings.pool_size + 1 + 20)


async def apply(owner_url: str) -> list[migrate.Migration]:
    """Applies the migrations that are missing, as the database's owner."""
    with reaching(owner_url):
        return await migrate.migrate(owner_url)


async def check(service_url: str) -> None:
    """Raises unless the schema is this program's."""
    with reaching(service_url):
        await migrate.check(service_url)


async def _check_service(url: str, settings: Settings) -> None:
    with reaching(url):
        db = await Database.open(url, size=1, name="bursar supervisor")
        try:
            await guard.check_database(db, settings)
        finally:
            await db.close()


@contextmanager
def reaching(url: str) -> Iterator[None]:
    """Says in one line, with the place and without the password, why a database could not be used."""
    try:
        yield
    except (TimeoutError, OSError) as error:
        raise DatabaseUnusable(f"cannot reach the database at {place(url)}: {_reason(error)}") from error
    except asyncpg.PostgresError as error:
        raise DatabaseUnusable(f"the database at {place(url)} refuses: {error}") from error
    except (asyncpg.InterfaceError, ValueError) as error:
        raise SettingsError(f"{PREFIX}DATABASE_URL: {error}") from error


def place(url: str) -> str:
    """host:port/database, without the login."""
    parts = urlsplit(url)
    return parts.netloc.rpartition("@")[2] + parts.path or "its socket"


def _reason(error: OSError) -> str:
    if isinstance(error, TimeoutError) and error.errno is None:
        return "no answer in time"
    # asyncio puts the address into the message; the system's own words are shorter.
    return os.strerror(error.errno) if error.errno is not None and error.errno > 0 else error.strerror or str(error)
