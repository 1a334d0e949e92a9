"""Notices in the database. Each is claimed by a lease, in real time, and written only by who still holds it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from bursar.db.clock import CLOCK_LOCK
from bursar.db.pool import Queryable, Record

LEASE = timedelta(minutes=3)  # longer than a mail server can keep one waiting

_CLAIM = """
-- Notices whose time has come and that nobody is sending. Who moves the clock commands; else hold still meanwhile.
UPDATE notice
SET lease_token = lease_token + 1, lease_until = clock_timestamp() + $4::interval
WHERE (account_id, id) IN (
    SELECT account_id, id
    FROM notice
    WHERE next_attempt_at <= (SELECT instance_now()) AND (lease_until IS NULL OR lease_until < clock_timestamp())
    ORDER BY next_attempt_at
    LIMIT $1
)
  AND next_attempt_at IS NOT NULL AND (lease_until IS NULL OR lease_until < clock_timestamp())
  AND (SELECT $2::boolean OR pg_try_advisory_xact_lock_shared($3))
RETURNING *
"""

_FACTS = """
-- The events that notices tell of, and how their accounts' people are reached.
SELECT event.account_id, event.event_id, event.body, event.created_at, account.business_company_name AS business,
       account.email, profile.mobile,
       account.platform_id IS NOT NULL AND account.connect_email_sms_handle = 'platform' AS platform_speaks
FROM unnest($1::bigint[], $2::text[]) AS wanted (account_id, event_id)
JOIN event USING (account_id, event_id)
JOIN account USING (account_id)
LEFT JOIN account_profile AS profile USING (account_id)
"""

_WRITE = """
UPDATE notice
SET recipient = w.recipient, subject = w.subject, body_text = w.body_text, body_html = w.body_html,
    message_id = w.message_id
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[])
     AS w (account_id, id, lease_token, recipient, subject, body_text, body_html, message_id)
WHERE notice.account_id = w.account_id AND notice.id = w.id AND notice.lease_token = w.lease_token
RETURNING notice.*
"""

_DROP = """
-- Nobody is to be told.
DELETE FROM notice
USING unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS d (account_id, id, lease_token)
WHERE notice.account_id = d.account_id AND notice.id = d.id AND notice.lease_token = d.lease_token
"""

_BY_SMS = """
INSERT INTO notice
    (account_id, id, channel, template, event_id, recipient, subject, body_text, message_id, next_attempt_at,
     created_at)
SELECT account_id, nextval('notice_id'), 'sms', template, event_id, recipient, text, text, '', at, at
FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::timestamptz[])
     AS s (account_id, template, event_id, recipient, text, at)
ON CONFLICT (account_id, event_id, channel) DO NOTHING
"""

_RECORD = """
UPDATE notice
SET status = r.status, attempts = attempts + 1, last_error = r.error, lease_until = NULL,
    next_attempt_at = instance_now() + r.again_in,
    sent_at = CASE WHEN r.status IN ('sent', 'kept') THEN instance_now() END
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::interval[])
     AS r (account_id, id, lease_token, status, error, again_in)
WHERE notice.account_id = r.account_id AND notice.id = r.id AND notice.lease_token = r.lease_token
"""


@dataclass(frozen=True, slots=True)
class Content:
    """What a notice says, now that it is known."""

    row: Record
    recipient: str
    subject: str
    text: str
    html: str
    message_id: str


@dataclass(frozen=True, slots=True)
class Sms:
    """A text message that goes with a notice."""

    row: Record
    recipient: str
    text: str


@dataclass(frozen=True, slots=True)
class Outcome:
    row: Record
    status: str
    error: str | None = None
    again_in: timedelta | None = None


def _held(rows: Sequence[Record]) -> tuple[list[int], list[int], list[int]]:
    return [row["account_id"] for row in rows], [row["id"] for row in rows], [row["lease_token"] for row in rows]


async def claim(db: Queryable, count: int, *, commanded: bool) -> list[Record]:
    return await db.fetch(_CLAIM, count, commanded, CLOCK_LOCK, LEASE)


async def facts(db: Queryable, rows: Sequence[Record]) -> dict[tuple[int, str], Record]:
    found = await db.fetch(_FACTS, [row["account_id"] for row in rows], [row["event_id"] for row in rows])
    return {(fact["account_id"], fact["event_id"]): fact for fact in found}


async def write(db: Queryable, contents: Sequence[Content]) -> list[Record]:
    """Returns them as written; one that another holds by now is not among them."""
    return await db.fetch(
        _WRITE,
        *_held([content.row for content in contents]),
        [content.recipient for content in contents],
        [content.subject for content in contents],
        [content.text for content in contents],
        [content.html for content in contents],
        [content.message_id for content in contents],
    )


async def drop(db: Queryable, rows: Sequence[Record]) -> None:
    await db.execute(_DROP, *_held(rows))


async def add_sms(db: Queryable, messages: Sequence[Sms]) -> None:
    await db.execute(
        _BY_SMS,
        [message.row["account_id"] for message in messages],
        [message.row["template"] for message in messages],
        [message.row["event_id"] for message in messages],
        [message.recipient for message in messages],
        [message.text for message in messages],
        [message.row["created_at"] for message in messages],
    )


async def record(db: Queryable, outcomes: Sequence[Outcome]) -> None:
    await db.execute(
        _RECORD,
        *_held([outcome.row for outcome in outcomes]),
        [outcome.status for outcome in outcomes],
        [outcome.error for outcome in outcomes],
        [outcome.again_in for outcome in outcomes],
    )


async def next_due(db: Queryable) -> datetime | None:
    moment: datetime | None = await db.fetchval("SELECT min(next_attempt_at) FROM notice")
    return moment


async def any_held(db: Queryable) -> bool:
    """Whether another is sending something that is due."""
    held: bool = await db.fetchval(
        """
        SELECT EXISTS (SELECT FROM notice WHERE next_attempt_at <= instance_now() AND lease_until >= clock_timestamp())
        """
    )
    return held


async def newest(db: Queryable, recipient: str, before: int | None, count: int) -> list[Record]:
    """For the mailbox: the latest that are written, of one recipient or of all."""
    return await db.fetch(
        """
        SELECT id, channel, template, recipient, subject, status, created_at
        FROM notice
        WHERE recipient IS NOT NULL AND ($1 = '' OR recipient = $1) AND ($2::bigint IS NULL OR id < $2)
        ORDER BY id DESC
        LIMIT $3
        """,
        recipient,
        before,
        count,
    )


async def find(db: Queryable, notice_id: int) -> Record | None:
    return await db.fetchrow("SELECT * FROM notice WHERE id = $1 AND recipient IS NOT NULL", notice_id)
