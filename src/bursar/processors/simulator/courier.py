"""The simulator's own loop: outcomes that become known, payouts that move on, and callbacks until they are heard."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Iterable
from datetime import timedelta

import asyncpg
import structlog

from bursar.core.crashpoints import crashpoint
from bursar.db.pool import LOST, Busy, Database, Record
from bursar.processors import wire
from bursar.processors.signing import sign_callback
from bursar.processors.simulator import charges, payouts

POLL_S = 0.5
ANSWER_WITHIN_S = 10.0
BATCH = 64
# After each failure, in instance time; the last for ever after.
WAITS = tuple(timedelta(seconds=seconds) for seconds in (1, 2, 5, 15, 60, 300, 1800, 3600))

log = structlog.get_logger()

_CLAIM = """
-- Callbacks that are due and that nobody is sending: take the lease, in real time.
UPDATE simulator.callback
SET lease_until = clock_timestamp() + interval '30 seconds', attempts = attempts + 1
WHERE id IN (
    SELECT id
    FROM simulator.callback
    WHERE delivered_at IS NULL AND due_at <= instance_now()
      AND (lease_until IS NULL OR lease_until < clock_timestamp())
    ORDER BY due_at, held, id
    LIMIT $1
)
  AND delivered_at IS NULL
  AND (lease_until IS NULL OR lease_until < clock_timestamp())
RETURNING id, event_id, about, body, copies, held, attempts
"""


class Courier:
    def __init__(self, db: Database, callback_url: str, key: str) -> None:
        self._db = db
        self._url = callback_url
        self._key = key
        self._woken = asyncio.Event()
        self._one_at_a_time = asyncio.Lock()

    def wake(self) -> None:
        self._woken.set()

    async def run(self) -> None:
        """Until cancelled. A lost database is waited for."""
        while True:
            self._woken.clear()
            try:
                await self.run_due()
            except (Busy, asyncpg.PostgresError, *LOST) as error:
                log.warning("simulator.database_lost", error=type(error).__name__)
            except Exception:
                log.exception("simulator.loop_failed")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_S):  # not wait_for, which may lose a cancellation
                    await self._woken.wait()

    async def run_due(self) -> int:
        """Everything that is due now; how much was done. Whoever asks meanwhile waits for what is under way."""
        async with self._one_at_a_time:
            done = 0
            while some := await self._settle() + await payouts.step_due(self._db) + await self._deliver():
                done += some
            return done

    async def _settle(self) -> int:
        due = await self._db.fetch(
            """
            SELECT reference FROM simulator.payment
            WHERE state = 'processing' AND settles_at <= instance_now()
            LIMIT 100
            """
        )
        for row in due:
            async with self._db.transaction() as db:
                await charges.locked(db, row["reference"])
        return len(due)

    async def _deliver(self) -> int:
        """Sends a batch: callbacks about one payment in order, those about different ones side by side."""
        rows = sorted(await self._db.fetch(_CLAIM, BATCH), key=lambda row: (row["about"], row["held"], row["id"]))
        groups = [list(group) for _, group in itertools.groupby(rows, key=lambda row: row["about"])]
        heard = await asyncio.gather(*(self._deliver_in_order(group) for group in groups))
        return sum(heard)

    async def _deliver_in_order(self, rows: Iterable[Record]) -> int:
        heard = 0
        for row in rows:
            answers = await asyncio.gather(*(self._post(row) for _ in range(row["copies"])))
            delivered = all(answers)
            crashpoint("courier.answered")
            await self._note(row, delivered=delivered)
            heard += delivered
        return heard

    async def _post(self, row: Record) -> bool:
        headers = {"content-type": "application/json", **sign_callback(self._key, row["event_id"], row["body"])}
        crashpoint("courier.before_call")
        try:
            reply = await wire.send("POST", self._url, headers, row["body"], ANSWER_WITHIN_S)
        except OSError as error:
            log.info("simulator.callback_not_heard", event_id=row["event_id"], error=type(error).__name__)
            return False
        if not 200 <= reply.status < 300:
            log.info("simulator.callback_not_heard", event_id=row["event_id"], status=reply.status)
            return False
        return True

    async def _note(self, row: Record, *, delivered: bool) -> None:
        wait = WAITS[min(row["attempts"], len(WAITS)) - 1]
        await self._db.execute(
            """
            UPDATE simulator.callback
            SET lease_until = NULL,
                delivered_at = CASE WHEN $2 THEN instance_now() END,
                due_at = CASE WHEN $2 THEN due_at ELSE instance_now() + $3::interval END
            WHERE id = $1
            """,
            row["id"],
            delivered,
            wait,
        )
