"""The inbox of what card processors tell us: verified, kept as it came, answered at once, applied by the worker.

`receive` is the address that processors call. `sweep` makes the worker's part from a function that applies one
callback; order and repeats do not matter to it, since applying is asking the state machine of the payment.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import falcon
import falcon.asgi
import msgspec
import structlog

from bursar.core.crashpoints import crashpoint
from bursar.db.group import GroupCommit
from bursar.db.pool import LOST, Busy, Connection, Database
from bursar.db.sweep import Desk, Sweep
from bursar.processors.protocol import Callback, CardProcessor, NotAuthentic, Unknown

PATH = "/processors/{provider}/callbacks"
LARGEST_BODY = 64 * 1024
BATCH = 64
WAITS = tuple(timedelta(seconds=seconds) for seconds in (1, 5, 30, 120, 600, 3600))
TRIES = 24

log = structlog.get_logger()

_CLAIM = """
-- Callbacks that are due and that nobody is applying: take the lease, in real time.
UPDATE processor_inbox
SET lease_until = clock_timestamp() + interval '30 seconds', lease_token = lease_token + 1, attempts = attempts + 1
WHERE (account_id, provider, event_id) IN (
    SELECT account_id, provider, event_id
    FROM processor_inbox
    WHERE state = 'new' AND due_at <= $1 AND (lease_until IS NULL OR lease_until < clock_timestamp())
    ORDER BY due_at
    LIMIT $2
)
  AND state = 'new' AND (lease_until IS NULL OR lease_until < clock_timestamp())
RETURNING account_id, provider, event_id, raw, attempts, lease_token
"""


@dataclass(frozen=True, slots=True)
class Received:
    """A callback that this worker holds the lease of."""

    account_id: int
    provider: str
    event_id: str
    raw: bytes
    attempts: int
    lease_token: int


def callback_url(public_url: str, provider: str) -> str:
    return public_url + PATH.format(provider=provider)


# Receiving ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Told:
    """A callback on its way into the inbox."""

    account_id: int
    provider: str
    event_id: str
    kind: str
    raw: bytes


_KEEP = """
-- Once each. In one order everywhere, so that two of these never wait for each other.
INSERT INTO processor_inbox (account_id, provider, event_id, kind, raw, due_at, received_at)
SELECT account_id, provider, event_id, kind, raw, now, now
FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::bytea[])
     AS told (account_id, provider, event_id, kind, raw),
     instance_now() AS now
ORDER BY account_id, provider, event_id
ON CONFLICT (account_id, provider, event_id) DO NOTHING
"""

Keeper = GroupCommit[Told, None]


def keeper(db: Database) -> Keeper:
    """Keeps callbacks; those that come while others are written share the next statement."""

    async def keep(told: Sequence[Told]) -> Sequence[Exception | None]:
        columns = ([getattr(one, name) for one in told] for name in Told.__slots__)
        try:
            await db.execute(_KEEP, *columns)
        except Exception as error:
            if len(told) == 1 or isinstance(error, (Busy, *LOST)):
                return [error] * len(told)
            return [result for one in told for result in await keep([one])]  # so that a bad one fails alone
        return [None] * len(told)

    return GroupCommit(keep)


async def receive(keep: Keeper, processor: CardProcessor, headers: Mapping[str, str], raw: bytes) -> int:
    """Keeps a callback and returns the status to answer. The second of two is answered like the first."""
    try:
        callback = processor.verify_callback(headers, raw)
    except NotAuthentic:
        return 401
    except msgspec.MsgspecError:
        log.error("inbox.not_understood", provider=processor.name)
        return 422
    crashpoint("inbox.before_keep")
    await keep.submit(Told(callback.account_id, processor.name, callback.event_id, callback.kind, raw))
    crashpoint("inbox.after_keep")
    return 200


def add_route(
    app: falcon.asgi.App[Any, Any], db: Database, processors: Mapping[str, CardProcessor], wake: Callable[[], None]
) -> None:
    """The address for callbacks, on the service's own application. `wake` tells the worker."""
    keep = keeper(db)

    class Callbacks:
        async def on_post(self, request: falcon.asgi.Request, response: falcon.asgi.Response, provider: str) -> None:
            response.content_type = "application/json"
            response.data = b"{}"
            processor = processors.get(provider)
            if processor is None:
                raise falcon.HTTPNotFound
            raw = await request.bounded_stream.read(LARGEST_BODY + 1)
            if len(raw) > LARGEST_BODY:
                response.status = 413
                return
            response.status = await receive(keep, processor, request.headers_lower, raw)
            if response.status == 200:
                wake()

    app.add_route(PATH, Callbacks())


