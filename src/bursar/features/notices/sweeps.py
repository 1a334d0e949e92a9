"""Sends notices that are due, a few at a time, beside the other due work."""

from __future__ import annotations

import asyncio
import smtplib
from datetime import datetime, timedelta

import structlog

from bursar.db.clock import CLOCK_LOCK
from bursar.db.pool import Database, Record
from bursar.db.sweep import Desk, Sweep, repeat
from bursar.events import schedule
from bursar.features.notices.mail import LoggedSms, Mail, Refused, mail_sender

log = structlog.get_logger()

BATCH = 8

_CLAIM = """
-- Notices whose time has come and that nobody is sending: take the lease, in real time.
UPDATE notice
SET lease_token = lease_token + 1, lease_until = clock_timestamp() + interval '60 seconds'
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

_RECORD = """
UPDATE notice
SET status = $4, attempts = attempts + 1, last_error = $5, lease_until = NULL,
    next_attempt_at = instance_now() + $6::interval,
    sent_at = CASE WHEN $4 IN ('sent', 'kept') THEN instance_now() END
WHERE account_id = $1 AND id = $2 AND lease_token = $3
"""

_HELD = """
SELECT EXISTS (SELECT FROM notice WHERE next_attempt_at <= instance_now() AND lease_until >= clock_timestamp())
"""


async def send_batch(desk: Desk, *, commanded: bool) -> int:
    rows = await desk.db.fetch(_CLAIM, BATCH, commanded, CLOCK_LOCK)
    await asyncio.gather(*(_send(desk, row) for row in rows))
    return len(rows)


async def _send(desk: Desk, row: Record) -> None:
    status, error, again_in = "sent", None, None
    try:
        sent = await asyncio.to_thread(_hand_over, desk, row)
        status = "sent" if sent else "kept"
    except Refused as refusal:
        status, error = "failed", str(refusal)
    except (OSError, smtplib.SMTPException) as problem:
        verdict = schedule.judge(None, row["attempts"] + 1, jitter=not desk.settings.is_test)
        status = "failed" if verdict.again_in is None else "pending"
        error, again_in = type(problem).__name__, verdict.again_in
        log.warning("notice.not_sent", notice_id=row["id"], error=error, exhausted=verdict.exhausted)
    await _record(desk.db, row, status, error, again_in)


def _hand_over(desk: Desk, row: Record) -> bool:
    """True when it went out; False when there is nothing it could go out by."""
    if row["channel"] == "sms":
        LoggedSms().send(row["recipient"], row["body_text"])
        return False
    sender = mail_sender(desk.settings)
    if sender is None:
        log.info("mail.not_sent", notice_id=row["id"], template=row["template"])
        return False
    sender.send(Mail(row["recipient"], row["subject"], row["body_text"], row["body_html"], row["message_id"]))
    return True


async def _record(db: Database, row: Record, status: str, error: str | None, again_in: timedelta | None) -> None:
    await db.execute(_RECORD, row["account_id"], row["id"], row["lease_token"], status, error, again_in)


async def _next_due(db: Database) -> datetime | None:
    moment: datetime | None = await db.fetchval("SELECT min(next_attempt_at) FROM notice")
    return moment


async def _run(desk: Desk, _: datetime) -> int:
    """While the clock is being moved: also waits for what another was sending when that began."""
    while not (sent := await send_batch(desk, commanded=True)) and await desk.db.fetchval(_HELD):  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    return sent


async def _run_always(desk: Desk, bell: asyncio.Event) -> None:
    await repeat(lambda: send_batch(desk, commanded=False), bell)


SWEEPS = (Sweep("notices", _run, _next_due, _run_always),)
