"""Payments as others see them: a hosted payment, a transaction. Pure but for the page key that makes links."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from msgspec import UNSET

from bursar.core.money import format_major
from bursar.features.payments.schemas import Attempt, AttemptError, HostedPayment, Transaction
from bursar.settings import Settings

PAGE = "pay"
EXPIRED = "checkout_expired"  # the remark of a payment whose checkout was not paid in time


class Row(Protocol):
    """A payment's columns by name: as read from the database, or as about to be written."""

    def __getitem__(self, name: str, /) -> Any: ...


def checkout_url(settings: Settings, account_id: int, payment_id: int) -> str:
    return f"{settings.public_url}/pay/{settings.page_keys.token(PAGE, account_id, payment_id)}"


def hosted_status(row: Row) -> Any:
    return "expired" if row["status"] == "cancelled" and row["remark"] == EXPIRED else row["status"]


def attempt(row: Row) -> Attempt:
    error = None
    if row["status"] == "failed":
        error = AttemptError(row["error_code"], row["message"] or "", row["decline_code"] or UNSET)
    return Attempt(row["n"], row["status"], error, row["at"])


def hosted_payment(row: Row, public_id: str, settings: Settings, attempts: Sequence[Row] = ()) -> HostedPayment:
    fee, currency = row["application_fee_minor"], row["currency"]
    return HostedPayment(
        id=row["id"],
        account_id=public_id,
        identifier=row["identifier"],
        payment_reference=row["payment_reference"],
        status=hosted_status(row),
        amount=format_major(row["amount_minor"], currency),
        currency=currency,
        checkout_url=checkout_url(settings, row["account_id"], row["id"]),
        transaction_id=row["id"],
        details=row["details"],
        customer_name=row["customer_name"],
        customer_email=row["customer_email"],
        customer_phone=row["customer_phone"],
        metadata=row["metadata"],
        expires_at=row["expires_at"],
        paid_at=row["paid_at"],
        created_at=row["created_at"],
        attempts=[attempt(one) for one in attempts],
        connect_application_fee=UNSET if fee is None else format_major(fee, currency),
    )


def transaction(row: Row, public_id: str) -> Transaction:
    currency, amount = row["currency"], row["amount_minor"]
    application_fee = row["application_fee_minor"]
    # A fee that the platform pays is none for the merchant.
    fee = row["fee_minor"] if row["fee_payer"] == "connected_account" else 0
    paid = row["paid_at"] is not None
    taken = row["refunded_minor"] + row["refunding_minor"]
    return Transaction(
        id=row["id"],
        account_id=public_id,
        reference=row["payment_reference"],
        identifier=row["identifier"],
        np_main_trx=row["processor_reference"],
        status=row["status"],
        amount=format_major(amount, currency),
        currency=currency,
        payment_type=row["kind"],
        is_reserve=row["reserve_minor"] > 0,
        reserve_amount=format_major(row["reserve_minor"], currency),
        proof_status=row["proof_status"],
        fee_amount=format_major(fee, currency),
        net_amount=format_major(amount - fee - (application_fee or 0) if paid else 0, currency),
        refunded_amount=format_major(row["refunded_minor"], currency),
        refundable_amount=format_major(amount - taken if row["status"] == "succeeded" else 0, currency),
        remark=row["remark"],
        details=row["details"],
        customer_name=row["customer_name"],
        customer_email=row["customer_email"],
        metadata=row["metadata"],
        paid_at=row["paid_at"],
        cancelled_at=row["cancelled_at"],
        created_at=row["created_at"],
        connect_application_fee=UNSET if application_fee is None else format_major(application_fee, currency),
    )