# Applying ----------------------------------------------------------------------------------------------------------


async def claim(db: Database, now: datetime) -> list[Received]:
    """A batch of what is due; a smaller one when nothing more is."""
    taken = [Received(*row) for row in await db.fetch(_CLAIM, now, BATCH)]
    if taken:
        crashpoint("inbox.claimed")
    return taken


async def done(db: Connection, received: Received) -> bool:
    """Marks it applied, in the transaction of its effect. False: another worker holds it now, so undo the effect."""
    return await finish(db, [(received, None)]) == 1


async def quarantine(db: Connection, received: Received, reason: str) -> bool:
    """Nothing is applied; a person must look. Reasons: what `mismatch` says, or `not_applied`."""
    return await finish(db, [(received, reason)]) == 1


async def later(db: Connection | Database, received: Received, now: datetime) -> None:
    """It could not be applied yet."""
    await db.execute(
        """
        UPDATE processor_inbox SET due_at = $5, lease_until = NULL
        WHERE account_id = $1 AND provider = $2 AND event_id = $3 AND lease_token = $4 AND state = 'new'
        """,
        *_identity(received),
        now + WAITS[min(received.attempts, len(WAITS)) - 1],
    )


async def finish(db: Connection, results: Sequence[tuple[Received, str | None]]) -> int:
    """Marks callbacks applied, or quarantines those for which there is a reason; how many were still this worker's."""
    for received, reason in results:
        if reason is not None:
            log.error("inbox.quarantined", provider=received.provider, event_id=received.event_id, reason=reason)
    finished = await db.execute(
        """
        UPDATE processor_inbox AS i
        SET state = CASE WHEN r.reason IS NULL THEN 'done' ELSE 'quarantined' END, reason = r.reason,
            finished_at = now, lease_until = NULL
        FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::text[])
             AS r (account_id, provider, event_id, lease_token, reason),
             instance_now() AS now
        WHERE (i.account_id, i.provider, i.event_id) = (r.account_id, r.provider, r.event_id)
          AND i.lease_token = r.lease_token
          AND i.finished_at IS NULL  -- which is new; said so, the planner may read all that are new for a few of them
        """,
        [received.account_id for received, _ in results],
        [received.provider for received, _ in results],
        [received.event_id for received, _ in results],
        [received.lease_token for received, _ in results],
        [reason for _, reason in results],
    )
    return int(finished.split()[1])


def _identity(received: Received) -> tuple[int, str, str, int]:
    return received.account_id, received.provider, received.event_id, received.lease_token


def mismatch(
    callback: Callback, *, account_id: int, our_reference: str, reference: str | None, amount_minor: int, currency: str
) -> str | None:
    """What of a callback contradicts what we know; None when it may be believed.

    `reference` None: we do not know it yet, because the answer to our own call is still on its way.
    """
    known: dict[str, tuple[object, object]] = {
        "merchant": (callback.account_id, account_id),
        "reference": ((callback.our_reference, callback.reference), (our_reference, reference or callback.reference)),
        "currency": (callback.currency, currency),
        "amount": (callback.amount_minor, amount_minor),
    }
    return next((name for name, (said, expected) in known.items() if said != expected), None)


def sweep(
    processors: Callable[[Desk], Mapping[str, CardProcessor]],
    apply: Callable[[Desk, Callback, Received], Awaitable[None]],
) -> Sweep:
    """The worker's part. `apply` runs its own transaction and ends it with `done` or `quarantine`.

    When it raises, it is tried again later, with growing waits; in the end the callback is quarantined.
    """

    async def run(desk: Desk, now: datetime) -> int:
        taken = await claim(desk.db, now)
        for received in taken:
            try:
                callback = processors(desk)[received.provider].read_callback(received.raw)
                await apply(desk, callback, received)
            except Exception as error:
                if not isinstance(error, Unknown):
                    log.exception("inbox.not_applied", provider=received.provider, event_id=received.event_id)
                await _try_again(desk.db, received, now)
        return len(taken)

    return Sweep("processor callbacks", run, next_due)


async def _try_again(database: Database, received: Received, now: datetime) -> None:
    async with database.transaction() as db:
        if received.attempts >= TRIES:
            await quarantine(db, received, "not_applied")
        else:
            await later(db, received, now)


async def next_due(db: Database) -> datetime | None:
    moment: datetime | None = await db.fetchval(
        """
        SELECT min(due_at) FROM processor_inbox
        WHERE state = 'new' AND (lease_until IS NULL OR lease_until < clock_timestamp())
        """
    )
    return moment
