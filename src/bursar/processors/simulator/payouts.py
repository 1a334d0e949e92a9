"""The simulated bank: a payout is accepted, is on its way, arrives or fails, and may come back."""

from __future__ import annotations

from datetime import datetime
from typing import Final, get_args

from bursar.core import ids
from bursar.db.pool import Connection, Database, Queryable, Record
from bursar.processors.protocol import (
    FailureCode,
    Payout,
    PayoutAccepted,
    PayoutRefused,
    PayoutState,
    Rejected,
)
from bursar.processors.simulator import books, callbacks, faults
from bursar.processors.simulator.faults import Done
from bursar.processors.simulator.scenarios import BANK_ACCOUNT_BY_NAME, RETURNED_AFTER, bank_account

# Which step may follow which; a payout never goes back.
NEXT: Final[dict[str, tuple[str, ...]]] = {
    "pending": ("in_transit",),
    "in_transit": ("paid", "failed"),
    "paid": ("returned",),
}
DEFAULT_FAILURE: Final = {"failed": "could_not_process", "returned": "bank_declined"}
FAILURE_CODES: Final[tuple[str, ...]] = get_args(FailureCode)


async def accept(db: Connection, payout: Payout) -> Done[PayoutAccepted | PayoutRefused]:
    if payout.amount_minor <= 0:
        raise Rejected("invalid_request")
    await faults.hold_key(db, payout.key)
    found = await db.fetchrow("SELECT * FROM simulator.payout WHERE key = $1", payout.key)
    if found is not None:
        facts = (found["account_id"], found["merchant_reference"], found["amount_minor"], found["currency"])
        if facts != (payout.account_id, payout.our_reference, payout.amount_minor, payout.currency):
            raise Rejected("key_reused")
        return Done(_answer(found), acted=False)
    broken = await faults.take(db, "payout", "error")
    made = await db.fetchrow(
        """
        INSERT INTO simulator.payout
            (reference, key, account_id, merchant_reference, amount_minor, currency, scenario, last4, state,
             failure_code, arrives_at, due_at, created_at)
        SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, CASE $9 WHEN 'pending' THEN now END, now
        FROM instance_now() AS now
        RETURNING *
        """,
        f"spo_{ids.random_text(ids.BASE62, 20)}",
        payout.key,
        payout.account_id,
        payout.our_reference,
        payout.amount_minor,
        payout.currency,
        bank_account(payout.bank).name,
        (payout.bank.account_number or payout.bank.iban)[-4:],
        "refused" if broken else "pending",
        "could_not_process" if broken else None,
        payout.arrives_at,
    )
    assert made is not None
    if not broken:
        await books.move(db, "payout", made["reference"], made["account_id"], made["currency"], -made["amount_minor"])
    return Done(_answer(made))


def _answer(row: Record) -> PayoutAccepted | PayoutRefused:
    return PayoutRefused(row["failure_code"]) if row["state"] == "refused" else PayoutAccepted(row["reference"])


async def state(db: Queryable, reference: str) -> PayoutState:
    row = await db.fetchrow("SELECT * FROM simulator.payout WHERE reference = $1", reference)
    if row is None:
        raise Rejected("not_found")
    return PayoutState(reference, row["state"], row["failure_code"])


async def advance(db: Connection, reference: str, to: str, failure_code: str | None) -> PayoutState:
    """Takes the payout to a state at once, through those on the way; where it is already, nothing happens."""
    if failure_code is not None and failure_code not in FAILURE_CODES:
        raise Rejected("invalid_request")
    row = await db.fetchrow("SELECT * FROM simulator.payout WHERE reference = $1 FOR NO KEY UPDATE", reference)
    if row is None:
        raise Rejected("not_found")
    if row["state"] == to:
        return PayoutState(reference, row["state"], row["failure_code"])
    for step in _way(row["state"], to):
        row = await _step(db, row, step, failure_code)
    return PayoutState(reference, row["state"], row["failure_code"])


def _way(current: str, to: str) -> tuple[str, ...]:
    for step in NEXT.get(current, ()):
        if step == to:
            return (step,)
        if to in NEXT.get(step, ()):
            return (step, to)
    raise Rejected("invalid_step")


async def step_due(database: Database) -> int:
    """Moves payouts on whose time has come; how many were."""
    due = await database.fetch("SELECT reference FROM simulator.payout WHERE due_at <= instance_now() LIMIT 100")
    for each in due:
        async with database.transaction() as db:
            row = await db.fetchrow(
                """
                SELECT * FROM simulator.payout
                WHERE reference = $1 AND due_at <= instance_now()
                FOR NO KEY UPDATE
                """,
                each["reference"],
            )
            if row is not None:
                account = BANK_ACCOUNT_BY_NAME[row["scenario"]]
                last = "failed" if account.fails else "paid"
                step = {"pending": "in_transit", "in_transit": last, "paid": "returned"}[row["state"]]
                await _step(db, row, step, account.fails or account.returns)
    return len(due)


async def _step(db: Connection, row: Record, to: str, failure_code: str | None) -> Record:
    code = (failure_code or DEFAULT_FAILURE[to]) if to in DEFAULT_FAILURE else None
    now = await db.fetchval("SELECT instance_now()")
    moved = await db.fetchrow(
        "UPDATE simulator.payout SET state = $2, failure_code = $3, due_at = $4 WHERE reference = $1 RETURNING *",
        row["reference"],
        to,
        code,
        _next_due(row, to, now),
    )
    assert moved is not None
    if code is not None:
        await books.move(db, "payout_return", row["reference"], row["account_id"], row["currency"], row["amount_minor"])
    await callbacks.tell(
        db,
        "payout",
        kind=f"payout.{to}",
        account_id=row["account_id"],
        our_reference=row["merchant_reference"],
        reference=row["reference"],
        amount_minor=row["amount_minor"],
        currency=row["currency"],
        failure_code=code,
    )
    return moved


def _next_due(row: Record, to: str, now: datetime) -> datetime | None:
    if to == "in_transit":
        arrives_at: datetime = row["arrives_at"]
        return max(now, arrives_at)
    if to == "paid" and BANK_ACCOUNT_BY_NAME[row["scenario"]].returns:
        return now + RETURNED_AFTER
    return None
