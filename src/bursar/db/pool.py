"""Connections and transactions. Waits are bounded: a request that cannot have a connection in time gets 503.

A handler is given a connection inside an open transaction and never commits; `transaction` is the only place that does.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import asyncpg
import msgspec
from asyncpg.protocol import protocol

from bursar.core.crashpoints import crashpoint
from bursar.core.errors import ServiceUnavailable
from bursar.db.group import GroupCommit

if TYPE_CHECKING:
    Connection: TypeAlias = asyncpg.Connection[asyncpg.Record]
else:
    Connection = asyncpg.Connection  # generic in its stubs only
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

# Of every element of an array asyncpg asks abstract classes whether it is an array, too, which takes longer than to
# write it down; plain classes know as well. So arrays are given as lists or tuples.
protocol.IterableABC = protocol.SizedABC = (list, tuple)  # type: ignore[attr-defined]
protocol.MappingABC = dict  # type: ignore[attr-defined]

_encode_json = msgspec.json.Encoder(decimal_format="number").encode
_decode_json = msgspec.json.Decoder(float_hook=Decimal).decode


CLOSE_S = 5.0


class Queryable(Protocol):
    """A transaction's connection in a write; in a read, the pool, where each statement stands alone."""

    async def fetch(self, query: str, *args: Any) -> list[Record]: ...
    async def fetchrow(self, query: str, *args: Any) -> Record | None: ...
    async def fetchval(self, query: str, *args: Any) -> Any: ...
    async def execute(self, query: str, *args: Any) -> str: ...


class Busy(Exception):
    """No connection came free in time; nothing was tried."""


async def _initialise(connection: Connection) -> None:
    await connection.set_type_codec(
        "jsonb",
        schema="pg_catalog",
        format="binary",
        encoder=lambda value: b"\x01" + _encode_json(value),
        decoder=lambda data: _decode_json(data[1:]),
    )


