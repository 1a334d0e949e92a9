"""The loop that runs the sweeps: woken by hints, and at least once a second without them.

Workers hold a shared lock while they sweep; whoever moves the clock holds it alone, so nothing else runs meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

import asyncpg
import structlog

from bursar.core.clock import iso
from bursar.core.crashpoints import crashpoint
from bursar.core.crypto import Opener, Sealer, Vault
from bursar.db.clock import CLOCK_LOCK, instance_now, move_to
from bursar.db.notify import WAKE, Hints
from bursar.db.pool import LOST, Busy, Database, Record
from bursar.db.sweep import Desk, Sweep
from bursar.http import metrics
from bursar.settings import Settings

log = structlog.get_logger()

POLL_S = 1.0
ROUNDS_LARGEST = 10_000  # a sweep that never runs dry is a defect, not a load

_CLAIM_COMMAND = """
-- The oldest order that nobody is carrying out.
UPDATE worker_command
SET lease_until = clock_timestamp() + interval '10 minutes'
WHERE id = (
    SELECT min(id)
    FROM worker_command
    WHERE done_at IS NULL AND (lease_until IS NULL OR lease_until < clock_timestamp())
)
  AND done_at IS NULL AND (lease_until IS NULL OR lease_until < clock_timestamp())
RETURNING *
"""


class Worker:
    def __init__(self, settings: Settings, db: Database, sweeps: Sequence[Sweep]) -> None:
        self._sweeps = sweeps
        self._woken = asyncio.Event()
        self._bells = [self._woken]
        url = settings.database_url.get_secret_value()
        self._hints = Hints(url, {WAKE: lambda _: self._wake()}, self._wake)
        self._desk = Desk(
            db=db,
            settings=settings,
            vault=Vault(settings.key_pepper, Sealer(settings.seal_public_key)),
            opener=Opener(settings.seal_private_key),
            wake=self._wake,
        )

    def _wake(self) -> None:
        for bell in self._bells:
            bell.set()

    async def run(self) -> None:
        """Sweeps until cancelled. A lost database is waited for."""
        beside: list[asyncio.Task[None]] = []
        try:
            await self._hints.start()
            beside += [asyncio.create_task(self._run_beside(one)) for one in self._sweeps if one.beside is not None]
            while True:
                self._woken.clear()
                try:
                    await self.tick()
                except (Busy, asyncpg.PostgresError, *LOST) as error:
                    log.warning("worker.database_lost", error=type(error).__name__)
                    await asyncio.sleep(POLL_S)
                with contextlib.suppress(TimeoutError):
                    # Not wait_for: Python 3.11's loses a cancellation that comes together with a hint.
                    async with asyncio.timeout(POLL_S):
                        await self._woken.wait()
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            await self._hints.stop()

    async def _run_beside(self, sweep: Sweep) -> None:
        """Work that waits for others, such as receivers of deliveries, so that no sweep waits for it."""
        assert sweep.beside is not None
        bell = asyncio.Event()
        self._bells.append(bell)
        try:
            while True:
                try:
                    await sweep.beside(self._desk, bell)
                except (Busy, asyncpg.PostgresError, *LOST) as error:
                    log.warning("worker.database_lost", error=type(error).__name__, sweep=sweep.name)
                except Exception:
                    log.exception("sweep.failed", sweep=sweep.name)
                await asyncio.sleep(POLL_S)
        finally:
            self._bells.remove(bell)

    async def tick(self) -> None:
        """Orders first, then whatever is due now."""
        command = await self._desk.db.fetchrow(_CLAIM_COMMAND)
        if command is not None:
            await self._carry_out(command)  # which did everything that was due; the next order rings again
            return
        async with self._clock_held(alone=False):
            for sweep in self._sweeps:
                if sweep.beside is None:
                    await self._sweep(sweep)

    async def run_due(self) -> dict[str, int]:
        """Runs every sweep until none finds anything; rows done, per sweep."""
        counts = {sweep.name: 0 for sweep in self._sweeps}
        for _ in range(ROUNDS_LARGEST):
            done = 0
            for sweep in self._sweeps:
                rows = await self._sweep(sweep)
                counts[sweep.name] += rows
                done += rows
            if done == 0:
                return counts
        raise RuntimeError("due work did not come to an end")

    async def advance(self, seconds: int) -> dict[str, Any]:
        return await self.advance_to(await instance_now(self._desk.db) + timedelta(seconds=seconds))

    async def advance_to(self, target: datetime) -> dict[str, Any]:
        """Moves the clock, stopping at each moment when something falls due, in order."""
        ran: list[dict[str, Any]] = []
        while True:
            settled = await instance_now(self._desk.db)
            self._note(ran, await self.run_due(), await instance_now(self._desk.db))
            due = await self._next_due(settled)
            if due is None or due > target:
                break
            await move_to(self._desk.db, due)
        await move_to(self._desk.db, target)
        self._note(ran, await self.run_due(), await instance_now(self._desk.db))
        return {"now": iso(await instance_now(self._desk.db)), "ran": ran}

    @staticmethod
    def _note(ran: list[dict[str, Any]], counts: dict[str, int], at: datetime) -> None:
        ran.extend({"job": name, "rows": rows, "at": iso(at)} for name, rows in counts.items() if rows)

    async def _next_due(self, settled: datetime) -> datetime | None:
        """The next moment with work. What was due before `settled` and is not done failed, and holds up nothing."""
        moments = [await sweep.next_due(self._desk.db) for sweep in self._sweeps if sweep.next_due is not None]
        return min((moment for moment in moments if moment is not None and moment > settled), default=None)

    async def _sweep(self, sweep: Sweep) -> int:
        """One sweep until it runs dry. Its failure is its own: the others still run."""
        total = 0
        try:
            for _ in range(ROUNDS_LARGEST):
                rows = await sweep.run(self._desk, await instance_now(self._desk.db))
                total += rows
                if rows == 0:
                    break
                crashpoint(sweep.name, "swept")
        except (Busy, *LOST):
            raise
        except Exception:
            log.exception("sweep.failed", sweep=sweep.name)
        if total:
            metrics.sweep_rows_total.labels(sweep.name).inc(total)
        return total

    async def _carry_out(self, command: Record) -> None:
        """Done once: another worker that claims an order whose lease ran out finds it done when it has the lock."""
        async with self._clock_held(alone=True):
            if await self._desk.db.fetchval("SELECT done_at FROM worker_command WHERE id = $1", command["id"]) is None:
                await self._obey(command)

    async def _obey(self, command: Record) -> None:
        result: dict[str, Any] | None = None
        error: str | None = None
        try:
            if command["kind"] == "advance_clock":
                result = await self.advance_to(await self._until(command))
            else:
                result = {"counts": await self.run_due()}
        except Exception as problem:
            log.exception("command.failed", command_id=command["id"], kind=command["kind"])
            error = type(problem).__name__
        await self._desk.db.execute(
            "UPDATE worker_command SET result = $2, error = $3, done_at = clock_timestamp() WHERE id = $1",
            command["id"],
            result,
            error,
        )

    async def _until(self, command: Record) -> datetime:
        """Where the clock is to go, decided once: whoever takes over from a worker that died goes there, no farther."""
        until: str = await self._desk.db.fetchval(
            """
            UPDATE worker_command
            SET argument = jsonb_build_object('until', instance_now() + $2 * interval '1 second') || argument
            WHERE id = $1
            RETURNING argument ->> 'until'
            """,
            command["id"],
            command["argument"]["seconds"],
        )
        return datetime.fromisoformat(until)

    @asynccontextmanager
    async def _clock_held(self, *, alone: bool) -> AsyncIterator[None]:
        lock, unlock = ("lock", "unlock") if alone else ("lock_shared", "unlock_shared")
        async with self._desk.db.acquire() as connection:
            await connection.execute("SET lock_timeout = 0")
            await connection.execute("SET statement_timeout = 0")
            try:
                await connection.execute(f"SELECT pg_advisory_{lock}($1)", CLOCK_LOCK)
                try:
                    yield
                finally:
                    await connection.execute(f"SELECT pg_advisory_{unlock}($1)", CLOCK_LOCK)
            finally:
                await connection.execute("RESET lock_timeout")
                await connection.execute("RESET statement_timeout")
