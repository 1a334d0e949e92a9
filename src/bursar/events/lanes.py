"""The queue in the database: leasing places, reading what is due there, writing what came of it.

A lane is a place whose lease this worker holds. The lease is in real time and carries a token; whoever lost it can no
longer write an outcome, and nobody can write the outcome of one attempt twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from bursar.db.clock import CLOCK_LOCK
from bursar.db.pool import Connection, Database, Record

CANCEL_BATCH = 1000
BEGINNING = (datetime(1, 1, 1, tzinfo=UTC), 0)

# Of an ordered endpoint's deliveries, one waits while an earlier one of the same order does.
_SENDABLE = """
    (d.order_key IS NULL OR NOT EXISTS (
        SELECT FROM delivery AS earlier
        WHERE earlier.account_id = d.account_id AND earlier.place = d.place AND earlier.order_key = d.order_key
          AND earlier.source_id < d.source_id AND earlier.next_attempt_at IS NOT NULL
    ))
"""

_CLAIM = """
-- Places where something is due and that nobody holds, longest waiting first. While the clock is being moved, only
-- whoever moves it may.
UPDATE destination
SET lease_token = lease_token + 1, lease_until = clock_timestamp() + $1::interval
WHERE (account_id, place) IN (
    SELECT account_id, place
    FROM destination
    WHERE due_at <= (SELECT instance_now()) AND NOT paused AND (failing_since IS NOT NULL) = $2
      AND (lease_until IS NULL OR lease_until < clock_timestamp())
    ORDER BY due_at
    LIMIT $3
)
  AND NOT paused AND (lease_until IS NULL OR lease_until < clock_timestamp())
  AND (SELECT $4::boolean OR pg_try_advisory_xact_lock_shared($5))
RETURNING account_id, place, lease_token, failing_since
"""

_READ = f"""
-- What is due at each of some places, after where the last read ended. The limits keep the planner to look-ups by key,
-- and "from this key on" to the primary key: of a table that it knows little of, any index with the account will do.
SELECT lane.n, d.id, d.channel, d.event_id, d.type, d.attempts, d.step, d.next_attempt_at,
       event.body, ipn.url, ipn.fields, ipn.amount, ipn.identifier, ipn.key_account_id, ipn.key_id
FROM unnest($1::bigint[], $2::text[], $3::timestamptz[], $4::bigint[], $5::integer[])
     WITH ORDINALITY AS lane (account_id, place, after_at, after_id, wanted, n)
CROSS JOIN LATERAL (
    SELECT *
    FROM delivery AS d
    WHERE d.account_id = lane.account_id AND d.place = lane.place
      AND d.next_attempt_at <= (SELECT instance_now())
      AND (d.next_attempt_at, d.id) > (lane.after_at, lane.after_id)
      AND {_SENDABLE}
    ORDER BY d.next_attempt_at, d.id
    LIMIT lane.wanted
) AS d
LEFT JOIN LATERAL (
    SELECT *
    FROM event
    WHERE d.channel = 'webhook' AND (account_id, id) >= (d.source_account_id, d.source_id)
    ORDER BY account_id, id
    LIMIT 1
) AS event ON event.account_id = d.source_account_id AND event.id = d.source_id
LEFT JOIN LATERAL (
    SELECT *
    FROM ipn
    WHERE d.channel = 'ipn' AND (account_id, id) >= (d.source_account_id, d.source_id)
    ORDER BY account_id, id
    LIMIT 1
) AS ipn ON ipn.account_id = d.source_account_id AND ipn.id = d.source_id
WHERE (SELECT $6::boolean OR pg_try_advisory_xact_lock_shared($7))
ORDER BY lane.n, d.next_attempt_at, d.id
"""  # noqa: S608 - a constant

_RECORD = """
-- Outcomes of attempts, by whoever still holds the lane, each once: an attempt counts only as the next of its delivery.
WITH moment AS MATERIALIZED (
    SELECT instance_now() AS now
), held AS MATERIALIZED (
    SELECT lane.n, lane.account_id, lane.url
    FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[])
         WITH ORDINALITY AS lane (account_id, place, token, url, n)
    JOIN destination AS p ON p.account_id = lane.account_id AND p.place = lane.place AND p.lease_token = lane.token
), result AS MATERIALIZED (
    -- Apart, so that deliveries are looked up by their key and in no other way. Shorter arrays end in nulls.
    SELECT held.account_id, held.url, r.*
    FROM unnest($5::integer[], $6::bigint[], $7::integer[], $8::bigint[], $9::integer[],
                $10::smallint[], $11::text[], $12::text[], $13::text[], $14::interval[])
         AS r (lane, id, number, sent_at, duration_ms, code, status, excerpt, error, again_in)
    JOIN held ON held.n = r.lane
), recorded AS (
    UPDATE delivery AS d
    SET attempts = d.attempts + 1,
        step = d.step + 1,
        status = CASE WHEN d.status = 'cancelled' AND r.status = 'failed' THEN 'cancelled' ELSE r.status END,
        exhausted = r.status = 'failed' AND r.again_in IS NULL AND d.status <> 'cancelled',
        next_attempt_at = CASE WHEN d.status = 'cancelled' THEN NULL ELSE moment.now + r.again_in END,
        last_response_code = r.code,
        last_error = r.error,
        duration_ms = r.duration_ms,
        response_excerpt = r.excerpt,
        updated_at = moment.now
    FROM result AS r, moment
    WHERE d.account_id = r.account_id AND d.id = r.id AND d.attempts = r.number - 1
    RETURNING d.account_id, d.id, r.number, r.url, r.sent_at, moment.now, r.duration_ms, r.code, r.error, r.excerpt
)
INSERT INTO delivery_attempt
    (account_id, delivery_id, number, url, sent_at, at, duration_ms, response_code, error, response_excerpt)
