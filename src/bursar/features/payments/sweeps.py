"""What falls due with payments: checkouts to close or to ask about, and captures that came too late to send back."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from bursar.db.clock import instance_now
from bursar.db.pool import Database, Record, persist
from bursar.db.sweep import Desk, Sweep
from bursar.features.payments import callbacks, checkout, closing, queries
from bursar.features.payments.acting import acting_on
from bursar.features.payments.processor import processor_of, start_of
from bursar.features.payments.states import Trigger
from bursar.http.caller import load_account
from bursar.ledger import journals
from bursar.ledger.post import post
from bursar.processors.protocol import CardProcessor, PaymentState, Refund, Refunded, RefundRefused, Rejected, Unknown

log = structlog.get_logger()

BATCH = 64
SHORTEST_WAIT, LONGEST_WAIT = timedelta(seconds=5), timedelta(hours=1)
WAITS = (timedelta(seconds=5), timedelta(seconds=30), timedelta(minutes=2), timedelta(minutes=10), timedelta(hours=1))


# Checkouts ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Looked:
    """One payment that was due: what it is to be closed for, or what the processor said; None: ask again later."""

    row: Record
    answer: Trigger | PaymentState | None


def trigger_of(row: Record, now: datetime) -> Trigger | None:
    """Why a payment must be closed, if it must."""
    trigger: Trigger | None = row["closing"] or ("expiry" if row["expires_at"] <= now else None)
    return trigger


async def close_and_look(desk: Desk, now: datetime) -> int:
    """How many were dealt with. While the processor does not answer, that is none, and other sweeps get their turn."""
    rows = await queries.claim_due(desk.db, now, BATCH)
    done = 0
    if rows:
        looked = await asyncio.gather(*(_look(desk, row, now) for row in rows))
        await _close(desk, [one for one in looked if isinstance(one.answer, str)])
        said = [one.answer for one in looked if isinstance(one.answer, PaymentState)]
        if said:
            await checkout.learn(desk.db, desk.settings, said)
        for one in looked:
            if not isinstance(one.answer, str):
                await queries.look_again(desk.db, one.row["account_id"], one.row["id"], _when(one, now))
        done = sum(one.answer is not None for one in looked)
        desk.wake()
    return done


async def _look(desk: Desk, row: Record, now: datetime) -> Looked:
    trigger = trigger_of(row, now)
    if trigger is not None and row["started_at"] is None:
        return Looked(row, trigger)
    processor = processor_of(desk.settings)
    try:
        reference = row["processor_reference"] or await _found_again(desk, processor, row)
        if trigger is None:
            return Looked(row, await processor.confirm(reference))
        answer = await closing.ask_to_close(processor, reference)
    except Unknown:
        return Looked(row, None)
    except Rejected as error:
        log.error("payment.processor_rejects", payment_id=row["id"], code=error.code)
        return Looked(row, None)
    if isinstance(answer, closing.Closed):
        return Looked(row, trigger)
    return Looked(row, answer if isinstance(answer, PaymentState) else None)


async def _found_again(desk: Desk, processor: CardProcessor, row: Record) -> str:
    """The processor was called and its answer never written down: the same call again gives the same answer."""
    account = await load_account(desk.db, row["account_id"])
    assert account is not None
    started = await processor.start(start_of(row, account.business_company_name, desk.settings))
    now = await instance_now(desk.db)
    await queries.keep_reference(desk.db, row["account_id"], row["id"], started.reference, now)
    return started.reference


def _when(looked: Looked, now: datetime) -> datetime:
    """What must be closed, or could not be asked, is tried again soon, and then after twice the time each time."""
    row = looked.row
    if trigger_of(row, now) is None and looked.answer is not None:
        return checkout.next_look(row, now, row["looks"])
    since: datetime = row["expires_at"] if row["expires_at"] <= now else row["updated_at"]
    return now + min(max(now - since, SHORTEST_WAIT), LONGEST_WAIT)


async def _close(desk: Desk, looked: list[Looked]) -> None:
    async def write() -> None:
        async with desk.db.transaction("close") as db:
            acts = await acting_on(db, desk.settings, [one.row["account_id"] for one in looked])
            for one in sorted(looked, key=lambda one: (one.row["account_id"], one.row["id"])):
                assert isinstance(one.answer, str)
                if await closing.close(acts[one.row["account_id"]], one.row, one.answer) is None:
                    await queries.look_again(db, one.row["account_id"], one.row["id"], acts.now)
            await acts.write_events()

    if looked:
        await persist(write)


# Late captures ------------------------------------------------------------------------------------------------------


async def refund_late_captures(desk: Desk, now: datetime) -> int:
    """Money captured after its payment was closed goes back to the customer by itself."""
    cases = await queries.claim_cases(desk.db, now, BATCH)
    for case in cases:
        row = await queries.find(desk.db, case["account_id"], case["payment_id"])
        assert row is not None
        refund = Refund(
            key=f"late-capture-{row['id']}",
            payment_reference=case["facts"]["processor_reference"],
            amount_minor=row["amount_minor"],
            currency=row["currency"],
        )
        try:
            answer = await processor_of(desk.settings).refund(refund)
        except (Unknown, Rejected) as error:
            log.warning("late_capture.not_refunded", payment_id=row["id"], error=str(error))
            await queries.case_later(desk.db, case, now + WAITS[min(case["looks"], len(WAITS)) - 1])
            continue
        await persist(lambda case=case, row=row, answer=answer: _sent_back(desk, case, row, answer))  # type: ignore[misc]
    return len(cases)


async def _sent_back(desk: Desk, case: Record, row: Record, answer: Refunded | RefundRefused) -> None:
    async with desk.db.transaction("late_capture") as db:
        now = await instance_now(db)
        if isinstance(answer, RefundRefused):
            log.error("late_capture.refund_refused", payment_id=row["id"], code=answer.code)
            await queries.case_is(db, case, "refund_failed", now)
            return
        journal = journals.late_capture_refund(
            account_id=row["account_id"],
            transaction_id=row["id"],
            currency=row["currency"],
            amount=row["amount_minor"],
            note=row["payment_reference"],
        )
        await post(db, [journal])
        await queries.case_is(db, case, "refunded", now)


async def _next_due(db: Database) -> datetime | None:
    return await queries.next_due(db)


async def _next_case(db: Database) -> datetime | None:
    return await queries.next_case_due(db)


SWEEPS = (
    callbacks.SWEEP,
    Sweep("checkouts", close_and_look, _next_due),
    Sweep("late_captures", refund_late_captures, _next_case),
)
