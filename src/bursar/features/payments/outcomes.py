"""What the processor says became of payments, applied once, in one transaction for many.

A state of the processor is the whole truth about a payment: every attempt, and whether it was captured. Applying one
twice, late or after a newer one changes nothing, so it does not matter who learns of it first: the customer's return,
a callback, or a look of the worker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec
import structlog

from bursar.core.calendar import settlement_date
from bursar.core.money import Money
from bursar.db.pool import Record
from bursar.events.ipn import Failure, Ipn, SigningKey
from bursar.features.payments import queries, reference, rules, states, views
from bursar.features.payments.acting import Acts
from bursar.features.payments.followers import FOLLOWERS
from bursar.http.context import Ctx
from bursar.ledger import journals
from bursar.ledger.lines import Journal
from bursar.ledger.post import post
from bursar.processors.protocol import Attempt, PaymentState

log = structlog.get_logger()


@dataclass(slots=True)
class Change:
    """One payment on its way from what was known of it to what is known now."""

    row: Record
    state: PaymentState
    values: dict[str, Any]  # the columns that may change
    after: Mapping[str, Any] = field(default_factory=dict)  # all columns, as they will be
    attempts: list[dict[str, Any]] = field(default_factory=list)
    captured: bool = False  # just now
    late: bool = False  # captured, though it had been closed

    @property
    def is_news(self) -> bool:
        """A callback often tells what the customer's return has told already."""
        changed = any(self.row[name] != value for name, value in self.values.items())
        return changed or self.late or self.state.concern is not None


@dataclass(frozen=True, slots=True)
class Result:
    """What is known of a payment now, or why the processor's word was not believed."""

    payment: views.Row | None
    mismatch: str | None = None


def place_of(state: PaymentState) -> tuple[int, int]:
    """Account and number of the payment that the processor means; there is no payment 0."""
    return state.account_id, reference.number_of(reference.PAYMENT, state.our_reference) or 0


async def apply(acts: Acts, said: Sequence[PaymentState]) -> list[Result]:
    """Applies what the processor said, in the open transaction. Events are left in `acts` for its owner to write."""
    places = [place_of(state) for state in said]
    rows = await queries.lock_many(acts.db, sorted(set(places)))
    known = await queries.known_attempts(acts.db, [place for place, row in rows.items() if row["attempts"]])
    problems = [mismatch(rows.get(place), state) for place, state in zip(places, said, strict=True)]
    newest: dict[tuple[int, int], PaymentState] = {}
    for place, state, problem in zip(places, said, problems, strict=True):
        if problem is None:
            newest[place] = max(newest.get(place, state), state, key=_progress)
    changes = {
        place: decide(rows[place], known.get(place, frozenset()), state, acts[place[0]], acts.now)
        for place, state in newest.items()
    }
    await _write(acts, [change for change in changes.values() if change.is_news])
    now: dict[tuple[int, int], views.Row] = {**rows, **{place: one.after for place, one in changes.items()}}
    return [Result(now.get(place), problem) for place, problem in zip(places, problems, strict=True)]


def _progress(state: PaymentState) -> tuple[int, int]:
    """Of two states of one payment, the later one has more attempts, or the capture."""
    return state.captured_minor, len(state.attempts)


def mismatch(row: views.Row | None, state: PaymentState) -> str | None:
    """Why what the processor says cannot be about this payment."""
    if row is None:
        return "unknown_payment"
    if row["processor_reference"] not in (None, state.reference):
        return "reference"
    if state.currency != row["currency"]:
        return "currency"
    if state.amount_minor != row["amount_minor"] or state.captured_minor not in (0, row["amount_minor"]):
        return "amount"
    return None


def decide(row: Record, known: frozenset[str], state: PaymentState, ctx: Ctx, now: datetime) -> Change:
    """What is new in a state, by the table of states: attempts, a capture, or a capture that came too late."""
    pending = row["status"] == "pending"
    values: dict[str, Any] = {
        "status": row["status"],
        "processor_reference": state.reference,
        "started_at": row["started_at"] or now,
        "attempts": row["attempts"],
        "fee_minor": row["fee_minor"],
        "paid_at": row["paid_at"],
        "closing": row["closing"],
        "due_at": row["due_at"],
    }
    change = Change(row, state, values)
    for attempt in state.attempts:
        if attempt.status in ("failed", "succeeded") and attempt.reference not in known:
            values["attempts"] += 1
            change.attempts.append(_attempt_row(row, attempt, values["attempts"]))
    if state.captured_minor > 0:
        change.captured = states.after(row["status"], "captured") == "succeeded"
        change.late = row["status"] in states.CLOSED
    if change.captured:
        fee = rules.processing_fee(ctx.account.merchant_pricing, row["channel"], row["amount_minor"], row["currency"])
        values |= {"status": "succeeded", "fee_minor": fee, "paid_at": now, "closing": None, "due_at": None}
    elif pending and values["attempts"] >= states.ATTEMPTS_LARGEST and row["closing"] is None:
        values |= {"closing": "attempts", "due_at": now}
    change.after = {**row, **values}
    return change


