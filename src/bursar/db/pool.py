"""Connections and transactions. Waits are bounded: a request that cannot have a connection in time gets 503.

A handler is given a connection inside an open transaction and never commits; `transaction` is the only place that does.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import asyncpg
import msgspec

from bursar.core.crashpoints import crashpoint
from bursar.core.errors import ServiceUnavailable

if TYPE_CHECKING:
    Connection: TypeAlias = asyncpg.pool.PoolConnectionProxy[asyncpg.Record]
else:
    Connection = asyncpg.pool.PoolConnectionProxy  # generic in its stubs only
Record = asyncpg.Record
T = TypeVar("T")

# The session limits of the service's role: a dead client must not hold a wallet, nor a slow query the pool.
SESSION = {
    "timezone": "UTC",
    "jit": "off",
    "lock_timeout": "2s",
    "statement_timeout": "5s",
    "idle_in_transaction_session_timeout": "10s",
    "client_connection_check_interval": "1s",
}

# The connection went away, or the server is going down or coming up: nobody knows yet what became of the work.
LOST = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # what asyncpg says when the connection ends between two of its own steps
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
)
# Two transactions got in each other's way; running the loser again is safe.
COLLIDED = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)

_encode_json = msgspec.json.Encoder(decimal_format="number").encode
_decode_json = msgspec.json.Decoder(float_hook=Decimal).decode


class Queryable(Protocol):
    """A transaction's connection in a write; in a read, the pool, where each statement stands alone."""

    async def fetch(self, query: str, *args: Any) -> list[Record]: ...
    async def fetchrow(self, query: str, *args: Any) -> Record | None: ...
    async def fetchval(self, query: str, *args: Any) -> Any: ...
    async def execute(self, query: str, *args: Any) -> str: ...


class Busy(Exception):
    """No connection came free in time; nothing was tried."""


async def _initialise(connection: asyncpg.Connection[Record]) -> None:
    await connection.set_type_codec(
        "jsonb",
        schema="pg_catalog",
        format="binary",
        encoder=lambda value: b"\x01" + _encode_json(value),
        decoder=lambda data: _decode_json(data[1:]),
    )


async def _keep(_: Any) -> None:
    """Nothing to reset: no code path leaves session state behind, and a reset would cost a round trip."""


class Database:
    """A pool of connections to one database as one role."""

    def __init__(self, pool: asyncpg.Pool[Record], wait_s: float) -> None:
        self._pool = pool
        self._wait_s = wait_s

    @classmethod
    async def open(cls, url: str, *, size: int, wait_s: float = 2.0, name: str = "bursar", **session: str) -> Database:
        pool = asyncpg.create_pool(
            url,
            min_size=min(2, size),
            max_size=size,
            max_inactive_connection_lifetime=300,
            max_cached_statement_lifetime=0,
            statement_cache_size=512,
            timeout=10,
            command_timeout=30,
            init=_initialise,
            reset=_keep,
            server_settings={**SESSION, **session, "application_name": name},
        )
        await pool
        return cls(pool, wait_s)

    async def close(self) -> None:
        try:
            await asyncio.wait_for(self._pool.close(), 5)
        except TimeoutError:
            self._pool.terminate()

    @property
    def in_use(self) -> int:
        return self._pool.get_size() - self._pool.get_idle_size()

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[Connection]:
        """A connection outside any transaction: for single statements, each its own transaction."""
        try:
            connection = await self._pool.acquire(timeout=self._wait_s)
        except TimeoutError as error:
            raise Busy from error
        try:
            yield connection
        finally:
            await self._release(connection)

    @asynccontextmanager
    async def transaction(self, name: str = "transaction") -> AsyncIterator[Connection]:
        """One transaction: commits when the block ends, rolls back when it raises. `name` is for its crash points."""
        async with self.acquire() as connection:
            async with connection.transaction():
                yield connection
                crashpoint("before_commit", name)
            crashpoint("after_commit", name)

    async def fetchval(self, query: str, *arguments: Any) -> Any:
        async with self.acquire() as connection:
            return await connection.fetchval(query, *arguments)

    async def fetchrow(self, query: str, *arguments: Any) -> Record | None:
        async with self.acquire() as connection:
            return await connection.fetchrow(query, *arguments)

    async def fetch(self, query: str, *arguments: Any) -> list[Record]:
        async with self.acquire() as connection:
            return await connection.fetch(query, *arguments)

    async def execute(self, query: str, *arguments: Any) -> str:
        async with self.acquire() as connection:
            return await connection.execute(query, *arguments)

    async def _release(self, connection: Connection) -> None:
        with suppress(*LOST):  # it died while in use; the pool has already dropped it
            await self._pool.release(connection)


async def persist(work: Callable[[], Awaitable[T]], *, tries: int = 4, after_loss: bool = True) -> T:
    """Runs `work` again when its transaction collided or its connection was lost; then 503.

    After a loss only work that settles by itself whether an earlier try was committed, as a claimed key does.
    """
    for attempt in range(tries):
        try:
            return await work()
        except Busy:
            break
        except COLLIDED:
            if attempt == tries - 1:
                break
            await asyncio.sleep(random.uniform(0.001, 0.01) * (attempt + 1))  # noqa: S311 - jitter
        except LOST:
            if not after_loss or attempt == tries - 1:
                break
            await asyncio.sleep(0.05 * 4**attempt)
    raise ServiceUnavailable(headers={"Retry-After": "1"})
