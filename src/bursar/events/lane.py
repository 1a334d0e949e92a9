"""One place in service, and how many requests all places together may have in flight. No database, no network."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from bursar.db.pool import Record
from bursar.events.lanes import BEGINNING, Hold

SLOW_S = 1.0  # a lane that waits this long for an answer makes room for another
TURN_S = 5.0


@dataclass(slots=True, eq=False)
class Lane:
    hold: Hold
    failing: bool
    marked: bool  # whether the database has it as failing
    endpoint: Record | None = None
    secrets: Sequence[str] = ()
    rows: deque[Record] = field(default_factory=deque)  # read, and not attempted yet
    after: tuple[datetime, int] = BEGINNING  # where the last read ended
    limit: int = 1
    in_flight: int = 0
    unwritten: int = 0  # attempts that were made, with outcomes that are not in the database yet
    stopped: bool = False
    waiting: bool = False  # for room that other lanes have
    since: float = field(default_factory=time.monotonic)
    answered: float = field(default_factory=time.monotonic)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    runners: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def webhook_id(self) -> int | None:
        channel, _, number = self.hold.place.partition(":")
        return int(number) if channel == "webhook" else None

    @property
    def slow(self) -> bool:
        return self.in_flight > 0 and time.monotonic() - self.answered > SLOW_S

    @property
    def over(self) -> bool:
        return time.monotonic() - self.since > TURN_S

    @property
    def low(self) -> bool:
        """Whether it is time to read on: before the last row is taken, so that nobody has to wait for the next."""
        return len(self.rows) < self.limit

    @property
    def idle(self) -> bool:
        return not self.runners and self.unwritten == 0

    def stop(self) -> None:
        """Begins nothing more."""
        self.stopped = True
        self.changed.set()

    async def until_low(self) -> None:
        while not self.low and not self.stopped:
            self.changed.clear()
            await self.changed.wait()

    async def until_idle(self) -> None:
        while not self.idle:
            self.changed.clear()
            await self.changed.wait()


class Room:
    """For requests in flight beyond the first of each lane, which is always free. When all of it is taken, what comes
    free goes to a lane that waits and has clearly less.
    """

    def __init__(self, size: int) -> None:
        self._left = size
        self._waiting: deque[Lane] = deque()

    def enter(self, lane: Lane) -> bool:
        """Whether one more request may be sent now. A lane that has to wait asks again after its next answer."""
        if lane.in_flight == 0:
            lane.answered = time.monotonic()
        elif self._left > 0:
            self._left -= 1
        else:
            if not lane.waiting:
                lane.waiting = True
                self._waiting.append(lane)
            return False
        lane.in_flight += 1
        return True

    def leave(self, lane: Lane) -> Lane | None:
        """After an answer, or none; the lane that should have the room instead, if there is one."""
        lane.answered = time.monotonic()
        lane.in_flight -= 1
        if lane.in_flight == 0:
            return None
        self._left += 1
        if not self._waiting:
            return None
        first = self._waiting.popleft()
        first.waiting = False
        return first if first.in_flight + 1 < lane.in_flight else None
