"""Writes and sends notices that are due, some at a time, beside the other due work."""

from __future__ import annotations

import asyncio
import smtplib
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import structlog

from bursar.core.crashpoints import crashpoint
from bursar.db.pool import Record
from bursar.db.sweep import Desk, Sweep, repeat
from bursar.events import schedule
from bursar.features.notices import queries, service
from bursar.features.notices.mail import LoggedSms, Mail, MailSender, Refused, mail_sender
from bursar.features.notices.queries import Outcome

log = structlog.get_logger()

AT_ONCE = 8  # conversations with the mail server
BATCH_KEPT = 100  # where there is none


async def send_batch(desk: Desk, *, commanded: bool) -> int:
    sender = mail_sender(desk.settings)
    claimed = await queries.claim(desk.db, AT_ONCE if sender else BATCH_KEPT, commanded=commanded)
    if not claimed:
        return 0
    crashpoint("notice.claimed")
    if rows := await service.write(desk.db, claimed, desk.settings):
        outcomes = await _sent(desk, sender, rows)
        crashpoint("notice.sent")
        await queries.record(desk.db, outcomes)
    return len(claimed)


async def _sent(desk: Desk, sender: MailSender | None, rows: list[Record]) -> list[Outcome]:
    """What became of each. Every conversation has a thread of its own, so that all end within the lease."""
    if sender is None:
        return [_kept(row) for row in rows]
    kept = [_kept(row) for row in rows if row["channel"] == "sms"]
    mails = [row for row in rows if row["channel"] == "email"]
    threads = ThreadPoolExecutor(AT_ONCE)
    try:
        send = asyncio.get_running_loop().run_in_executor
        return kept + await asyncio.gather(*(send(threads, _send, desk, sender, row) for row in mails))
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


def _kept(row: Record) -> Outcome:
    """There is nothing it could go out by."""
    if row["channel"] == "sms":
        LoggedSms().send(row["recipient"], row["body_text"])
    return Outcome(row, "kept")


def _send(desk: Desk, sender: MailSender, row: Record) -> Outcome:
    mail = Mail(row["recipient"], row["subject"], row["body_text"], row["body_html"], row["message_id"])
    try:
        sender.send(mail)
    except Refused as refusal:
        return Outcome(row, "failed", str(refusal))
    except (OSError, smtplib.SMTPException) as problem:
        verdict = schedule.judge(None, row["attempts"] + 1, jitter=not desk.settings.is_test)
        error = type(problem).__name__
        log.warning("notice.not_sent", notice_id=row["id"], error=error, exhausted=verdict.exhausted)
        return Outcome(row, "failed" if verdict.again_in is None else "pending", error, verdict.again_in)
    except Exception:
        log.exception("notice.cannot_be_sent", notice_id=row["id"])
        return Outcome(row, "failed", "cannot be sent")
    return Outcome(row, "sent")


async def _run(desk: Desk, _: datetime) -> int:
    """While the clock is being moved: also waits for what another was sending when that began."""
    while not (sent := await send_batch(desk, commanded=True)) and await queries.any_held(desk.db):  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    return sent


async def _run_always(desk: Desk, bell: asyncio.Event) -> None:
    await repeat(lambda: send_batch(desk, commanded=False), bell)


SWEEPS = (Sweep("notices", _run, queries.next_due, _run_always),)