SELECT account_id, id, number, url, to_timestamp(sent_at), now, duration_ms, code, error, excerpt
FROM recorded
"""

_LET_GO = """
UPDATE destination AS p
SET lease_until = NULL
FROM unnest($1::bigint[], $2::text[], $3::bigint[]) AS lane (account_id, place, token)
WHERE p.account_id = lane.account_id AND p.place = lane.place AND p.lease_token = lane.token
"""

_REQUEUE = f"""
-- Back into the queue: behind those that wait if something is still due, else for when something will be. The rows
-- are locked by the statement before, so no delivery made meanwhile is overlooked.
UPDATE destination AS p
SET due_at = (
    SELECT greatest(d.next_attempt_at, (SELECT instance_now()))
    FROM delivery AS d
    WHERE d.account_id = p.account_id AND d.place = p.place AND d.next_attempt_at IS NOT NULL AND {_SENDABLE}
    ORDER BY d.next_attempt_at, d.id
    LIMIT 1
)
FROM unnest($1::bigint[], $2::text[], $3::bigint[]) AS lane (account_id, place, token)
WHERE p.account_id = lane.account_id AND p.place = lane.place AND p.lease_token = lane.token
RETURNING p.due_at <= (SELECT instance_now()) AS due
"""  # noqa: S608 - a constant


class Hold(NamedTuple):
    """The lease of one place."""

    account_id: int
    place: str
    token: int


class Result(NamedTuple):
    """What came of one attempt, as it is written down. One that failed and has no `again_in` was the last."""

    hold: Hold
    url: str
    delivery_id: int
    number: int
    sent_at: int  # seconds of real time
    duration_ms: int
    code: int | None
    status: str
    excerpt: str
    error: str | None
    again_in: timedelta | None


@dataclass(frozen=True, slots=True)
class Wanted:
    """How much of a lane to read, and from where on."""

    hold: Hold
    after: tuple[datetime, int]
    rows: int


async def claim(
    db: Database, lease: timedelta, count: int, *, failing: bool, commanded: bool
) -> list[tuple[Hold, bool]]:
    """Leases up to `count` places; with each, whether it has been failing."""
    rows = await db.fetch(_CLAIM, lease, failing, count, commanded, CLOCK_LOCK)
    return [
        (Hold(row["account_id"], row["place"], row["lease_token"]), row["failing_since"] is not None) for row in rows
    ]


async def find_endpoints(db: Database, wanted: Sequence[tuple[int, int]]) -> list[Record | None]:
    """The webhooks of some (account, id), and what time it is there."""
    rows = await db.fetch(
        """
        SELECT account_id, id, url, status, secret_sealed, previous_sealed, previous_until, instance_now() AS now
        FROM webhook
        WHERE (account_id, id) IN (SELECT * FROM unnest($1::bigint[], $2::bigint[]))
        """,
        [account_id for account_id, _ in wanted],
        [webhook_id for _, webhook_id in wanted],
    )
    found = {(row["account_id"], row["id"]): row for row in rows}
    return [found.get(key) for key in wanted]


async def read(db: Database, wanted: Sequence[Wanted], *, commanded: bool) -> list[list[Record]]:
    """What is due in each lane; nothing while the clock is being moved by another."""
    rows = await db.fetch(
        _READ,
        [want.hold.account_id for want in wanted],
        [want.hold.place for want in wanted],
        [want.after[0] for want in wanted],
        [want.after[1] for want in wanted],
        [want.rows for want in wanted],
        commanded,
        CLOCK_LOCK,
    )
    found: list[list[Record]] = [[] for _ in wanted]
    for row in rows:
        found[row["n"] - 1].append(row)
    return found


async def record(db: Database, results: Sequence[Result]) -> int:
    """Writes outcomes; returns how many were still this worker's to write."""
    holds, urls, ids, numbers, sent, durations, codes, statuses, excerpts, errors, delays = zip(*results, strict=True)
    lanes = {lane: n for n, lane in enumerate(dict.fromkeys(zip(holds, urls, strict=True)), 1)}
    done = await db.execute(
        _RECORD,
        [hold.account_id for hold, _ in lanes],
        [hold.place for hold, _ in lanes],
        [hold.token for hold, _ in lanes],
        [url for _, url in lanes],
        [lanes[lane] for lane in zip(holds, urls, strict=True)],
        ids,
        numbers,
        sent,
        durations,
        codes,
        statuses,
        excerpts,
        errors if any(errors) else (),
        delays if any(delay is not None for delay in delays) else (),
    )
    return int(done.rpartition(" ")[2])


