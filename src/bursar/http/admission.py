"""How many requests one process answers at once; whoever comes beyond that is told at once to come back.

What is admitted should be answered within half a second. An idle process takes what comes, up to a fixed number; one
that has been busy for a while takes what it was seen to answer in that time, and fewer as long as answers take longer.
Requests that wait for somebody else's answer, such as a card processor's, cost nothing meanwhile and do not count.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

MOST = 160
BUSY = 64  # never fewer: so many keep a process and its database at work
STEP = 16
WITHIN_S = 0.5


class Admission:
    def __init__(self) -> None:
        self.most = MOST
        self.shed = self._shed_before = 0
        self._away = 0
        self._busy = False
        self._answered = 0
        self._slowest_s = 0.0

    def admits(self, running: int) -> bool:
        return running - self._away < self.most

    def took(self, seconds: float) -> None:
        """A request was answered, so long after it had come."""
        self._slowest_s = max(self._slowest_s, seconds)

    @contextmanager
    def away(self) -> Iterator[None]:
        """While a request waits for somebody else."""
        self._away += 1
        try:
            yield
        finally:
            self._away -= 1

    def look(self, running: int, replies: int, seconds: float) -> int:
        """Called every so many seconds with what runs now, and how many replies there have ever been.

        Returns how many were shed since the last look.
        """
        shed, self._shed_before = self.shed - self._shed_before, self.shed
        answered = replies - self.shed
        per_second, self._answered = (answered - self._answered) / seconds, answered
        was_busy, self._busy = self._busy, running - self._away >= BUSY
        slow, self._slowest_s = self._slowest_s > WITHIN_S, 0.0
        if not self._busy:
            self.most = MOST
        elif was_busy:
            next_step = int(self.most * 0.7) if slow else self.most + STEP
            self.most = max(BUSY, min(MOST, next_step, int(per_second * WITHIN_S)))
        return shed


ADMISSION = Admission()  # of this process
