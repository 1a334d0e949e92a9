"""The customer's side of a payment: a card is tried, a challenge answered, the outcome becomes final.

The card page and the operator's `pay` both come here. Only a scenario's name travels past this module's callers.
"""

from __future__ import annotations

from dataclasses import dataclass

from bursar.db.pool import Connection, Queryable, Record
from bursar.processors.card_errors import CardError, card_error
from bursar.processors.protocol import Rejected
from bursar.processors.simulator import books, callbacks, faults
from bursar.processors.simulator.faults import Done
from bursar.processors.simulator.scenarios import CARD_BY_NAME, LATE, Card


@dataclass(frozen=True, slots=True)
class Presented:
    """What a customer does: presents a card, or answers the challenge (`authenticate`), or both at once."""

    card: Card
    key: str
    holder: str
    authenticate: bool | None = None


async def locked(db: Connection, reference: str) -> Record:
    """The payment, locked, with an outcome that has become known by now."""
    payment = await books.lock_payment(db, reference)
    if payment["state"] == "processing" and payment["settles_at"] <= payment["now"]:
        attempt = await _open_attempt(db, payment)
        assert attempt is not None
        await _conclude(db, payment, attempt, _verdict(CARD_BY_NAME[attempt["scenario"]]))
        payment = await books.lock_payment(db, reference)
    return payment


async def pay(db: Connection, reference: str, presented: Presented) -> Done[None]:
    """Tries the card, unless the payment is over or this very call was made before."""
    payment = await locked(db, reference)
    if payment["state"] in ("processing", "succeeded", "cancelled") or await _was_made(db, payment, presented.key):
        return Done(None, acted=False)
    waiting = await _open_attempt(db, payment)
    if waiting is not None:
        if presented.authenticate is not None and waiting["scenario"] == presented.card.name:
            await _answer_challenge(db, payment, waiting, presented.key, passed=presented.authenticate)
            return Done(None)
        # Another card while a challenge is open: the customer gave that one up.
        await _conclude(db, payment, waiting, card_error("authentication_failed"))
    await _try(db, payment, presented)
    return Done(None)


async def find_attempt(db: Queryable, reference: str, key: str) -> None:
    """Whether `pay` was called under this key and did something; `Rejected` if not."""
    if not await _was_made(db, await books.payment_by_reference(db, reference), key):
        raise Rejected("not_found")


async def answer_challenge(db: Connection, reference: str, key: str, *, passed: bool) -> None:
    """The challenge page: whatever attempt waits for an answer gets it."""
    payment = await locked(db, reference)
    waiting = await _open_attempt(db, payment)
    if waiting is not None and waiting["state"] == "requires_action":
        await _answer_challenge(db, payment, waiting, key, passed=passed)


async def abandon(db: Connection, payment: Record) -> None:
    """A payment that is closed leaves no attempt open."""
    await db.execute(
        """
        UPDATE simulator.attempt SET state = 'failed', error_code = 'payment_failed'
        WHERE payment_id = $1 AND state = 'requires_action'
        """,
        payment["id"],
    )


async def _try(db: Connection, payment: Record, presented: Presented) -> None:
    card = presented.card
    attempt = await db.fetchrow(
        """
        INSERT INTO simulator.attempt (payment_id, number, key, scenario, last4, holder, state, created_at)
        SELECT $1, count(*) + 1, $2, $3, $4, $5, 'requires_action', $6
        FROM simulator.attempt
        WHERE payment_id = $1
        RETURNING *
        """,
        payment["id"],
        presented.key,
        card.name,
        card.last4,
        presented.holder,
        payment["now"],
    )
    assert attempt is not None
    if not card.challenge:
        await _decide(db, payment, attempt)
    elif presented.authenticate is not None:
        await _answer_challenge(db, payment, attempt, presented.key, passed=presented.authenticate)
    else:
        await db.execute("UPDATE simulator.payment SET state = 'requires_action' WHERE id = $1", payment["id"])


