"""A proxy between the service and its database that can cut a connection at the worst moment: around a COMMIT."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import parse_qs, urlsplit

from bursar.db.embedded import Urls

Fate: TypeAlias = Literal["let", "before", "after"]

COMMIT = b"COMMIT;\x00"
DONE = b"COMMIT\x00"


@dataclass
class Scissors:
    """`cut` says what to do with the next commits, one by one: `let` it be, or cut the connection around it."""

    cut: list[Fate] = field(default_factory=list)
    cuts: int = 0

    def next(self) -> Fate:
        return self.cut.pop(0) if self.cut else "let"


@asynccontextmanager
async def cut_off(urls: Urls, scissors: Scissors) -> AsyncIterator[Urls]:
    """The same database for the service, by way of the scissors."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / ".s.PGSQL.5432"
        tasks: set[asyncio.Task[None]] = set()

        async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            tasks.add(asyncio.current_task())  # type: ignore[arg-type]  # it is one
            await _relay(urls.service, reader, writer, scissors)

        server = await asyncio.start_unix_server(meet, path)
        role, database = urlsplit(urls.service).netloc.rpartition("@")[0], urlsplit(urls.service).path
        service = f"postgresql://{role}@{database}?host={directory}&port=5432"
        try:
            yield Urls(urls.admin, urls.owner, service)
        finally:
            server.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _relay(url: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, scissors: Scissors) -> None:
    parts = urlsplit(url)
    query = parse_qs(parts.query)
    if "host" in query:
        upstream = await asyncio.open_unix_connection(f"{query['host'][0]}/.s.PGSQL.{query.get('port', ['5432'])[0]}")
    else:
        upstream = await asyncio.open_connection(parts.hostname, parts.port or 5432)
    try:
        await _pump(reader, writer, *upstream, scissors)
    finally:
        for end in (writer, upstream[1]):
            end.close()
            with contextlib.suppress(OSError):
                await end.wait_closed()


async def _pump(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    database: asyncio.StreamReader,
    to_database: asyncio.StreamWriter,
    scissors: Scissors,
) -> None:
    silenced = asyncio.Event()

    async def ask() -> None:
        while data := await reader.read(65536):
            fate = scissors.next() if COMMIT in data else "let"
            if fate == "before":
                scissors.cuts += 1
                return
            if fate == "after":
                silenced.set()
            to_database.write(data)
            await to_database.drain()

    async def answer() -> None:
        while data := await database.read(65536):
            if silenced.is_set() and DONE in data:
                scissors.cuts += 1
                return
            writer.write(data)
            await writer.drain()

    both = {asyncio.create_task(ask()), asyncio.create_task(answer())}
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in both:
            task.cancel()
        await asyncio.gather(*both, return_exceptions=True)
