"""Group commit by itself: everything is answered, in order, whatever a batch does."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from bursar.db.group import GroupCommit


class Book:
    """Notes the batches it was given; answers each item with ten times itself, and refuses negative ones."""

    def __init__(self, takes_s: float = 0.0) -> None:
        self.batches: list[list[int]] = []
        self.takes_s = takes_s
        self.running = self.most = 0

    async def flush(self, items: Sequence[int]) -> Sequence[int | Exception]:
        self.batches.append(list(items))
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            if self.takes_s:
                await asyncio.sleep(self.takes_s)
            if 1300 in items:
                raise RuntimeError("the whole batch failed")
            return [ValueError(str(item)) if item < 0 else item * 10 for item in items]
        finally:
            self.running -= 1


class TestSubmit:
    async def test_the_first_goes_at_once_and_what_waits_goes_together(self) -> None:
        book = Book(takes_s=0.01)
        group = GroupCommit(book.flush, lanes=1)
        first = asyncio.create_task(group.submit(0))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        results = await asyncio.gather(first, *(group.submit(number) for number in range(1, 6)))
        assert results == [0, 10, 20, 30, 40, 50]
        assert book.batches == [[0], [1, 2, 3, 4, 5]]

    async def test_never_more_lanes_nor_larger_batches_than_allowed(self) -> None:
        book = Book(takes_s=0.002)
        group = GroupCommit(book.flush, lanes=2, largest=7)
        results = await asyncio.gather(*(group.submit(number) for number in range(100)))
        assert results == [number * 10 for number in range(100)]
        assert book.most <= 2
        assert max(map(len, book.batches)) <= 7

    async def test_what_comes_at_once_may_be_shared_among_the_lanes(self) -> None:
        book = Book(takes_s=0.01)
        group = GroupCommit(book.flush, lanes=2, shared=True)
        await asyncio.gather(*(group.submit(number) for number in range(9)))
        assert book.batches == [[0, 1, 2, 3, 4], [5, 6, 7, 8]]
        assert book.most == 2

    @pytest.mark.parametrize("lanes", [1, 2])
    async def test_an_item_that_comes_just_as_a_lane_ends_is_not_forgotten(self, lanes: int) -> None:
        """Whoever was just answered submits again before the lane's end has been noticed."""
        group = GroupCommit(Book().flush, lanes=lanes)

        async def client() -> None:
            for number in range(50):
                assert await group.submit(number) == number * 10

        async with asyncio.timeout(5):
            await asyncio.gather(*(client() for _ in range(4)))

    async def test_each_item_has_its_own_result(self) -> None:
        group = GroupCommit(Book(takes_s=0.005).flush, lanes=1)
        results = await asyncio.gather(*(group.submit(number) for number in (1, -2, 3)), return_exceptions=True)
        assert (results[0], results[2]) == (10, 30)
        assert isinstance(results[1], ValueError)

    async def test_a_batch_that_fails_answers_all_of_its_items_and_the_lane_goes_on(self) -> None:
        group = GroupCommit(Book(takes_s=0.005).flush, lanes=1)
        results = await asyncio.gather(*(group.submit(number) for number in (1300, 14)), return_exceptions=True)
        assert all(isinstance(result, RuntimeError) for result in results)
        assert await group.submit(2) == 20

    async def test_a_caller_that_went_away_disturbs_nobody(self) -> None:
        group = GroupCommit(Book(takes_s=0.02).flush, lanes=1)
        gone = asyncio.create_task(group.submit(1))
        stays = asyncio.create_task(group.submit(2))
        await asyncio.sleep(0.005)
        gone.cancel()
        assert await stays == 20
        assert await group.submit(3) == 30


class TestPost:
    async def test_what_nobody_waits_for_is_flushed_in_order_with_the_rest(self) -> None:
        book = Book()
        group = GroupCommit(book.flush, lanes=1)
        for number in (1, 2, -3):
            group.post(number)
        assert await group.submit(4) == 40
        assert [item for batch in book.batches for item in batch] == [1, 2, -3, 4]

    async def test_a_batch_that_fails_does_not_hold_up_the_next(self) -> None:
        book = Book()
        group = GroupCommit(book.flush, lanes=1)
        group.post(1300)
        await group.settled()
        group.post(1)
        await group.settled()
        assert book.batches == [[1300], [1]]