class Database:
    """A pool of connections to one database as one role.

    Connections are made when they are needed, used last in first out, and never reset: no code path leaves session
    state behind, and a reset would cost a round trip. One whose use was broken off is dropped.
    """

    def __init__(self, connect: Callable[[], Awaitable[Connection]], size: int, wait_s: float) -> None:
        self._connect = connect
        self._size = size
        self._wait_s = wait_s
        self._free: list[Connection] = []
        self._used: set[Connection] = set()
        self._coming = 0
        self._waiting: deque[asyncio.Future[Connection | None]] = deque()
        self._closed = False
        self._look_ups: dict[str, GroupCommit[tuple[Any, ...], Record | None]] = {}

    @classmethod
    async def open(cls, url: str, *, size: int, wait_s: float = 2.0, name: str = "bursar", **session: str) -> Database:
        async def connect() -> Connection:
            connection = await asyncpg.connect(
                url,
                max_cached_statement_lifetime=0,
                statement_cache_size=512,
                timeout=10,
                command_timeout=30,
                server_settings={**SESSION, **session, "application_name": name},
            )
            await _initialise(connection)
            return connection

        db = cls(connect, size, wait_s)
        db._give_back(await db._take())
        return db

    async def close(self) -> None:
        """Waits a little for what is at work, then ends all."""
        self._closed = True
        until = time.monotonic() + CLOSE_S
        while self._used and time.monotonic() < until:  # noqa: ASYNC110 - not worth an event of its own
            await asyncio.sleep(0.01)
        for connection in (*self._free, *self._used):
            connection.terminate()
        self._free.clear()

    @property
    def in_use(self) -> int:
        return len(self._used)

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[Connection]:
        """A connection outside any transaction: for single statements, each its own transaction."""
        connection = await self._take()
        try:
            yield connection
        except BaseException as error:
            self._give_back(connection, error)
            raise
        self._give_back(connection)

    @asynccontextmanager
    async def transaction(self, name: str = "transaction") -> AsyncIterator[Connection]:
        """One transaction: commits when the block ends, rolls back when it raises. `name`: of its crash points."""
        async with self.acquire() as connection:
            async with connection.transaction():
                yield connection
                crashpoint("before_commit", name)
            crashpoint("after_commit", name)

    async def fetchval(self, query: str, *arguments: Any) -> Any:
        row = await self.fetchrow(query, *arguments)
        return None if row is None else row[0]

    async def fetchrow(self, query: str, *arguments: Any) -> Record | None:
        connection = await self._take()
        try:
            row: Record | None = await connection.fetchrow(query, *arguments)
        except BaseException as error:
            self._give_back(connection, error)
            raise
        self._give_back(connection)
        return row

    async def fetch(self, query: str, *arguments: Any) -> list[Record]:
        async with self.acquire() as connection:
            return await connection.fetch(query, *arguments)

    async def execute(self, query: str, *arguments: Any) -> str:
        async with self.acquire() as connection:
            return await connection.execute(query, *arguments)

    async def look_up(self, query: str, *key: Any) -> Record | None:
        """The row of a key. Those who ask while a statement is under way share the next one.

        The query takes an array for each part of the key, and gives with every row as `n` which key it is of.
        """
        group = self._look_ups.get(query)
        if group is None:
            group = self._look_ups[query] = GroupCommit(partial(self._look_up_all, query))
        return await group.submit(key)

    async def _look_up_all(self, query: str, keys: Sequence[tuple[Any, ...]]) -> list[Record | None]:
        found: list[Record | None] = [None] * len(keys)
        for row in await self.fetch(query, *map(list, zip(*keys, strict=True))):
            found[row["n"] - 1] = row
        return found

    async def _take(self) -> Connection:
        if self._closed:
            raise asyncpg.InterfaceError("the pool is closed")
        while self._free:
            connection = self._free.pop()
            if not connection.is_closed():
                self._used.add(connection)
                return connection
        if len(self._used) + self._coming < self._size:
            self._coming += 1
            return await self._new()
        return await self._handed() or await self._new()

    async def _new(self) -> Connection:
        """A connection in the place that was reserved for it.

        It is made apart: Python 3.11 can lose a cancellation that comes together with the connection.
        """
        making = asyncio.ensure_future(self._connect())
        try:
            connection = await asyncio.shield(making)
        except BaseException:
            making.add_done_callback(_drop)
            self._coming -= 1
            self._make_room()
            raise
        self._coming -= 1
        self._used.add(connection)
        return connection

    async def _handed(self) -> Connection | None:
        """The next connection that comes free for whoever waits longest; None: there is room for a new one."""
        turn: asyncio.Future[Connection | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            async with asyncio.timeout(self._wait_s):
                return await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():  # it was called in the same moment as it gave up
                self._decline(turn.result())
            if isinstance(error, TimeoutError):
                raise Busy from error
            raise

    def _give_back(self, connection: Connection, error: BaseException | None = None) -> None:
        """After a time-out, a loss or a cancellation nobody knows what state the connection is in: it is dropped."""
        broken_off = error is not None and (
            isinstance(error, (TimeoutError, *LOST)) or not isinstance(error, Exception)
        )
        if self._closed or broken_off:
            connection.terminate()
        if connection.is_closed():
            self._used.discard(connection)
            self._make_room()
            return
        if (turn := self._longest_waiting()) is not None:
            turn.set_result(connection)
            return
        self._used.discard(connection)
        self._free.append(connection)

    def _decline(self, connection: Connection | None) -> None:
        if connection is None:
            self._coming -= 1
            self._make_room()
        else:
            self._give_back(connection)

    def _make_room(self) -> None:
        if (turn := self._longest_waiting()) is not None:
            self._coming += 1
            turn.set_result(None)

    def _longest_waiting(self) -> asyncio.Future[Connection | None] | None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                return turn
        return None


def _drop(making: asyncio.Future[Connection]) -> None:
    """Ends a connection that nobody waits for any more."""
    if not making.cancelled() and making.exception() is None:
        making.result().terminate()


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