def _attempt_row(row: Record, attempt: Attempt, n: int) -> dict[str, Any]:
    error = attempt.error
    return {
        "account_id": row["account_id"],
        "payment_id": row["id"],
        "n": n,
        "reference": attempt.reference,
        "status": attempt.status,
        "error_code": error.code if error else None,
        "decline_code": error.decline_code if error else None,
        "message": error.message if error else None,
        "holder": attempt.holder or None,
        "last4": attempt.last4 or None,
        "at": attempt.at,
    }


# Writing it down ----------------------------------------------------------------------------------------------------


async def _write(acts: Acts, changes: list[Change]) -> None:
    if not changes:
        return
    notices: list[Ipn] = []
    for change in changes:
        _tell(acts[change.row["account_id"]], change, notices)
    attempts = [attempt for change in changes for attempt in change.attempts]
    await queries.write_outcomes(acts.db, [change.after for change in changes], attempts, notices, acts.now)
    await post(acts.db, [*_payment_journals(changes, acts.now), *await _late_captures(acts, changes)])
    for change in changes:
        await _follow(acts[change.row["account_id"]], change)


def _payment_journals(changes: list[Change], now: datetime) -> list[Journal]:
    settles_at = settlement_date(now)
    return [
        journals.payment(
            account_id=change.row["account_id"],
            transaction_id=change.row["id"],
            currency=change.row["currency"],
            amount=change.row["amount_minor"],
            settles_at=None if change.state.funds_available_at_once else settles_at,
            processing_fee=change.values["fee_minor"],
            application_fee=change.row["application_fee_minor"] or 0,
            platform_id=change.row["platform_id"],
            fee_payer=change.row["fee_payer"],
            note=change.row["payment_reference"],
            event_at=change.state.attempts[-1].at if change.state.attempts else now,
        )
        for change in changes
        if change.captured
    ]


async def _late_captures(acts: Acts, changes: list[Change]) -> list[Journal]:
    """Money of a payment that was closed belongs to nobody here; a case is opened, and the worker sends it back."""
    found = []
    for change in changes:
        if not change.late:
            continue
        row = change.row
        facts = {"processor_reference": change.state.reference, "status": row["status"], "remark": row["remark"]}
        if await queries.open_case(acts.db, "late_capture", row["account_id"], row["id"], facts, acts.now, acts.now):
            log.warning("payment.late_capture", account_id=row["account_id"], payment_id=row["id"])
        found.append(
            journals.late_capture(
                account_id=row["account_id"],
                transaction_id=row["id"],
                currency=row["currency"],
                amount=row["amount_minor"],
                note=row["payment_reference"],
            )
        )
    return found


def _tell(ctx: Ctx, change: Change, notices: list[Ipn]) -> None:
    """Events and notifications of what happened, in the order it happened. A paid payment reports no more failures."""
    row = change.row
    if row["status"] == "pending":
        for attempt in change.attempts:
            if attempt["status"] == "failed":
                _tell_failed(ctx, row, attempt, notices)
    if change.captured:
        _tell_paid(ctx, change, notices)


async def _follow(ctx: Ctx, change: Change) -> None:
    """What others do about it, and tell, once it is written."""
    row = change.row
    if change.captured and (follow := FOLLOWERS.paid.get(row["kind"])) is not None:
        await follow(ctx, change.after)
    if change.after["status"] in states.PAID and change.state.concern is not None:
        if (watch := FOLLOWERS.concerns.get(change.state.concern)) is not None:
            await watch(ctx, change.after)
        else:
            log.warning("payment.concern", concern=change.state.concern, payment_id=row["id"])


def _tell_failed(ctx: Ctx, row: Record, attempt: Mapping[str, Any], notices: list[Ipn]) -> None:
    """The order is not finally failed; what is told of it carries the failed attempt."""
    shown = msgspec.structs.replace(
        views.transaction(row, ctx.account.public_id), status="failed", attempt=views.attempt(attempt)
    )
    ctx.emit("transaction.failed", {"transaction": shown})
    failure = Failure(attempt["error_code"], attempt["message"] or "", attempt["decline_code"])
    notices += _notices(ctx, row, attempt["holder"], failure)


def _tell_paid(ctx: Ctx, change: Change, notices: list[Ipn]) -> None:
    ctx.emit("transaction.succeeded", {"transaction": views.transaction(change.after, ctx.account.public_id)})
    holders = [attempt.holder for attempt in change.state.attempts if attempt.status == "succeeded"]
    notices += _notices(ctx, change.row, holders[-1] if holders else None, None)


def _notices(ctx: Ctx, row: Record, holder: str | None, failure: Failure | None) -> list[Ipn]:
    """The payment's own notification, if it wants any, under the id of the event just emitted."""
    if row["ipn_url"] is None:
        return []
    notice = Ipn(
        account_id=row["account_id"],
        url=row["ipn_url"],
        key=SigningKey(row["key_account_id"], row["key_id"]),
        status="failed" if failure else "success",
        identifier=row["identifier"],
        amount=Money(row["amount_minor"], row["currency"]),
        payment_trx=row["payment_reference"],
        account_holder=holder or row["customer_name"] or "",
        payment_type=row["kind"],
        error=failure,
        event_id=ctx.events[-1].event_id,
    )
    return [notice]
