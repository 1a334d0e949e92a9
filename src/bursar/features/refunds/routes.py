"""POST /transactions/{id}/refund."""

from __future__ import annotations

from bursar.core.errors import (
    InsufficientBalance,
    InvalidRefundAmount,
    NotFound,
    NotRefundable,
    ProviderReferenceMissing,
    RefundExceedsTransaction,
    RefundFailed,
)
from bursar.features.refunds import service
from bursar.features.refunds.schemas import NewRefund, RefundedTransaction
from bursar.http.caller import Gate
from bursar.http.idempotency import MONTH
from bursar.http.routes import Processor, Route

ROUTES = (
    Route(
        method="POST",
        path="/transactions/{id}/refund",
        name="refund_transaction",
        summary="Refund a payment, in part or in full.",
        tag="Transactions",
        scope="transactions:write",
        gate=Gate.WRITE,
        keep=MONTH,
        body=NewRefund,
        reply=RefundedTransaction,
        errors=(
            NotFound,
            NotRefundable,
            InvalidRefundAmount,
            RefundExceedsTransaction,
            InsufficientBalance,
            ProviderReferenceMissing,
            RefundFailed,
        ),
        handler=Processor("refund", service.begin, service.call, service.finish, service.pending, service.dry_run),
    ),
)
