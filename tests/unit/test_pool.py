"""The pool: bounded, in order, and never poisoned by whoever breaks off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import asyncpg
import pytest
import pytest_asyncio

from bursar.db.embedded import Urls
from bursar.db.pool import Busy, Database, persist

SIZE = 2
BACKENDS = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pool of two'"
DOUBLED = "SELECT n, k * 2 AS doubled FROM unnest($1::bigint[]) WITH ORDINALITY AS wanted (k, n) WHERE k > 0"


@pytest_asyncio.fixture
async def pool(urls: Urls) -> AsyncIterator[Database]:
    made = await Database.open(urls.service, size=SIZE, wait_s=0.3, name="pool of two")
    yield made
    await made.close()


async def test_no_more_at_once_than_there_are(pool: Database) -> None:
    most = 0

    async def use() -> int:
        nonlocal most
        async with pool.acquire() as connection:
            backend = int(await connection.fetchval("SELECT pg_backend_pid() FROM pg_sleep(0.02)"))
            most = max(most, pool.in_use)
            return backend

    backends = await asyncio.gather(*(use() for _ in range(12)))
    assert (len(set(backends)), most, pool.in_use) == (SIZE, SIZE, 0)


async def test_whoever_waits_longest_is_next(pool: Database) -> None:
    order: list[int] = []

    async def use(number: int) -> None:
        async with pool.acquire():
            order.append(number)
            await asyncio.sleep(0)

    async with pool.acquire(), pool.acquire():
        waiting = [asyncio.create_task(use(number)) for number in range(8)]
        await asyncio.sleep(0)
    await asyncio.gather(*waiting)
    assert order == list(range(8))


async def test_waiting_has_an_end(pool: Database) -> None:
    async with pool.acquire(), pool.acquire():
        with pytest.raises(Busy):
            await pool.fetchval("SELECT 1")
    assert await pool.fetchval("SELECT 1") == 1


async def test_whoever_stops_waiting_takes_nothing_along(pool: Database) -> None:
    async with pool.acquire(), pool.acquire():
        waiting = [asyncio.create_task(pool.fetchval("SELECT 1")) for _ in range(6)]
        await asyncio.sleep(0)
        for task in waiting[::2]:
            task.cancel()
    # Some are cancelled in the same moment in which a connection is handed to them.
    waiting[1].cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert [task.result() for task in waiting[3::2]] == [1, 1]
    async with asyncio.timeout(5), pool.acquire(), pool.acquire():
        assert pool.in_use == SIZE


async def test_a_use_that_was_broken_off_ends_its_connection(pool: Database) -> None:
    before = await pool.fetchval("SELECT pg_backend_pid()")
    sleeping = asyncio.create_task(pool.execute("SELECT pg_sleep(30)"))
    while not pool.in_use:  # noqa: ASYNC110 - the task is about to begin
        await asyncio.sleep(0)
    sleeping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sleeping
    assert pool.in_use == 0
    assert await pool.fetchval("SELECT pg_backend_pid()") != before


async def test_an_error_of_a_statement_does_not(pool: Database) -> None:
    before = await pool.fetchval("SELECT pg_backend_pid()")
    with pytest.raises(asyncpg.UndefinedTableError):
        await pool.fetch("SELECT * FROM nothing_of_this_name")
    with pytest.raises(ZeroDivisionError):
        async with pool.transaction():
            raise ZeroDivisionError
    assert await pool.fetchval("SELECT pg_backend_pid()") == before


async def test_connections_that_were_ended_elsewhere_are_replaced(pool: Database, urls: Urls) -> None:
    async with pool.acquire(), pool.acquire():
        pass
    administrator = await asyncpg.connect(urls.service)
    try:
        await administrator.fetch(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'pool of two'"
        )
        async with asyncio.timeout(5):
            while await administrator.fetchval(BACKENDS):  # noqa: ASYNC110 - the server is at it
                await asyncio.sleep(0.01)
    finally:
        await administrator.close()
    # Until the news has arrived a statement fails, and is tried again.
    assert [await persist(lambda: pool.fetchval("SELECT 1")) for _ in range(SIZE + 1)] == [1] * (SIZE + 1)


async def test_a_closed_pool_gives_nothing(urls: Urls) -> None:
    made = await Database.open(urls.service, size=1)
    await made.close()
    with pytest.raises(asyncpg.InterfaceError):
        await made.fetchval("SELECT 1")


async def test_look_ups_share_statements_and_each_has_its_own_row(pool: Database) -> None:
    keys = [number - 20 for number in range(200)]
    rows = await asyncio.gather(*(pool.look_up(DOUBLED, key) for key in keys))
    assert [row and row["doubled"] for row in rows] == [key * 2 if key > 0 else None for key in keys]


async def test_a_look_up_that_fails_fails_for_all_who_share_it(pool: Database) -> None:
    bad = "SELECT 1 / (k - 3) AS n FROM unnest($1::bigint[]) AS k"
    failed = await asyncio.gather(*(pool.look_up(bad, key) for key in (3, 3, 3)), return_exceptions=True)
    assert [type(error) for error in failed] == [asyncpg.DivisionByZeroError] * 3
    row = await pool.look_up(DOUBLED, 4)
    assert row is not None
    assert row["doubled"] == 8


class TestArrays:
    """What asyncpg makes of arrays, of which it is told that they are lists or tuples."""

    @pytest.mark.parametrize("given", [[], [1, None, 3], (1, 2), [[1, 2], [3, 4]]])
    async def test_of_numbers(self, pool: Database, given: object) -> None:
        found = await pool.fetchval("SELECT $1::bigint[]", given)
        assert found == (list(given) if isinstance(given, tuple) else given)

    @pytest.mark.parametrize(
        ("type_", "given"),
        [
            ("text", ["a", None, ""]),
            ("bytea", [b"a", b""]),
            ("jsonb", [{"a": [1, 2]}, None, {}]),
            ("timestamptz", [datetime(2026, 1, 2, tzinfo=UTC)]),
        ],
    )
    async def test_of_what_could_be_taken_for_arrays(self, pool: Database, type_: str, given: list[object]) -> None:
        assert await pool.fetchval(f"SELECT $1::{type_}[]", given) == given

    @pytest.mark.parametrize("given", ["abc", {1, 2}, 5])
    async def test_of_what_is_neither_list_nor_tuple(self, pool: Database, given: object) -> None:
        with pytest.raises(asyncpg.DataError):
            await pool.fetchval("SELECT $1::bigint[]", given)
