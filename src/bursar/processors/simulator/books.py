"""The simulator's records: reading a payment, telling its state, and the statement of what money moved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bursar.core.tokens import PageKeys
from bursar.db.pool import Connection, Queryable, Record
from bursar.processors.card_errors import card_error
from bursar.processors.protocol import Attempt, PaymentState, Rejected
from bursar.processors.signing import LinkKeys

PAGE = "simulator payment"


@dataclass(frozen=True)
class Links:
    """Addresses of card pages: private, and made from the payment's number, so that none are stored."""

    public_url: str
    keys: PageKeys

    @classmethod
    def of(cls, public_url: str, keys: LinkKeys) -> Links:
        return cls(public_url, PageKeys(keys.pages))

    def token(self, payment_id: int) -> str:
        return self.keys.token(PAGE, 0, payment_id)

    def page_url(self, payment_id: int) -> str:
        return f"{self.public_url}/pay/{self.token(payment_id)}"

    def payment_id(self, token: str) -> int | None:
        pair = self.keys.read(PAGE, token)
        return pair[1] if pair else None


async def payment_by_reference(db: Queryable, reference: str) -> Record:
    row = await db.fetchrow("SELECT *, instance_now() AS now FROM simulator.payment WHERE reference = $1", reference)
    if row is None:
        raise Rejected("not_found")
    return row


async def lock_payment(db: Connection, reference: str) -> Record:
    """The payment, for this transaction alone: customer, merchant and clock act on it one after the other."""
    row = await db.fetchrow(
        "SELECT *, instance_now() AS now FROM simulator.payment WHERE reference = $1 FOR NO KEY UPDATE", reference
    )
    if row is None:
        raise Rejected("not_found")
    return row


async def attempts_of(db: Queryable, payment_id: int) -> list[Record]:
    return await db.fetch("SELECT * FROM simulator.attempt WHERE payment_id = $1 ORDER BY number", payment_id)


async def state_of(db: Queryable, payment: Record, links: Links) -> PaymentState:
    rows = await attempts_of(db, payment["id"])
    return PaymentState(
        reference=payment["reference"],
        our_reference=payment["merchant_reference"],
        account_id=payment["account_id"],
        status=payment["state"],
        amount_minor=payment["amount_minor"],
        currency=payment["currency"],
        captured_minor=payment["captured_minor"],
        refunded_minor=payment["refunded_minor"],
        funds_available_at_once=payment["available_at_once"],
        concern=payment["concern"],
        attempts=tuple(_attempt(payment, row) for row in rows),
        page_url=links.page_url(payment["id"]),
    )


def attempt_reference(payment: Record, number: int) -> str:
    return f"{payment['reference']}_{number}"


def _attempt(payment: Record, row: Record) -> Attempt:
    failed = row["state"] == "failed"
    return Attempt(
        reference=attempt_reference(payment, row["number"]),
        number=row["number"],
        status=row["state"],
        at=row["created_at"],
        last4=row["last4"],
        holder=row["holder"],
        error=card_error(row["error_code"], row["decline_code"]) if failed else None,
    )


async def move(db: Connection, kind: str, reference: str, account_id: int, currency: str, amount_minor: int) -> None:
    """Writes one line of the statement; the database allows each only once."""
    await db.execute(
        """
        INSERT INTO simulator.movement (id, kind, reference, account_id, currency, amount_minor, at)
        VALUES (nextval('simulator.movement_id'), $1, $2, $3, $4, $5, instance_now())
        """,
        kind,
        reference,
        account_id,
        currency,
        amount_minor,
    )


async def statement(db: Queryable) -> list[dict[str, Any]]:
    """What moved, by currency and kind: what the service's clearing accounts must agree with."""
    rows = await db.fetch(
        """
        SELECT currency, kind, count(*) AS movements, sum(amount_minor)::bigint AS amount_minor
        FROM simulator.movement
        GROUP BY currency, kind
        ORDER BY currency, kind
        """
    )
    return [dict(row) for row in rows]
