"""What other features may ask of payments."""

from __future__ import annotations

from bursar.core.errors import NotFound
from bursar.db.pool import Record
from bursar.features.payments import queries, reference
from bursar.features.payments.acting import acting_on
from bursar.features.payments.audit import CHECKS
from bursar.features.payments.checkout import ask, is_open, learn, start
from bursar.features.payments.creation import (
    check_addresses,
    check_can_be_paid,
    checked_amount,
    new_payment,
    platform_fee,
)
from bursar.features.payments.followers import FOLLOWERS, LINKS
from bursar.features.payments.processor import page_origin, processor_of, processors_of, simulator_of
from bursar.features.payments.queries import TRANSACTIONS, attempts_of, find, insert_many, lock, next_id
from bursar.features.payments.views import Row, checkout_url, hosted_status, transaction
from bursar.http.caller import load_account
from bursar.http.context import LARGEST_ID, Account, Ctx

__all__ = [
    "CHECKS",
    "FOLLOWERS",
    "LINKS",
    "TRANSACTIONS",
    "Row",
    "acting_on",
    "ask",
    "attempts_of",
    "check_addresses",
    "check_can_be_paid",
    "checked_amount",
    "checkout_named",
    "checkout_url",
    "find",
    "hosted_status",
    "insert_many",
    "is_open",
    "learn",
    "lock",
    "locked",
    "named",
    "new_payment",
    "next_id",
    "number_in",
    "of_anybody",
    "page_origin",
    "platform_fee",
    "processor_of",
    "processors_of",
    "reference",
    "simulator_of",
    "start",
    "transaction",
]


def number_in(text: str) -> int | None:
    """The number of a payment from its id or its reference."""
    if text.isascii() and text.isdigit() and len(text) <= 19 and 0 < int(text) <= LARGEST_ID:
        return int(text)
    return reference.number_of(reference.PAYMENT, text)


async def named(ctx: Ctx, text: str) -> Record:
    """A payment of the account by its id or reference; `not_found` for anything else."""
    number = number_in(text)
    row = await queries.find(ctx.db, ctx.account.account_id, number) if number is not None else None
    if row is None:
        raise NotFound
    return row


async def locked(ctx: Ctx) -> Record:
    """The payment that the path names, for this transaction alone."""
    number = number_in(ctx.path["id"])
    row = await queries.lock(ctx.db, ctx.account.account_id, number) if number is not None else None
    if row is None:
        raise NotFound
    return row


async def of_anybody(ctx: Ctx) -> tuple[Account, Record]:
    """The same for the operator, with the account it belongs to."""
    number = number_in(ctx.path["id"])
    account_id = await queries.account_of(ctx.db, number) if number is not None else None
    if number is None or account_id is None:
        raise NotFound
    account, row = await load_account(ctx.db, account_id), await queries.lock(ctx.db, account_id, number)
    assert account is not None
    assert row is not None
    return account, row


async def checkout_named(ctx: Ctx, text: str) -> tuple[int, int] | None:
    """Account and number of the payment behind any reference that a customer could be given: for the operator."""
    number = reference.number_of(reference.PAYMENT, text)
    if number is not None:
        account_id = await queries.account_of(ctx.db, number)
        return None if account_id is None else (account_id, number)
    for prefix, open_payment in LINKS.items():
        if (number := reference.number_of(prefix, text)) is not None:
            return await open_payment(ctx, number)
    return None
