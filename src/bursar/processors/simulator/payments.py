"""The service's side of a payment: it is started, asked about, cancelled, refunded."""

from __future__ import annotations

from bursar.core import ids
from bursar.db.pool import Connection, Database, Record
from bursar.processors.protocol import PaymentState, Refund, Refunded, RefundRefused, Rejected, StartPayment
from bursar.processors.simulator import books, callbacks, charges, faults
from bursar.processors.simulator.books import Links
from bursar.processors.simulator.faults import Done

_INSERT = """
INSERT INTO simulator.payment
    (id, reference, key, account_id, merchant_reference, merchant_name, description, amount_minor, currency,
     return_url, created_at)
VALUES (nextval('simulator.payment_id'), $1, $2, $3, $4, $5, $6, $7, $8, $9, instance_now())
RETURNING *
"""


async def start(db: Connection, payment: StartPayment) -> Done[Record]:
    if payment.amount_minor <= 0 or not payment.return_url.startswith(("http://", "https://")):
        raise Rejected("invalid_request")
    await faults.hold_key(db, payment.key)
    found = await db.fetchrow("SELECT * FROM simulator.payment WHERE key = $1", payment.key)
    if found is not None:
        facts = (found["account_id"], found["merchant_reference"], found["amount_minor"], found["currency"])
        if facts != (payment.account_id, payment.our_reference, payment.amount_minor, payment.currency):
            raise Rejected("key_reused")
        return Done(found, acted=False)
    await faults.break_if_ordered(db, "start")
    made = await db.fetchrow(
        _INSERT,
        f"sim_{ids.random_text(ids.BASE62, 20)}",
        payment.key,
        payment.account_id,
        payment.our_reference,
        payment.merchant_name,
        payment.description,
        payment.amount_minor,
        payment.currency,
        payment.return_url,
    )
    assert made is not None
    return Done(made)


async def confirm(database: Database, reference: str, links: Links) -> PaymentState:
    async with database.transaction() as db:
        return await books.state_of(db, await charges.locked(db, reference), links)


async def cancel(db: Connection, reference: str) -> Done[str]:
    """`cancelled`, `captured` or `in_flight`.

    An out-of-order cancel is a promise that the processor breaks: it says cancelled, and a card that is on its way,
    or is presented later, is captured all the same.
    """
    payment = await charges.locked(db, reference)
    if payment["state"] == "cancelled":
        return Done("cancelled", acted=False)
    await faults.break_if_ordered(db, "cancel")
    if payment["state"] == "succeeded":
        return Done("captured")
    if await faults.take(db, "cancel", "out_of_order"):
        return Done("cancelled")
    if payment["state"] == "processing":
        return Done("in_flight")
    await charges.abandon(db, payment)
    await db.execute("UPDATE simulator.payment SET state = 'cancelled' WHERE id = $1", payment["id"])
    await callbacks.tell(
        db,
        "cancel",
        kinds=("duplicate_callback", "late_callback"),
        kind="payment.cancelled",
        account_id=payment["account_id"],
        our_reference=payment["merchant_reference"],
        reference=payment["reference"],
        amount_minor=payment["amount_minor"],
        currency=payment["currency"],
    )
    return Done("cancelled")


async def refund(db: Connection, wanted: Refund) -> Done[Refunded | RefundRefused]:
    await faults.hold_key(db, wanted.key)
    payment = await charges.locked(db, wanted.payment_reference)
    found = await db.fetchrow("SELECT * FROM simulator.refund WHERE key = $1", wanted.key)
    if found is not None:
        facts = (found["payment_id"], found["amount_minor"], found["currency"])
        if facts != (payment["id"], wanted.amount_minor, wanted.currency):
            raise Rejected("key_reused")
        code = found["refused_code"]
        return Done(RefundRefused(code) if code else Refunded(found["reference"]), acted=False)
    if wanted.amount_minor <= 0:
        raise Rejected("invalid_request")
    broken = await faults.take(db, "refund", "error")
    code = "processing_error" if broken else _refusal(payment, wanted)
    reference = f"sre_{ids.random_text(ids.BASE62, 20)}"
    await db.execute(
        """
        INSERT INTO simulator.refund (key, reference, payment_id, amount_minor, currency, refused_code, created_at)
        VALUES ($1, $2, $3, $4, $5, $6, instance_now())
        """,
        wanted.key,
        reference,
        payment["id"],
        wanted.amount_minor,
        wanted.currency,
        code,
    )
    if code is not None:
        return Done(RefundRefused(code))
    await _pay_back(db, payment, reference, wanted.amount_minor)
    return Done(Refunded(reference))


def _refusal(payment: Record, wanted: Refund) -> str | None:
    if payment["state"] != "succeeded":
        return "not_captured"
    if wanted.currency != payment["currency"]:
        return "currency_mismatch"
    if wanted.amount_minor > payment["captured_minor"] - payment["refunded_minor"]:
        return "exceeds_captured"
    return None


async def _pay_back(db: Connection, payment: Record, reference: str, amount_minor: int) -> None:
    await db.execute(
        "UPDATE simulator.payment SET refunded_minor = refunded_minor + $2 WHERE id = $1", payment["id"], amount_minor
    )
    await books.move(db, "refund", reference, payment["account_id"], payment["currency"], -amount_minor)
    await callbacks.tell(
        db,
        "refund",
        kind="refund.succeeded",
        account_id=payment["account_id"],
        our_reference=payment["merchant_reference"],
        reference=payment["reference"],
        amount_minor=amount_minor,
        currency=payment["currency"],
        part_reference=reference,
    )
