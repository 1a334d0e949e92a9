"""Due work. A sweep claims rows whose time has come, does them, says how many; the worker runs it until it finds none.

Sweeps are safe to run twice or in parallel: a row is claimed by an UPDATE that takes a lease, in real time, and its
outcome is written only by who still holds it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime

from bursar.core.crypto import Opener, Vault
from bursar.db.pool import Database
from bursar.settings import Settings


@dataclass(frozen=True, slots=True)
class Desk:
    """What a sweep works with. Only a worker has the opener."""

    db: Database
    settings: Settings
    vault: Vault
    opener: Opener
    wake: Callable[[], None]  # there may be more due work than this sweep's own


@dataclass(frozen=True, slots=True)
class Sweep:
    """`run(desk, now)` returns the number of rows done. `next_due` is when it has work next, for a moved clock.

    A sweep without `next_due` only tidies up; the clock does not stop for it. One with `beside` runs that as long as
    the worker lives, next to the others, and rings when there may be work; then `run` is for a moved clock alone, and
    must do everything that is due before it returns.
    """

    name: str
    run: Callable[[Desk, datetime], Awaitable[int]]
    next_due: Callable[[Database], Awaitable[datetime | None]] | None = None
    beside: Callable[[Desk, asyncio.Event], Awaitable[None]] | None = None


async def repeat(run: Callable[[], Awaitable[int]], bell: asyncio.Event, poll_s: float = 1.0) -> None:
    """Runs until it finds nothing, then waits for the bell; for what goes beside the other sweeps."""
    while True:
        bell.clear()
        while await run():
            pass
        with contextlib.suppress(TimeoutError):
            # Not wait_for: Python 3.11's loses a cancellation that comes together with the bell.
            async with asyncio.timeout(poll_s):
                await bell.wait()
