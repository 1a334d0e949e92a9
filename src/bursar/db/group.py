"""Group commit: work that arrives while a transaction is being committed goes together in the next one.

There is no timer. The first item goes at once; what waits meanwhile is one batch. A batch of one is the ordinary case.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class GroupCommit(Generic[T, R]):
    """Hands batches of items to `flush`, which returns one result or exception per item, in order.

    What waits goes to the first lane that looks; with `shared`, each lane that is free gets its part of it. That pays
    where a batch is more work for the database than for this process.
    """

    def __init__(
        self,
        flush: Callable[[Sequence[T]], Awaitable[Sequence[R | Exception]]],
        *,
        lanes: int = 2,
        largest: int = 64,
        shared: bool = False,
    ) -> None:
        self._flush = flush
        self._lanes = lanes
        self._largest = largest
        self._shared = shared
        self._waiting: deque[tuple[T, asyncio.Future[R] | None]] = deque()
        self._busy = 0  # lanes that will still look for work
        self._coming = 0  # of these, the ones that have not had their first look
        self._running: set[asyncio.Task[None]] = set()

    async def submit(self, item: T) -> R:
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._add(item, future)
        return await future

    def post(self, item: T) -> None:
        """For an item whose result nobody waits for: `flush` itself has to see to what becomes of it."""
        self._add(item, None)

    def _add(self, item: T, future: asyncio.Future[R] | None) -> None:
        self._waiting.append((item, future))
        if self._busy < self._lanes:
            self._busy += 1
            self._coming += 1
            lane = asyncio.create_task(self._drain())
            self._running.add(lane)
            lane.add_done_callback(self._running.discard)

    @property
    def at_work(self) -> bool:
        return self._busy > 0

    async def settled(self) -> None:
        """Waits until nothing is being flushed."""
        while self._running:
            await asyncio.wait(self._running)

    async def _drain(self) -> None:
        self._coming -= 1
        try:
            await self._work()
        finally:
            self._busy -= 1  # in the same step as the last look: an item that comes after it starts a lane of its own

    async def _work(self) -> None:
        while self._waiting:
            takers = 1 + self._coming if self._shared else 1
            share = -(-len(self._waiting) // takers)
            batch = [self._waiting.popleft() for _ in range(min(self._largest, share))]
            try:
                results: Sequence[R | Exception] = await self._flush([item for item, _ in batch])
            except Exception as error:  # whoever waits is told
                results = [error] * len(batch)
            for (_, future), result in zip(batch, results, strict=True):
                if future is None or future.done():
                    continue  # nobody waits, or not any more
                if isinstance(result, Exception):
                    future.set_exception(result)
                else:
                    future.set_result(result)
