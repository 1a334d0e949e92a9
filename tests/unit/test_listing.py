"""Lists: whitelisted filters and sorts, a tie-break always, exact totals, cursors that only read on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import date, datetime
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st
from tests.support import databases

from bursar.core.errors import InvalidCursor, ValidationFailed
from bursar.db.listing import Listing, decode_cursor, encode_cursor, page, read_on, since, until
from bursar.db.pool import Database

in_module_loop = pytest.mark.asyncio(loop_scope="module")

# Rows made up on the spot: ids 1 to 23, three names, two owners.
ROWS = """
SELECT id, owner, name, rank
FROM (SELECT n AS id, n % 2 AS owner, n % 3 AS rank, (ARRAY['100%', 'under_score', 'back\\slash'])[n % 3 + 1] AS name
      FROM generate_series(1, 23) n) AS rows
"""
LISTING = Listing(
    select=ROWS,
    scope="owner = $1",
    sorts={"id": "id", "rank": "rank"},
    filters={"rank": "rank = {}", "least": "id >= {}"},
    search=("name",),
)


@pytest.fixture(scope="module")
def listing_url(server: databases.TestServer) -> Iterator[str]:
    with databases.fresh_database(server.urls) as fresh:
        yield fresh.service


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool(listing_url: str) -> AsyncIterator[Database]:
    opened = await Database.open(listing_url, size=2, name="test")
    yield opened
    await opened.close()


async def _page(pool: Database, **more: Any) -> tuple[list[int], int]:
    rows, total = await page(pool, LISTING, (1,), **{"number": 1, "size": 100, "sort": "id", **more})
    return [row["id"] for row in rows], total


@in_module_loop
class TestPages:
    async def test_stay_within_their_scope(self, pool: Database) -> None:
        assert await _page(pool) == (list(range(1, 24, 2)), 12)

    @pytest.mark.parametrize("size", [1, 5, 6, 12, 13, 100])
    async def test_together_are_the_list_and_each_knows_the_total(self, pool: Database, size: int) -> None:
        seen: list[int] = []
        for number in range(1, 14):
            ids, total = await _page(pool, number=number, size=size)
            assert total == 12
            seen += ids
        assert seen == list(range(1, 24, 2))

    async def test_of_nothing(self, pool: Database) -> None:
        assert await _page(pool, filters={"least": 1000}) == ([], 0)
        assert await _page(pool, filters={"least": 1000}, number=5) == ([], 0)

    @pytest.mark.parametrize("sort", ["rank", "-rank", "id", "-id"])
    async def test_have_one_order(self, pool: Database, sort: str) -> None:
        ids, _ = await _page(pool, sort=sort)
        by_rank = sort.endswith("rank")
        expected = sorted(ids, key=lambda n: (n % 3, n) if by_rank else n, reverse=sort.startswith("-"))
        assert ids == expected

    @pytest.mark.parametrize("sort", ["name", "owner", "id;", "id desc", "--id", "", "-", "ID", "rank,id"])
    async def test_refuse_any_other_sort(self, pool: Database, sort: str) -> None:
        with pytest.raises(ValidationFailed) as caught:
            await _page(pool, sort=sort)
        assert "sort" in (caught.value.details or {})

    async def test_filters_that_are_not_given_do_not_count(self, pool: Database) -> None:
        ids, total = await _page(pool, filters={"rank": 0, "least": None})
        assert (ids, total) == ([3, 9, 15, 21], 4)

    @pytest.mark.parametrize(
        ("q", "rest"),
        [
            ("%", 0),
            ("100%", 0),
            ("_", 1),
            ("under_", 1),
            ("UNDER", 1),
            ("\\", 2),
            ("k\\s", 2),
            ("u_der", None),
            ("'", None),
        ],
    )
    async def test_search_takes_its_words_literally(self, pool: Database, q: str, rest: int | None) -> None:
        ids, _ = await _page(pool, q=q)
        assert ids == [n for n in range(1, 24, 2) if n % 3 == rest]

    @pytest.mark.parametrize(
        ("q", "expected"),
        [
            ("UNDER", [19]),  # a part, among the newest
            ("under_score", [1, 7, 13, 19]),  # a whole name, among all
            ("#3", [3]),
            ("#2", []),  # somebody else's
            ("nothing", []),
        ],
    )
    async def test_search_of_long_lists_is_for_the_newest_and_for_names(
        self, pool: Database, q: str, expected: list[int]
    ) -> None:
        def number_of(text: str) -> int | None:
            return int(text[1:]) if text.startswith("#") else None

        long = replace(LISTING, search_newest=5, named=("name = {}",), number_of=number_of)
        rows, total = await page(pool, long, (1,), number=1, size=100, sort="id", q=q)
        assert ([row["id"] for row in rows], total) == (expected, len(expected))
        _, total = await page(pool, long, (1,), number=1, size=1, sort="id", q=q, filters={"least": 2})
        assert total == len([n for n in expected if n >= 2])


@in_module_loop
class TestReadingOn:
    @pytest.mark.parametrize("limit", [1, 5, 12, 50])
    @pytest.mark.parametrize("opaque", [True, False])
    async def test_reaches_every_row_once(self, pool: Database, limit: int, opaque: bool) -> None:
        seen: list[int] = []
        after: str | None = None
        while True:
            rows, after = await read_on(pool, LISTING, (1,), after=after, limit=limit, opaque=opaque)
            seen += [row["id"] for row in rows]
            assert len(rows) <= limit
            if after is None:
                break
        assert seen == list(range(1, 24, 2))


class TestCursors:
    @given(st.integers(0, 10**18 - 1), st.booleans())
    def test_read_back(self, last: int, opaque: bool) -> None:
        assert decode_cursor(encode_cursor(last, opaque=opaque), opaque=opaque) == last

    @given(st.text(max_size=40), st.booleans())
    def test_anything_else_is_refused(self, cursor: str, opaque: bool) -> None:
        try:
            last = decode_cursor(cursor, opaque=opaque)
        except InvalidCursor:
            return
        assert 0 <= last < 10**18

    def test_a_plain_number_is_no_opaque_cursor(self) -> None:
        with pytest.raises(InvalidCursor):
            decode_cursor("42")


class TestDays:
    def test_a_day_is_a_london_day(self) -> None:
        summer = date(2026, 7, 1)
        assert since(summer) == datetime.fromisoformat("2026-06-30T23:00:00Z")
        assert until(summer) == datetime.fromisoformat("2026-07-01T23:00:00Z")
        assert since(None) is until(None) is None

    def test_a_moment_is_included_itself(self) -> None:
        moment = datetime.fromisoformat("2026-01-01T12:00:00Z")
        end = until(moment)
        assert since(moment) == moment
        assert end is not None
        assert end > moment