async def release(db: Database, holds: Sequence[Hold]) -> bool:
    """Gives lanes back; True when something is still due in one of them."""
    ordered = sorted(holds, key=lambda hold: (hold.account_id, hold.place))
    columns = (
        [hold.account_id for hold in ordered],
        [hold.place for hold in ordered],
        [hold.token for hold in ordered],
    )
    async with db.transaction() as connection:
        await connection.execute(_LET_GO, *columns)
        rows = await connection.fetch(_REQUEUE, *columns)
    return any(row["due"] for row in rows)


async def renew(db: Database, lease: timedelta, holds: Sequence[Hold]) -> None:
    await db.execute(
        """
        UPDATE destination AS p
        SET lease_until = clock_timestamp() + $4::interval
        FROM unnest($1::bigint[], $2::text[], $3::bigint[]) AS lane (account_id, place, token)
        WHERE p.account_id = lane.account_id AND p.place = lane.place AND p.lease_token = lane.token
        """,
        [hold.account_id for hold in holds],
        [hold.place for hold in holds],
        [hold.token for hold in holds],
        lease,
    )


async def mark_healthy(db: Database, hold: Hold) -> None:
    await db.execute(
        """
        UPDATE destination
        SET failing_since = NULL, last_failure_at = NULL
        WHERE account_id = $1 AND place = $2 AND lease_token = $3
        """,
        hold.account_id,
        hold.place,
        hold.token,
    )


async def mark_failing(db: Database, hold: Hold, window: timedelta) -> timedelta:
    """Notes a failure; returns for how long there has been nothing else.

    A silence longer than `window` between two failures proves nothing about the time between: the count begins anew.
    """
    lasted: timedelta | None = await db.fetchval(
        """
        UPDATE destination
        SET failing_since = CASE WHEN last_failure_at >= instance_now() - $4::interval
                                 THEN coalesce(failing_since, instance_now()) ELSE instance_now() END,
            last_failure_at = instance_now()
        WHERE account_id = $1 AND place = $2 AND lease_token = $3
        RETURNING last_failure_at - failing_since
        """,
        hold.account_id,
        hold.place,
        hold.token,
        window,
    )
    return lasted or timedelta(0)


async def cancel_waiting(db: Database, hold: Hold) -> int:
    """Gives up what waits for a place that is no more, a bounded number at a time."""
    done = await db.execute(
        """
        UPDATE delivery
        SET status = 'cancelled', next_attempt_at = NULL, updated_at = instance_now()
        WHERE (account_id, id) IN (
            SELECT account_id, id
            FROM delivery
            WHERE account_id = $1 AND place = $2 AND next_attempt_at IS NOT NULL
            LIMIT $3
        )
        """,
        hold.account_id,
        hold.place,
        CANCEL_BATCH,
    )
    return int(done.split()[1])


async def pause(db: Connection | Database, hold: Hold) -> None:
    await db.execute(
        "UPDATE destination SET paused = true WHERE account_id = $1 AND place = $2", hold.account_id, hold.place
    )


async def next_due(db: Database) -> datetime | None:
    moment: datetime | None = await db.fetchval(
        "SELECT min(due_at) FROM destination WHERE due_at IS NOT NULL AND NOT paused"
    )
    return moment


async def anything_due(db: Database) -> bool:
    """Whether a place wants to be served now, by whoever holds it or will."""
    due: bool = await db.fetchval(
        "SELECT EXISTS (SELECT FROM destination WHERE due_at <= instance_now() AND NOT paused)"
    )
    return due
