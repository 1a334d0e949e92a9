"""/hosted-payments, and the alias POST /transactions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bursar.core.errors import (
    CancelFailed,
    CurrencyNotSupported,
    DuplicateResource,
    InvalidConnectApplicationFee,
    NotCancelable,
    NotFound,
    ProviderNotConfigured,
    ProviderReferenceMissing,
)
from bursar.db.pool import Record
from bursar.features.payments import closing, creation, queries, service, views
from bursar.features.payments.schemas import (
    CancelPayment,
    HostedPayment,
    HostedPaymentQuery,
    NewHostedPayment,
    Transaction,
)
from bursar.http import shown
from bursar.http.caller import Gate
from bursar.http.context import Ctx
from bursar.http.envelope import Page
from bursar.http.routes import Batched, Processor, Read, Route


async def show_hosted_payment(ctx: Ctx, _: None) -> HostedPayment:
    [payment] = await _hosted_payments(ctx, [await service.named(ctx, ctx.path["id"])])
    return payment


async def list_hosted_payments(ctx: Ctx, query: HostedPaymentQuery) -> Page:
    return await shown.page(
        ctx, queries.HOSTED, (ctx.account.account_id,), query, _hosted_payments,
        filters={"identifier": query.identifier},
    )  # fmt: skip


async def _hosted_payments(ctx: Ctx, rows: Sequence[Record]) -> list[HostedPayment]:
    tried = [row["id"] for row in rows if row["attempts"]]
    attempts = await queries.attempts_of(ctx.db, ctx.account.account_id, tried) if tried else {}
    return [views.hosted_payment(row, ctx.account.public_id, ctx.settings, attempts.get(row["id"], ())) for row in rows]


def _create(path: str, name: str, summary: str, **more: Any) -> Route:
    return Route(
        method="POST",
        path=path,
        name=name,
        summary=summary,
        tag="Hosted payments",
        scope="payments:write",
        gate=Gate.PAYMENTS,
        body=NewHostedPayment,
        reply=HostedPayment,
        status=201,
        also=(200,),
        errors=(CurrencyNotSupported, InvalidConnectApplicationFee, DuplicateResource, ProviderNotConfigured),
        handler=Batched("payment_id", creation.prepare, creation.apply, queries.NEW),
        **more,
    )


ROUTES = (
    _create("/hosted-payments", "create_hosted_payment", "Create a hosted checkout for an order."),
    _create("/transactions", "create_transaction", "Create a hosted checkout.", successor="/hosted-payments"),
    Route(
        method="GET",
        path="/hosted-payments",
        name="list_hosted_payments",
        summary="Hosted payments, or those of one order.",
        tag="Hosted payments",
        scope="payments:read",
        query=HostedPaymentQuery,
        reply=HostedPayment,
        is_list=True,
        handler=Read(list_hosted_payments),
    ),
    Route(
        method="GET",
        path="/hosted-payments/{id}",
        name="show_hosted_payment",
        summary="One hosted payment, by id or payment reference, with its attempts.",
        tag="Hosted payments",
        scope="payments:read",
        reply=HostedPayment,
        errors=(NotFound,),
        handler=Read(show_hosted_payment),
    ),
    Route(
        method="POST",
        path="/transactions/{id}/cancel",
        name="cancel_transaction",
        summary="Cancel a pending transaction: its checkout can no longer be paid.",
        tag="Transactions",
        scope="transactions:write",
        gate=Gate.WRITE,
        body=CancelPayment,
        reply=Transaction,
        wrap="transaction",
        errors=(NotFound, NotCancelable, CancelFailed, ProviderReferenceMissing),
        handler=Processor(
            "cancel_payment",
            closing.begin_cancel,
            closing.call_cancel,
            closing.finish_cancel,
            closing.pending_cancel,
            closing.dry_cancel,
        ),
    ),
)