async def _answer_challenge(db: Connection, payment: Record, attempt: Record, key: str, *, passed: bool) -> None:
    await db.execute(
        "UPDATE simulator.attempt SET answer_key = $3 WHERE payment_id = $1 AND number = $2",
        payment["id"],
        attempt["number"],
        key,
    )
    if passed:
        await _decide(db, payment, attempt)
    else:
        await _conclude(db, payment, attempt, card_error("authentication_failed"))


async def _decide(db: Connection, payment: Record, attempt: Record) -> None:
    """The bank's verdict: now or, where that was ordered, later."""
    fault = await faults.take(db, "payment", "error", "late_callback")
    if fault != "late_callback":
        error = card_error("processing_error") if fault else _verdict(CARD_BY_NAME[attempt["scenario"]])
        await _conclude(db, payment, attempt, error)
        return
    await db.execute(
        "UPDATE simulator.attempt SET state = 'processing' WHERE payment_id = $1 AND number = $2",
        payment["id"],
        attempt["number"],
    )
    await db.execute(
        "UPDATE simulator.payment SET state = 'processing', settles_at = $2 WHERE id = $1",
        payment["id"],
        payment["now"] + LATE,
    )


def _verdict(card: Card) -> CardError | None:
    return card_error(card.error_code, card.decline_code) if card.error_code else None


async def _conclude(db: Connection, payment: Record, attempt: Record, error: CardError | None) -> None:
    """The attempt is over: money was captured, or the payment waits for another card."""
    await db.execute(
        """
        UPDATE simulator.attempt SET state = $3, error_code = $4, decline_code = $5
        WHERE payment_id = $1 AND number = $2
        """,
        payment["id"],
        attempt["number"],
        "failed" if error else "succeeded",
        error.code if error else None,
        error.decline_code if error else None,
    )
    if error is not None:
        await db.execute(
            "UPDATE simulator.payment SET state = 'requires_payment', settles_at = NULL WHERE id = $1", payment["id"]
        )
        await _tell(db, payment, attempt, "payment.failed", error=error)
        return
    await _capture(db, payment, attempt)


async def _capture(db: Connection, payment: Record, attempt: Record) -> None:
    card = CARD_BY_NAME[attempt["scenario"]]
    await db.execute(
        """
        UPDATE simulator.payment
        SET state = 'succeeded', settles_at = NULL, captured_minor = amount_minor,
            available_at_once = $2, concern = $3
        WHERE id = $1
        """,
        payment["id"],
        card.available_at_once,
        card.concern,
    )
    await books.move(
        db, "capture", payment["reference"], payment["account_id"], payment["currency"], payment["amount_minor"]
    )
    await _tell(db, payment, attempt, "payment.succeeded")
    if card.concern is not None:
        await _tell(db, payment, attempt, f"payment.{card.concern}", faulty=False)


async def _tell(
    db: Connection,
    payment: Record,
    attempt: Record,
    kind: str,
    *,
    error: CardError | None = None,
    faulty: bool = True,
) -> None:
    await callbacks.tell(
        db,
        "payment" if faulty else None,
        kinds=("duplicate_callback", "out_of_order"),
        kind=kind,
        account_id=payment["account_id"],
        our_reference=payment["merchant_reference"],
        reference=payment["reference"],
        amount_minor=payment["amount_minor"],
        currency=payment["currency"],
        part_reference=books.attempt_reference(payment, attempt["number"]),
        error=error,
    )


async def _open_attempt(db: Queryable, payment: Record) -> Record | None:
    return await db.fetchrow(
        """
        SELECT * FROM simulator.attempt
        WHERE payment_id = $1 AND state IN ('requires_action', 'processing')
        """,
        payment["id"],
    )


async def _was_made(db: Queryable, payment: Record, key: str) -> bool:
    made: bool = await db.fetchval(
        "SELECT EXISTS (SELECT FROM simulator.attempt WHERE payment_id = $1 AND $2 IN (key, answer_key))",
        payment["id"],
        key,
    )
    return made
