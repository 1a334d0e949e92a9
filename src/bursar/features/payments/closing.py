"""Closing a checkout that was not paid: by request, at its expiry, or after too many attempts.

The processor is asked first. Only its word that nothing was or can be captured closes a payment; if the customer was
faster, the payment has succeeded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from bursar.core.errors import ApiError, CancelFailed, NotCancelable, NotFound, ProviderReferenceMissing
from bursar.db.pool import Connection
from bursar.features.payments import outcomes, queries, states, views
from bursar.features.payments.acting import acting_for
from bursar.features.payments.processor import processor_of
from bursar.features.payments.schemas import Transaction
from bursar.features.payments.states import Trigger
from bursar.http.context import Ctx
from bursar.http.routes import Outside
from bursar.processors.protocol import (
    AlreadyCaptured,
    Cancelled,
    CardProcessor,
    InFlight,
    PaymentState,
    Rejected,
    Unknown,
)


@dataclass(frozen=True, slots=True)
class Closed:
    """Nothing was captured, and nothing can be."""


@dataclass(frozen=True, slots=True)
class NotClosed:
    """The processor did not do it, and the payment goes on."""


Answer = Closed | NotClosed | PaymentState


async def ask_to_close(processor: CardProcessor, reference: str) -> Answer:
    """The processor's answer; a payment that turns out to be captured is returned as it is there.

    A call whose answer was lost is cleared up by asking for the state. `Unknown` while even that is not known.
    """
    answer: Cancelled | AlreadyCaptured | InFlight | None = None
    try:
        answer = await processor.cancel(reference)
    except Rejected:
        return NotClosed()
    except Unknown:
        pass
    if isinstance(answer, Cancelled):
        return Closed()
    state = await processor.confirm(reference)
    if state.captured_minor > 0:
        return state
    if state.status == "cancelled":
        return Closed()
    if answer is None and state.status != "processing":
        return NotClosed()
    raise Unknown("the bank has not decided yet")


async def close(ctx: Ctx, row: views.Row, trigger: Trigger) -> Mapping[str, Any] | None:
    """Ends the payment and tells of it; None when it is no longer what it was, and must be looked at again."""
    status = states.after(row["status"], trigger)
    if status is None:
        return None
    remark = states.REMARKS[trigger]
    closed = await queries.close(ctx.db, row["account_id"], row["id"], row["started_at"], status, remark, ctx.now)
    if closed is None:
        return None
    public_id = ctx.account.public_id
    if trigger == "cancel":
        ctx.emit("transaction.cancelled", {"transaction": views.transaction(closed, public_id)})
    elif trigger == "expiry":
        ctx.emit("hosted_payment.expired", {"hosted_payment": views.hosted_payment(closed, public_id, ctx.settings)})
    return dict(closed)


# POST /transactions/{id}/cancel -----------------------------------------------------------------------------------


async def begin_cancel(ctx: Ctx, _: Any) -> Mapping[str, Any]:
    """From here on nobody can start the checkout."""
    found = await _named(ctx)
    if found["status"] != "pending":
        raise NotCancelable(details={"status": found["status"]})
    if found["started_at"] is not None and found["processor_reference"] is None:
        raise ProviderReferenceMissing("The checkout is being opened at this moment; try again shortly.")
    await queries.set_closing(ctx.db, found["account_id"], found["id"], "cancel", found["due_at"], ctx.now)
    return {"payment_id": found["id"], "reference": found["processor_reference"]}


async def _named(ctx: Ctx) -> views.Row:
    row = await queries.lock(ctx.db, ctx.account.account_id, ctx.path_id())
    if row is None:
        raise NotFound
    return row


async def call_cancel(outside: Outside, intent: Mapping[str, Any]) -> Answer:
    if intent["reference"] is None:
        return Closed()  # the processor has never heard of it
    return await ask_to_close(processor_of(outside.settings), intent["reference"])


async def finish_cancel(ctx: Ctx, intent: Mapping[str, Any], answer: Answer) -> Transaction | ApiError:
    row = await queries.lock(ctx.db, ctx.account.account_id, intent["payment_id"])
    assert row is not None
    if isinstance(answer, PaymentState):
        await outcomes.apply(acting_for(ctx, cast("Connection", ctx.db)), [answer])
        return NotCancelable(details={"status": "succeeded"})
    if row["status"] == "pending" and isinstance(answer, NotClosed):
        await queries.set_closing(ctx.db, row["account_id"], row["id"], None, row["due_at"], ctx.now)
        return CancelFailed()
    closed = await close(ctx, row, "cancel") or row
    if closed["status"] != "cancelled":
        return NotCancelable(details={"status": closed["status"]})
    return views.transaction(closed, ctx.account.public_id)


async def pending_cancel(ctx: Ctx, intent: Mapping[str, Any]) -> Transaction:
    row = await queries.find(ctx.db, ctx.account.account_id, intent["payment_id"])
    assert row is not None
    return views.transaction(row, ctx.account.public_id)


async def dry_cancel(_: Mapping[str, Any]) -> Answer:
    return Closed()
