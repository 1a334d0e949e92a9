"""Sends what is due. Places are served side by side: a slow or dead one holds up nobody but itself.

A lane is one place in service: up to 16 requests in flight while it answers well, one at a time after a failure until
it recovers. Each has runners that take one delivery after another; outcomes are written in groups behind them. A lane
gives way after a few seconds, so everybody has a turn. Nothing is in memory but what is about to be sent or written.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import Self

import asyncpg
import structlog

from bursar.core.crashpoints import crashpoint
from bursar.core.crypto import CannotOpen
from bursar.core.errors import ServiceUnavailable
from bursar.db.group import GroupCommit
from bursar.db.pool import LOST, Busy, Database, Record, persist
from bursar.events import lanes, metrics, schedule, signing
from bursar.events.fanout import fan_out
from bursar.events.keyring import Keyring
from bursar.events.lane import Lane, Room
from bursar.events.lanes import Hold, Result, Wanted
from bursar.events.transport import Answer, Transport

log = structlog.get_logger()

IN_FLIGHT = 16  # per place
EXTRA = 256  # requests in flight beyond the first of each lane
UNWRITTEN_LARGEST = 48  # outcomes of a lane that may wait to be written
LANES = 192  # in service at once, not counting slow ones
LANES_FAILING = 64
LANES_LARGEST = 512
PROBE_EVERY_S = 0.25  # how often failing places are given a turn
READ_ROWS = 48
CLAIM_LARGEST = 64
LEASE = timedelta(seconds=30)
POLL_S = 1.0

Disable = Callable[[int, int, str], Awaitable[None]]  # (account, webhook, why): an endpoint is to be called no more


class Sender:
    """Use as a context: leases are renewed inside it, and given back when it ends."""

    def __init__(
        self,
        db: Database,
        keyring: Keyring,
        transport: Transport,
        disable: Disable,
        *,
        jitter: bool = True,
        commanded: bool = False,
        lease: timedelta = LEASE,
    ) -> None:
        self._db = db
        self._keyring = keyring
        self._transport = transport
        self._disable = disable
        self._jitter = jitter
        self._commanded = commanded  # by whoever moves the clock
        self._lease = lease
        self._lanes: dict[Hold, Lane] = {}
        self._claims: set[asyncio.Task[int]] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self._room = Room(EXTRA)
        self._next_probe = 0.0
        self._bell = asyncio.Event()
        self._renewing: asyncio.Task[None] | None = None
        self._one_at_a_time = asyncio.Lock()
        self._endpoints: GroupCommit[tuple[int, int], Record | None] = GroupCommit(self._find_endpoints, lanes=1)
        self._reads: GroupCommit[Wanted, list[Record]] = GroupCommit(self._read_many, lanes=1)
        self._records: GroupCommit[Result, None] = GroupCommit(self._record_many, lanes=1, largest=256)
        self._releases: GroupCommit[Hold, None] = GroupCommit(self._release_many, lanes=1)
        self.attempts = 0

    async def __aenter__(self) -> Self:
        self._renewing = asyncio.create_task(self._renew())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.gather(*self._claims, return_exceptions=True)
        held = list(self._lanes)
        for lane in self._lanes.values():
            lane.stop()
        tasks = [*self._serving, *(runner for lane in self._lanes.values() for runner in lane.runners)]
        if self._renewing is not None:
            tasks.append(self._renewing)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(group.settled() for group in (self._endpoints, self._reads, self._records)))
        self._transport.close()
        if held:
            with contextlib.suppress(Busy, TimeoutError, asyncpg.PostgresError, *LOST):
                await asyncio.wait_for(lanes.release(self._db, held), 5)

    # The two ways to use it ------------------------------------------------------------------------------------

    async def run(self, bell: asyncio.Event) -> None:
        """Sends for ever; `bell` rings when there may be something new."""
        self._bell = bell
        while True:
            bell.clear()
            try:
                while await fan_out(self._db):
                    await self._take_turns()
                if await self._take_turns():
                    continue
            except (Busy, asyncpg.PostgresError, *LOST) as error:
                log.warning("deliveries.database_lost", error=type(error).__name__)
                await asyncio.sleep(POLL_S)
            with contextlib.suppress(TimeoutError):
                # Not wait_for: Python 3.11's loses a cancellation that comes together with the bell.
                async with asyncio.timeout(self._pause()):
                    await bell.wait()

    async def drain(self) -> int:
        """Attempts everything that is due, and waits for it; the number of attempts."""
        while True:
            self._bell.clear()
            if await self._take_turns():
                continue
            if self._lanes:
                await self._bell.wait()
            elif await lanes.anything_due(self._db):
                await asyncio.sleep(0.02)  # another worker is at it, or has just given it back
            else:
                return self.attempts

    def _pause(self) -> float:
        """Until the next look: soon while failing places wait for their turn."""
        return max(0.01, min(POLL_S, self._next_probe - time.monotonic())) if self._probes_wait else POLL_S

    @property
    def _probes_wait(self) -> bool:
        return self._next_probe > time.monotonic()

    async def _take_turns(self) -> int:
        """Starts lanes for places that are due, as far as there is room."""
        started = 0
        busy = sum(1 for lane in self._lanes.values() if not lane.failing and not lane.slow)
        room = min(LANES - busy, LANES_LARGEST - len(self._lanes), CLAIM_LARGEST)
        if room > 0:
            started += await self._start(room, failing=False)
        failing = sum(1 for lane in self._lanes.values() if lane.failing)
        room = min(LANES_FAILING - failing, LANES_LARGEST - len(self._lanes), CLAIM_LARGEST)
        if room > 0 and (self._commanded or time.monotonic() >= self._next_probe):
            probes = await self._start(room, failing=True)
            if probes:
                self._next_probe = time.monotonic() + PROBE_EVERY_S
            started += probes
        return started

    async def _start(self, count: int, *, failing: bool) -> int:
        """Whoever is stopped meanwhile still learns what it was leased, and gives it back."""
        claiming = asyncio.create_task(self._claim(count, failing=failing))
        self._claims.add(claiming)
        claiming.add_done_callback(self._claims.discard)
        return await asyncio.shield(claiming)

    async def _claim(self, count: int, *, failing: bool) -> int:
        claimed = await lanes.claim(self._db, self._lease, count, failing=failing, commanded=self._commanded)
        if claimed:
            crashpoint("delivery.claimed")
        for hold, was_failing in claimed:
            lane = self._lanes[hold] = Lane(hold, was_failing, was_failing)
            serving = asyncio.create_task(self._serve(lane))
            self._serving.add(serving)
            serving.add_done_callback(self._serving.discard)
        return len(claimed)

    # One lane --------------------------------------------------------------------------------------------------

    async def _serve(self, lane: Lane) -> None:
        """One turn of a place: from its lease to its return to the queue."""
        try:
            if await self._ready(lane):
                await self._work(lane)
            await self._releases.submit(lane.hold)
        except (Busy, ServiceUnavailable, asyncpg.PostgresError, *LOST) as error:
            # What is not written down is sent again once the lease has run out.
            log.warning("deliveries.lane_lost", place=lane.hold.place, error=type(error).__name__)
        except Exception:
            log.exception("deliveries.lane_failed", account_id=lane.hold.account_id, place=lane.hold.place)
        finally:
            lane.stop()
            self._lanes.pop(lane.hold, None)
            self._bell.set()

    async def _ready(self, lane: Lane) -> bool:
        """Whether the place still wants anything; what waits for one that does not is given up."""
        if lane.webhook_id is None:
            return True
        endpoint = await self._endpoints.submit((lane.hold.account_id, lane.webhook_id))
        if endpoint is not None and endpoint["status"] == "active":
            lane.endpoint = endpoint
            try:
                lane.secrets = self._keyring.of_webhook(endpoint, endpoint["now"])
            except CannotOpen:
                log.error("deliveries.secret_not_opened", account_id=lane.hold.account_id, place=lane.hold.place)
            return True
        if endpoint is not None and endpoint["status"] == "paused":
            await lanes.pause(self._db, lane.hold)
        else:
            await lanes.cancel_waiting(self._db, lane.hold)
        return False

    async def _work(self, lane: Lane) -> None:
        more = True
        while more and not lane.stopped and not lane.over:
            wanted = 1 if lane.failing else READ_ROWS
            rows = await self._reads.submit(Wanted(lane.hold, lane.after, wanted))
            if rows:
                lane.after = rows[-1]["next_attempt_at"], rows[-1]["id"]
            lane.rows.extend(rows)
            self._staff(lane)
            await lane.until_low()
            more = len(rows) == wanted
        await lane.until_idle()

    def _staff(self, lane: Lane) -> None:
        """As many runners as the lane has rows and room for."""
        while (row := self._next(lane)) is not None:
            runner = asyncio.create_task(self._run(lane, row))
            lane.runners.add(runner)
            runner.add_done_callback(partial(self._ended, lane))

    def _next(self, lane: Lane) -> Record | None:
        """The next delivery to attempt, if the lane may have one more request in flight; it then counts as such."""
        if lane.stopped or not lane.rows or lane.in_flight >= lane.limit or lane.unwritten >= UNWRITTEN_LARGEST:
            return None
        if not self._room.enter(lane):
            return None
        row = lane.rows.popleft()
        if lane.low:
            lane.changed.set()
        self.attempts += 1
        return row

    async def _run(self, lane: Lane, row: Record | None) -> None:
        while row is not None:
            await self._attempt(lane, row)
            row = self._next(lane)
            self._staff(lane)

    def _ended(self, lane: Lane, runner: asyncio.Task[None]) -> None:
        lane.runners.discard(runner)
        lane.changed.set()
        if not runner.cancelled() and (error := runner.exception()) is not None:
            lane.stop()
            log.warning("deliveries.outcome_lost", place=lane.hold.place, error=type(error).__name__)

    # One attempt -----------------------------------------------------------------------------------------------

    async def _attempt(self, lane: Lane, row: Record) -> None:
        sent_at = int(time.time())
        number = row["attempts"] + 1
        url = lane.endpoint["url"] if lane.endpoint is not None else row["url"]
        try:
            keys = lane.secrets
            if lane.endpoint is None:
                keys = await self._keyring.of_key(self._db, row["key_account_id"], row["key_id"])
            if keys:
                headers, body = self._signed(lane, row, keys, number, sent_at)
                crashpoint("delivery.before_send")
                answer = await self._transport.post(url, headers, body)
                crashpoint("delivery.after_send")
            else:  # every key was revoked, or the secret cannot be opened
                answer = Answer(None, 0, "no signing key is left")
        finally:
            if (other := self._room.leave(lane)) is not None:
                self._staff(other)
        verdict = schedule.judge(answer.code, row["step"] + 1, answer.retry_after, jitter=self._jitter)
        self._learn(lane, verdict)
        metrics.attempts(row["channel"], verdict.status).inc()
        result = Result(
            lane.hold, url, row["id"], number, sent_at, answer.duration_ms, answer.code, verdict.status,
            answer.excerpt, answer.error, verdict.again_in,
        )  # fmt: skip
        lane.unwritten += 1
        if verdict.status == "succeeded" and not lane.marked:
            self._records.post(result)
            return
        self._staff(lane)
        await self._records.submit(result)
        await self._mark(lane, verdict)

    @staticmethod
    def _signed(lane: Lane, row: Record, keys: Sequence[str], number: int, at: int) -> tuple[dict[str, str], bytes]:
        facts = (row["event_id"], row["type"], row["id"], number, at)
        if lane.endpoint is not None:
            return signing.webhook_headers(keys, *facts, row["body"]), row["body"]
        body = signing.ipn_body(row["fields"], keys, row["amount"], row["identifier"])
        return signing.ipn_headers(keys, *facts, body), body

    def _learn(self, lane: Lane, verdict: schedule.Verdict) -> None:
        """More at once while it answers well; after a failure one at a time, and a turn ends with it."""
        if verdict.status == "succeeded":
            lane.failing = False
            lane.limit = min(IN_FLIGHT, lane.limit + 1)
        else:
            lane.failing = True
            lane.limit = 1
            if lane.in_flight == 0 or verdict.gone:
                lane.stop()

    async def _mark(self, lane: Lane, verdict: schedule.Verdict) -> None:
        if verdict.status == "succeeded":
            if not lane.marked:
                return
            async with self._one_at_a_time:
                if lane.marked and not lane.failing:
                    await lanes.mark_healthy(self._db, lane.hold)
                    lane.marked = False
            return
        async with self._one_at_a_time:
            lasted = await lanes.mark_failing(self._db, lane.hold, schedule.DISABLE_AFTER)
        lane.marked = True
        if lane.webhook_id is not None and (verdict.gone or lasted >= schedule.DISABLE_AFTER):
            lane.stop()
            await self._disable(lane.hold.account_id, lane.webhook_id, "gone" if verdict.gone else "failing")

    # In groups -------------------------------------------------------------------------------------------------

    async def _find_endpoints(self, wanted: Sequence[tuple[int, int]]) -> Sequence[Record | Exception | None]:
        return await lanes.find_endpoints(self._db, wanted)

    async def _read_many(self, wanted: Sequence[Wanted]) -> Sequence[list[Record] | Exception]:
        return await lanes.read(self._db, wanted, commanded=self._commanded)

    async def _record_many(self, made: Sequence[Result]) -> Sequence[Exception | None]:
        counts = Counter(result.hold for result in made)
        concerned = [(lane, count) for hold, count in counts.items() if (lane := self._lanes.get(hold)) is not None]
        try:
            written = await persist(lambda: lanes.record(self._db, made))
        except Exception as error:
            for lane, _ in concerned:
                lane.stop()
            log.warning("deliveries.outcomes_lost", lost=len(made), error=type(error).__name__)
            raise
        finally:
            for lane, count in concerned:
                lane.unwritten -= count
                self._staff(lane)
                if lane.idle:
                    lane.changed.set()
        crashpoint("delivery.recorded")
        if written < len(made):
            log.warning("deliveries.outcomes_fenced", lost=len(made) - written)
        return [None] * len(made)

    async def _release_many(self, holds: Sequence[Hold]) -> Sequence[Exception | None]:
        await persist(lambda: lanes.release(self._db, holds))
        return [None] * len(holds)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._lease.total_seconds() / 3)
            if self._lanes:
                with contextlib.suppress(Busy, asyncpg.PostgresError, *LOST):
                    await lanes.renew(self._db, self._lease, list(self._lanes))
