"""Sends what is due. Places are served side by side: a slow or dead one holds up nobody but itself.

A lane is one place in service: up to 16 requests in flight while it answers well, one at a time after a failure until
it recovers. A lane gives way after a few seconds, so everybody has a turn. Nothing is in memory but what is in flight.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
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
from bursar.events.lanes import Hold, Result, Wanted
from bursar.events.transport import Answer, Transport

log = structlog.get_logger()

IN_FLIGHT = 16  # per place
EXTRA = 256  # requests in flight beyond the first of each lane
LANES = 192  # in service at once, not counting slow ones
LANES_FAILING = 64
LANES_LARGEST = 512
SLOW_S = 1.0  # a lane that waits this long for an answer makes room for another
TURN_S = 5.0
PROBE_EVERY_S = 0.25  # how often failing places are given a turn
READ_ROWS = 48
CLAIM_LARGEST = 64
LEASE = timedelta(seconds=30)
POLL_S = 1.0

Disable = Callable[[int, int, str], Awaitable[None]]  # (account, webhook, why): an endpoint is to be called no more


class _NoKey(Exception):
    """Nothing is left to sign with: every key was revoked, or the secret cannot be opened."""


@dataclass(slots=True, eq=False)
class _Lane:
    hold: Hold
    failing: bool
    marked: bool  # whether the database has it as failing
    endpoint: Record | None = None
    secrets: Sequence[str] = ()
    after: tuple[datetime, int] = lanes.BEGINNING
    limit: int = 1
    in_flight: int = 0
    stopped: bool = False
    since: float = field(default_factory=time.monotonic)
    answered: float = field(default_factory=time.monotonic)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    attempts: set[asyncio.Task[None]] = field(default_factory=set)

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
        self._lanes: dict[Hold, asyncio.Task[None]] = {}
        self._claims: set[asyncio.Task[int]] = set()
        self._active: set[_Lane] = set()
        self._extra = 0
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
        tasks = [*self._lanes.values(), *(task for lane in self._active for task in lane.attempts)]
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
        busy = sum(1 for lane in self._active if not lane.failing and not lane.slow)
        room = min(LANES - busy, LANES_LARGEST - len(self._active), CLAIM_LARGEST)
        if room > 0:
            started += await self._start(room, failing=False)
        failing = sum(1 for lane in self._active if lane.failing)
        room = min(LANES_FAILING - failing, LANES_LARGEST - len(self._active), CLAIM_LARGEST)
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
            lane = _Lane(hold, was_failing, was_failing)
            self._active.add(lane)
            self._lanes[hold] = asyncio.create_task(self._serve(lane))
        return len(claimed)

    # One lane --------------------------------------------------------------------------------------------------

    async def _serve(self, lane: _Lane) -> None:
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
            self._active.discard(lane)
            self._lanes.pop(lane.hold, None)
            self._bell.set()

    async def _ready(self, lane: _Lane) -> bool:
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

    async def _work(self, lane: _Lane) -> None:
        while not lane.stopped and not lane.over:
            wanted = 1 if lane.failing else READ_ROWS
            rows = await self._reads.submit(Wanted(lane.hold, lane.after, wanted))
            for row in rows:
                await self._room(lane)
                if lane.stopped:
                    break
                self._begin(lane, row)
            if len(rows) < wanted:
                break
        while lane.attempts:
            await asyncio.wait(lane.attempts)

    async def _room(self, lane: _Lane) -> None:
        """Waits until the lane may have one more request in flight, or has to stop."""
        while not lane.stopped:
            free = lane.in_flight < lane.limit and (lane.in_flight == 0 or self._extra < EXTRA)
            if free and len(lane.attempts) < 4 * IN_FLIGHT:
                return
            lane.changed.clear()
            await lane.changed.wait()

    def _begin(self, lane: _Lane, row: Record) -> None:
        lane.after = (row["next_attempt_at"], row["id"])
        if lane.in_flight == 0:
            lane.answered = time.monotonic()
        extra = lane.in_flight > 0
        self._extra += extra
        lane.in_flight += 1
        self.attempts += 1
        task = asyncio.create_task(self._attempt(lane, row, extra=extra))
        lane.attempts.add(task)
        task.add_done_callback(lambda done: self._ended(lane, done))

    def _ended(self, lane: _Lane, task: asyncio.Task[None]) -> None:
        lane.attempts.discard(task)
        lane.changed.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            lane.stopped = True
            log.warning("deliveries.outcome_lost", place=lane.hold.place, error=type(error).__name__)

    # One attempt -----------------------------------------------------------------------------------------------

    async def _attempt(self, lane: _Lane, row: Record, *, extra: bool) -> None:
        sent_at = time.time()
        number = row["attempts"] + 1
        url = lane.endpoint["url"] if lane.endpoint is not None else row["url"]
        try:
            headers, body = await self._signed(lane, row, number, int(sent_at))
            crashpoint("delivery.before_send")
            answer = await self._transport.post(url, headers, body)
            crashpoint("delivery.after_send")
        except _NoKey:
            answer = Answer(None, 0, "no signing key is left")
        finally:
            self._extra -= extra
            lane.in_flight -= 1
            lane.answered = time.monotonic()
            lane.changed.set()
        verdict = schedule.judge(answer.code, row["step"] + 1, answer.retry_after, jitter=self._jitter)
        self._learn(lane, verdict)
        metrics.delivery_attempts_total.labels(row["channel"], verdict.status).inc()
        moment = datetime.fromtimestamp(int(sent_at), UTC)
        await self._records.submit(
            Result(
                lane.hold, row["id"], number, url, moment, answer.duration_ms, answer.code, answer.error,
                answer.excerpt, verdict.status, verdict.exhausted, verdict.again_in,
            )
        )  # fmt: skip
        await self._mark(lane, verdict)

    async def _signed(self, lane: _Lane, row: Record, number: int, timestamp: int) -> tuple[dict[str, str], bytes]:
        facts = (row["event_id"], row["type"], row["id"], number, timestamp)
        if lane.endpoint is not None:
            keys = lane.secrets
        else:
            keys = await self._keyring.of_key(self._db, row["key_account_id"], row["key_id"])
        if not keys:
            raise _NoKey
        if lane.endpoint is not None:
            return signing.webhook_headers(keys, *facts, row["body"]), row["body"]
        body = signing.ipn_body(row["fields"], keys, row["amount"], row["identifier"])
        return signing.ipn_headers(keys, *facts, body), body

    def _learn(self, lane: _Lane, verdict: schedule.Verdict) -> None:
        """More at once while it answers well; after a failure one at a time, and a turn ends with it."""
        if verdict.status == "succeeded":
            lane.failing = False
            lane.limit = min(IN_FLIGHT, lane.limit + 1)
        else:
            lane.failing = True
            lane.limit = 1
            lane.stopped = lane.stopped or lane.in_flight == 0 or verdict.gone
        lane.changed.set()

    async def _mark(self, lane: _Lane, verdict: schedule.Verdict) -> None:
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
            lane.stopped = True
            await self._disable(lane.hold.account_id, lane.webhook_id, "gone" if verdict.gone else "failing")

    # In groups -------------------------------------------------------------------------------------------------

    async def _find_endpoints(self, wanted: Sequence[tuple[int, int]]) -> Sequence[Record | Exception | None]:
        return await lanes.find_endpoints(self._db, wanted)

    async def _read_many(self, wanted: Sequence[Wanted]) -> Sequence[list[Record] | Exception]:
        return await lanes.read(self._db, wanted, commanded=self._commanded)

    async def _record_many(self, results: Sequence[Result]) -> Sequence[Exception | None]:
        written = await persist(lambda: lanes.record(self._db, results))
        crashpoint("delivery.recorded")
        if written < len(results):
            log.warning("deliveries.outcomes_fenced", lost=len(results) - written)
        return [None] * len(results)

    async def _release_many(self, holds: Sequence[Hold]) -> Sequence[Exception | None]:
        await persist(lambda: lanes.release(self._db, holds))
        return [None] * len(holds)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._lease.total_seconds() / 3)
            if self._lanes:
                with contextlib.suppress(Busy, asyncpg.PostgresError, *LOST):
                    await lanes.renew(self._db, self._lease, list(self._lanes))
