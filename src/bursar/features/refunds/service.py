"""Refunding: the money is set aside and the intent written, then the processor is asked, then the outcome is written.

A refund that the processor refuses leaves everything as it was; one whose answer is lost is asked for again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bursar.core.errors import (
    ApiError,
    InvalidRefundAmount,
    NotRefundable,
    ProviderReferenceMissing,
    RefundExceedsTransaction,
    RefundFailed,
    ValidationFailed,
)
from bursar.core.money import InvalidAmount, format_major, parse_major
from bursar.features.payments import service as payments
from bursar.features.payments.service import Row
from bursar.features.refunds import queries
from bursar.features.refunds.schemas import NewRefund, Refund, RefundedTransaction
from bursar.http.context import Ctx
from bursar.http.routes import Outside
from bursar.ledger import journals
from bursar.ledger.post import post
from bursar.processors import protocol
from bursar.processors.protocol import Refunded, RefundRefused, Rejected


def as_reply(row: Row) -> Refund:
    currency = row["currency"]
    return Refund(
        id=row["id"],
        reference=f"RFD-{row['id']}",
        transaction_id=row["payment_id"],
        amount=format_major(row["amount_minor"], currency),
        currency=currency,
        reason=row["reason"],
        status=row["status"],
        failure_reason=row["failure_reason"],
        application_fee_reversed=format_major(row["application_fee_reversed_minor"], currency),
        created_at=row["created_at"],
    )


def _reply(ctx: Ctx, payment: Row, refund: Row) -> RefundedTransaction:
    return RefundedTransaction(payments.transaction(payment, ctx.account.public_id), as_reply(refund))


# How much -----------------------------------------------------------------------------------------------------------


def refund_amount(payment: Row, body: NewRefund) -> int:
    """Minor units to refund, within what is left of the payment."""
    if payment["status"] != "succeeded":
        raise NotRefundable(details={"status": payment["status"]})
    left = payment["amount_minor"] - payment["refunded_minor"] - payment["refunding_minor"]
    try:
        amount = left if body.amount is None else parse_major(body.amount, payment["currency"])
    except InvalidAmount as error:
        raise ValidationFailed(details={"amount": [str(error)]}) from None
    if amount <= 0 and body.amount is not None:
        raise InvalidRefundAmount
    if amount > left or left == 0:
        raise RefundExceedsTransaction(details={"refundable_amount": format_major(left, payment["currency"])})
    return amount


def fee_share(payment: Row, amount: int, *, reverse: bool) -> int:
    """What of the platform's fee goes back with this refund."""
    fee: int = payment["application_fee_minor"] or 0
    if not reverse or not fee:
        return 0
    share = journals.application_fee_share(
        application_fee=fee,
        amount=amount,
        payment_amount=payment["amount_minor"],
        refunded_before=payment["refunded_minor"] + payment["refunding_minor"],
    )
    left: int = fee - payment["application_fee_back_minor"]
    return min(share, left)


# POST /transactions/{id}/refund -------------------------------------------------------------------------------------


async def begin(ctx: Ctx, body: NewRefund) -> Mapping[str, Any]:
    payment = await payments.locked(ctx)
    amount = refund_amount(payment, body)
    if payment["processor_reference"] is None:
        raise ProviderReferenceMissing
    share = fee_share(payment, amount, reverse=body.reverse_application_fee)
    refund_id = await queries.next_id(ctx.db)
    await queries.insert(
        ctx.db, payment["account_id"], refund_id, payment_id=payment["id"], amount=amount,
        currency=payment["currency"], reason=body.reason, application_fee_reversed=share, now=ctx.now,
    )  # fmt: skip
    await queries.hold(ctx.db, payment["account_id"], payment["id"], amount, share, ctx.now)
    await post(ctx.db, [journals.refund(**_facts(payment, refund_id, amount, share))], require=True)
    return {
        "refund_id": refund_id,
        "payment_id": payment["id"],
        "reference": payment["processor_reference"],
        "amount_minor": amount,
        "currency": payment["currency"],
    }


def _facts(payment: Row, refund_id: int, amount: int, share: int) -> dict[str, Any]:
    return {
        "account_id": payment["account_id"],
        "refund_id": refund_id,
        "transaction_id": payment["id"],
        "currency": payment["currency"],
        "amount": amount,
        "application_fee_reversed": share,
        "platform_id": payment["platform_id"],
        "note": payment["payment_reference"],
    }


async def call(outside: Outside, intent: Mapping[str, Any]) -> Refunded | RefundRefused:
    wanted = protocol.Refund(
        key=f"refund-{intent['refund_id']}",
        payment_reference=intent["reference"],
        amount_minor=intent["amount_minor"],
        currency=intent["currency"],
    )
    try:
        return await payments.processor_of(outside.settings).refund(wanted)
    except Rejected as error:
        return RefundRefused(error.code)


async def finish(
    ctx: Ctx, intent: Mapping[str, Any], answer: Refunded | RefundRefused
) -> RefundedTransaction | ApiError:
    account_id, amount = ctx.account.account_id, intent["amount_minor"]
    payment = await payments.lock(ctx.db, account_id, intent["payment_id"])
    assert payment is not None
    if isinstance(answer, RefundRefused):
        return await _refused(ctx, payment, intent, answer.code)
    refund = await queries.finish(
        ctx.db, account_id, intent["refund_id"], status="succeeded", failure=None, reference=answer.reference,
        now=ctx.now,
    )  # fmt: skip
    after = await queries.settle(ctx.db, account_id, payment["id"], amount, ctx.now)
    reply = _reply(ctx, after, refund)
    previous = {"refunded_amount": format_major(payment["refunded_minor"], payment["currency"])}
    ctx.emit("transaction.refunded", {"transaction": reply.transaction, "refund": reply.refund}, previous=previous)
    if (follow := payments.FOLLOWERS.refunded.get(payment["kind"])) is not None:
        await follow(ctx, after)
    return reply


async def _refused(ctx: Ctx, payment: Row, intent: Mapping[str, Any], code: str) -> RefundFailed:
    """Everything goes back to where it was; the refund stays on record as failed."""
    account_id = ctx.account.account_id
    refund = await queries.finish(
        ctx.db, account_id, intent["refund_id"], status="failed", failure=code, reference=None, now=ctx.now
    )
    amount, share = refund["amount_minor"], refund["application_fee_reversed_minor"]
    await queries.give_up(ctx.db, account_id, payment["id"], amount, share, ctx.now)
    await post(ctx.db, [journals.refund_failed(**_facts(payment, refund["id"], amount, share))])
    return RefundFailed(details={"refund": f"RFD-{refund['id']}", "reason": code})


async def pending(ctx: Ctx, intent: Mapping[str, Any]) -> RefundedTransaction:
    payment = await payments.lock(ctx.db, ctx.account.account_id, intent["payment_id"])
    assert payment is not None
    return _reply(ctx, payment, await queries.find(ctx.db, ctx.account.account_id, intent["refund_id"]))


async def dry_run(intent: Mapping[str, Any]) -> Refunded:
    return Refunded(f"sandbox-{intent['refund_id']}")
