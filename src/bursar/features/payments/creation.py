"""Creating hosted payments: many at once, each decided before the database is asked, one live checkout per order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

import msgspec

from bursar.core.errors import ApiError, CurrencyNotSupported, DuplicateResource, ValidationFailed
from bursar.db.pool import Connection
from bursar.events.addresses import Refused, Rules, parse
from bursar.events.transport import rules_of
from bursar.features.payments import queries, reference, rules, views
from bursar.features.payments.processor import check_configured
from bursar.features.payments.schemas import NewHostedPayment
from bursar.http.context import Ctx
from bursar.http.envelope import Answer
from bursar.http.routes import Prepared
from bursar.settings import Settings

TRIES = 3  # a checkout that closes between two looks makes room for a new one


class NewRow(msgspec.Struct, frozen=True):
    """One payment to be written, and what is needed to answer for one that exists already."""

    values: Mapping[str, Any]
    public_id: str
    settings: Settings

    @property
    def order(self) -> tuple[int, str]:
        return self.values["account_id"], self.values["identifier"]


def prepare(ctx: Ctx, body: NewHostedPayment) -> Prepared:
    check_can_be_paid(ctx)
    check_addresses(ctx, body)
    amount = checked_amount(ctx, body.amount, body.currency)
    values = new_payment(
        ctx,
        ctx.id,
        kind="hosted",
        identifier=body.identifier,
        amount=amount,
        currency=body.currency,
        details=body.details,
        ipn_url=body.ipn_url,
        success_url=body.success_url,
        cancel_url=body.cancel_url,
        customer_name=body.customer_name,
        customer_email=body.customer_email,
        customer_phone=body.customer_phone,
        metadata=body.metadata,
        application_fee=platform_fee(ctx, body.connect_application_fee, amount, body.currency),
        expires_at=ctx.now + timedelta(seconds=body.expires_in),
    )
    public_id = ctx.account.public_id
    ctx.emit("transaction.created", {"transaction": views.transaction(values, public_id)})
    answer = views.hosted_payment(values, public_id, ctx.settings)
    return Prepared(NewRow(values, public_id, ctx.settings), answer, values)


def check_can_be_paid(ctx: Ctx) -> None:
    """`provider_not_configured` where there is no processor; a dry run needs none."""
    if not ctx.sandbox:
        check_configured(ctx.settings)


def checked_amount(ctx: Ctx, amount: Any, currency: str) -> int:
    if currency not in ctx.settings.currencies:
        raise CurrencyNotSupported(details={"currency": [f"must be one of {', '.join(ctx.settings.currencies)}"]})
    return rules.amount_minor(amount, currency)


def check_addresses(ctx: Ctx, body: Any) -> None:
    """The addresses a payment names: where the customer's browser returns to, and what the worker notifies."""
    problems = {}
    for name in ("success_url", "cancel_url"):
        url = getattr(body, name)
        if url is not None and (problem := rules.return_url_problem(url, plain_http=ctx.settings.is_test)):
            problems[name] = [problem]
    if body.ipn_url is not None and (problem := _notified_problem(body.ipn_url, rules_of(ctx.settings))):
        problems["ipn_url"] = [problem]
    if problems:
        raise ValidationFailed(details=problems)


@lru_cache(maxsize=4096)
def _notified_problem(url: str, allowed: Rules) -> str | None:
    """Why nothing may be sent there, as far as its spelling tells; where it leads is checked whenever it is used."""
    try:
        parse(url, allowed)
    except Refused as refusal:
        return str(refusal)
    return None


def platform_fee(ctx: Ctx, sent: Any, amount: int, currency: str) -> int | None:
    """The platform's fee on a payment of this account; None when it has none."""
    account = ctx.account
    if account.platform_id is None and sent is None:
        return None
    allowed = ctx.platform_mode and account.platform_id is not None
    return rules.application_fee(sent, account.application_fee_defaults, amount, currency, allowed=allowed)


def new_payment(
    ctx: Ctx,
    payment_id: int,
    *,
    kind: str,
    identifier: str,
    amount: int,
    currency: str,
    details: str,
    expires_at: datetime,
    application_fee: int | None = None,
    channel: str = "api",
    ipn_url: str | None = None,
    success_url: str | None = None,
    cancel_url: str | None = None,
    customer_name: str | None = None,
    customer_email: str | None = None,
    customer_phone: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    link_id: int | None = None,
    key: tuple[int, int] | None = None,
) -> dict[str, Any]:
    """All columns of a new payment, as the database will have them; `key` is whose key signs its IPN, and which."""
    account = ctx.account
    if key is None:
        key = (ctx.caller.owner.account_id, ctx.caller.key_id) if ctx.caller else (account.account_id, 0)
    return {
        **_UNTOUCHED,
        "account_id": account.account_id,
        "id": payment_id,
        "kind": kind,
        "channel": channel,
        "payment_reference": reference.make(reference.PAYMENT, payment_id),
        "identifier": identifier,
        "amount_minor": amount,
        "currency": currency,
        "details": details,
        "ipn_url": ipn_url,
        "success_url": success_url,
        "cancel_url": cancel_url,
        "customer_name": customer_name,
        "customer_email": customer_email,
        "customer_phone": customer_phone or None,
        "metadata": dict(metadata or {}),
        "link_id": link_id,
        "key_account_id": key[0],
        "key_id": key[1],
        "platform_id": account.platform_id,
        "fee_payer": account.fee_payer if account.platform_id is not None else "connected_account",
        "application_fee_minor": application_fee,
        "expires_at": expires_at,
        "created_at": ctx.now,
    }


# What nothing has happened to yet.
_UNTOUCHED: Mapping[str, Any] = {
    "status": "pending", "remark": None, "processor_reference": None, "fee_minor": 0, "refunded_minor": 0,
    "refunding_minor": 0, "reserve_minor": 0, "proof_status": None, "paid_at": None, "cancelled_at": None,
}  # fmt: skip


async def apply(db: Connection, rows: Sequence[NewRow]) -> Sequence[Answer | ApiError | None]:
    """Writes the payments; for each order that already has a live checkout, that one, or the conflict with it."""
    results: dict[int, Answer | ApiError | None] = {}
    waiting = {row.values["id"]: row for row in rows}
    for _ in range(TRIES):
        written = await queries.insert_many(db, [row.values for row in waiting.values()])
        results |= dict.fromkeys(written)
        waiting = {number: row for number, row in waiting.items() if number not in written}
        if not waiting:
            break
        live = await queries.live_of(db, [row.order for row in waiting.values()])
        for number, row in list(waiting.items()):
            if (existing := live.get(row.order)) is not None:
                results[number] = _existing(row, existing)
                del waiting[number]
    results |= {number: DuplicateResource() for number in waiting}
    return [results[row.values["id"]] for row in rows]


def _existing(row: NewRow, existing: views.Row) -> Answer | ApiError:
    """The same order again: the same checkout while it can still be paid and nothing differs, else a conflict."""
    asked = row.values
    same = all(asked[name] == existing[name] for name in ("amount_minor", "currency", "ipn_url"))
    usable = existing["status"] == "pending" and existing["closing"] is None
    if same and usable and existing["expires_at"] > asked["created_at"]:
        shown = views.hosted_payment(existing, row.public_id, row.settings)
        return Answer(msgspec.structs.replace(shown, reused=True), status=200)
    return DuplicateResource(
        "This identifier already has a payment.",
        details={
            "identifier": existing["identifier"],
            "payment_reference": existing["payment_reference"],
            "status": views.hosted_status(existing),
        },
    )
