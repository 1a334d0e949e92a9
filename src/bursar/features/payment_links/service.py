"""Links, and the payments that customers make behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, cast

from msgspec import UNSET

from bursar.core.errors import NotCancelable, NotFound, ServiceUnavailable, ValidationFailed
from bursar.core.money import format_major
from bursar.db.pool import Connection, Database, persist
from bursar.features.payment_links import queries
from bursar.features.payment_links.queries import find
from bursar.features.payment_links.schemas import NewPaymentLink, PaymentLink
from bursar.features.payments import service as payments
from bursar.features.payments.service import Row
from bursar.http.context import Ctx
from bursar.http.routes import Prepared
from bursar.settings import Settings

__all__ = ["as_reply", "cancel", "checkout_for", "checkout_url", "find", "open_payment"]

PAGE = "link"
PAYABLE_FOR = timedelta(hours=24)
CANCEL_TRIES = 10


class _OpenedMeanwhile(Exception):
    """A customer has opened the link since its payments were locked."""


def checkout_url(settings: Settings, account_id: int, link_id: int) -> str:
    return f"{settings.public_url}/link/{settings.page_keys.token(PAGE, account_id, link_id)}"


def as_reply(row: Row, public_id: str, settings: Settings) -> PaymentLink:
    fee, currency = row["application_fee_minor"], row["currency"]
    address = checkout_url(settings, row["account_id"], row["id"])
    return PaymentLink(
        id=row["id"],
        account_id=public_id,
        reference=row["reference"],
        amount=format_major(row["amount_minor"], currency),
        currency=currency,
        status=row["status"],
        checkout_url=address,
        qr_url=f"{address}/qr.svg",
        details=row["details"],
        customer_name=row["customer_name"],
        customer_email=row["customer_email"],
        metadata=row["metadata"],
        max_payments=row["max_payments"],
        payments=row["payments"],
        expires_at=row["expires_at"],
        created_at=row["created_at"],
        connect_application_fee=UNSET if fee is None else format_major(fee, currency),
    )


def prepare(ctx: Ctx, body: NewPaymentLink) -> Prepared:
    payments.check_can_be_paid(ctx)
    payments.check_addresses(ctx, body)
    amount = payments.checked_amount(ctx, body.amount, body.currency)
    if body.expires_at is not None and body.expires_at <= ctx.now:
        raise ValidationFailed(details={"expires_at": ["must be in the future"]})
    assert ctx.caller is not None
    values = {
        "account_id": ctx.account.account_id,
        "id": ctx.id,
        "reference": payments.reference.make(payments.reference.LINK, ctx.id),
        "amount_minor": amount,
        "currency": body.currency,
        "details": body.details,
        "ipn_url": body.ipn_url,
        "success_url": body.success_url,
        "cancel_url": body.cancel_url,
        "customer_name": body.customer_name,
        "customer_email": body.customer_email,
        "metadata": body.metadata,
        "application_fee_minor": payments.platform_fee(ctx, body.connect_application_fee, amount, body.currency),
        "status": "pending",
        "max_payments": body.max_payments,
        "payments": 0,
        "key_account_id": ctx.caller.owner.account_id,
        "key_id": ctx.caller.key_id,
        "expires_at": body.expires_at,
        "created_at": ctx.now,
    }
    return Prepared(values, as_reply(values, ctx.account.public_id, ctx.settings), values)


async def apply(db: Connection, rows: Sequence[Mapping[str, Any]]) -> Sequence[None]:
    await queries.insert_many(db, rows)
    return [None] * len(rows)


async def cancel(ctx: Ctx, link_id: int) -> Row:
    """Ends the link at once; a checkout that is open behind it is closed once the processor agrees.

    Payments are locked before their link, as they are when they are paid. For one that was made meanwhile the link is
    let go again: whoever is paying it holds it, and waits for the link.
    """
    ctx.wakes_worker = True
    for _ in range(CANCEL_TRIES):
        await queries.close_open(ctx.db, ctx.account.account_id, link_id, ctx.now)
        with suppress(_OpenedMeanwhile):
            async with cast("Connection", ctx.db).transaction():
                return await _cancel_closed(ctx, link_id)
    raise ServiceUnavailable("Customers are paying the link at this moment; try again.", headers={"Retry-After": "1"})


async def _cancel_closed(ctx: Ctx, link_id: int) -> Row:
    row = await queries.lock(ctx.db, ctx.account.account_id, link_id)
    if row is None:
        raise NotFound
    if row["status"] != "pending":
        raise NotCancelable(details={"status": row["status"]})
    if await queries.has_open(ctx.db, ctx.account.account_id, link_id):
        raise _OpenedMeanwhile
    return await queries.cancel(ctx.db, row["account_id"], row["id"], ctx.now)


# A customer comes ---------------------------------------------------------------------------------------------------


async def open_payment(ctx: Ctx, link_id: int) -> int | None:
    """The payment for a customer who opens the link now; None when there is nothing (more) to pay.

    Never more checkouts than payments it takes: when as many are open as are left, customers share the oldest.
    """
    link = await queries.lock(ctx.db, ctx.account.account_id, link_id)
    if link is None or link["status"] != "pending":
        return None
    if link["expires_at"] is not None and link["expires_at"] <= ctx.now:
        return None
    waiting = await queries.open_payments(ctx.db, link["account_id"], link_id)
    if link["payments"] + len(waiting) >= link["max_payments"]:
        return next((row["id"] for row in waiting if payments.is_open(row, ctx.now)), None)
    payment_id = await payments.next_id(ctx.db)
    await payments.insert_many(ctx.db, [_payment(ctx, payment_id, link, await _number(ctx, link))])
    return payment_id


async def _number(ctx: Ctx, link: Row) -> int:
    return await queries.count_opened(ctx.db, link["account_id"], link["id"])


def _payment(ctx: Ctx, payment_id: int, link: Row, number: int) -> dict[str, Any]:
    values = payments.new_payment(
        ctx,
        payment_id,
        kind="link",
        identifier=f"{link['reference']}-{number}",
        amount=link["amount_minor"],
        currency=link["currency"],
        details=link["details"],
        ipn_url=link["ipn_url"],
        success_url=link["success_url"],
        cancel_url=link["cancel_url"],
        customer_name=link["customer_name"],
        customer_email=link["customer_email"],
        metadata=link["metadata"],
        application_fee=link["application_fee_minor"],
        expires_at=min(filter(None, (ctx.now + PAYABLE_FOR, link["expires_at"]))),
        link_id=link["id"],
        key=(link["key_account_id"], link["key_id"]),
    )
    ctx.emit("transaction.created", {"transaction": payments.transaction(values, ctx.account.public_id)})
    return values


async def checkout_for(db: Database, settings: Settings, account_id: int, link_id: int) -> int | None:
    """`open_payment` in a transaction of its own: for the page."""

    async def write() -> int | None:
        async with db.transaction("open_link") as connection:
            acts = await payments.acting_on(connection, settings, [account_id])
            payment_id = await open_payment(acts[account_id], link_id) if account_id in acts.contexts else None
            await acts.write_events()
        return payment_id

    return await persist(write)


async def _open_for_operator(ctx: Ctx, link_id: int) -> tuple[int, int] | None:
    account_id = await queries.account_of(ctx.db, link_id)
    if account_id is None:
        return None
    acts = await payments.acting_on(ctx.db, ctx.settings, [account_id])  # type: ignore[arg-type]  # in a transaction
    payment_id = await open_payment(acts[account_id], link_id)
    await acts.write_events()
    return None if payment_id is None else (account_id, payment_id)


async def _paid(ctx: Ctx, payment: Row) -> None:
    link = await queries.paid_once(ctx.db, payment["account_id"], payment["link_id"], ctx.now)
    ctx.emit("payment_link.paid", {"payment_link": as_reply(link, ctx.account.public_id, ctx.settings)})


payments.FOLLOWERS.paid["link"] = _paid
payments.LINKS[payments.reference.LINK] = _open_for_operator
