"""The customer's way through a checkout: to the processor's page and back. Whatever became of it is asked, not told."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from bursar.db.clock import instance_now
from bursar.db.pool import Database, persist
from bursar.features.payments import outcomes, queries, views
from bursar.features.payments.acting import acting_on
from bursar.features.payments.outcomes import Result
from bursar.features.payments.processor import processor_of, start_of
from bursar.http.caller import Gate, admit, load_account
from bursar.processors.protocol import PaymentState, Started
from bursar.settings import Settings

# When a started payment that nothing was heard of is looked at: callbacks may be lost, and customers may not return.
LOOKS = tuple(timedelta(minutes=minutes) for minutes in (5, 15, 60, 180, 720, 1440))


def next_look(row: views.Row, now: datetime, looks: int) -> datetime:
    moment: datetime = min(now + LOOKS[min(looks, len(LOOKS) - 1)], row["expires_at"])
    return moment


def is_open(row: views.Row, now: datetime) -> bool:
    """Whether a customer may still begin to pay."""
    return row["status"] == "pending" and row["closing"] is None and bool(row["expires_at"] > now)


async def start(db: Database, settings: Settings, account_id: int, payment_id: int) -> Started | None:
    """Opens the checkout at the processor, or finds it again; None when the payment can no longer be begun.

    The intent is committed before the processor is called: from then on nothing is closed without asking it.
    """

    async def intend() -> tuple[views.Row, str, datetime] | None:
        async with db.transaction("start") as connection:
            row = await queries.lock(connection, account_id, payment_id)
            account = await load_account(connection, account_id)
            now = await instance_now(connection)
            if row is None or account is None or not is_open(row, now):
                return None
            admit(account, Gate.PAYMENTS)
            await queries.mark_started(connection, account_id, payment_id, next_look(row, now, 0), now)
            return row, account.business_company_name, now

    intended = await persist(intend)
    if intended is None:
        return None
    row, merchant_name, now = intended
    started = await processor_of(settings).start(start_of(row, merchant_name, settings))
    async with db.transaction("started") as connection:
        await queries.keep_reference(connection, account_id, payment_id, started.reference, now)
    return started


async def ask(db: Database, settings: Settings, account_id: int, payment_id: int) -> PaymentState | None:
    """Asks the processor what became of a payment and writes it down; None when it was never started there."""
    row = await queries.find(db, account_id, payment_id)
    if row is None or row["processor_reference"] is None:
        return None
    state = await processor_of(settings).confirm(row["processor_reference"])
    await learn(db, settings, [state])
    return state


async def learn(db: Database, settings: Settings, said: Sequence[PaymentState]) -> list[Result]:
    """Writes down what the processor said, in one transaction."""

    async def write() -> list[Result]:
        async with db.transaction("learn") as connection:
            acts = await acting_on(connection, settings, [state.account_id for state in said])
            results = await outcomes.apply(acts, said)
            await acts.write_events()
        return results

    return await persist(write)
