"""Payment notifications: the form that a checkout's `ipn_url` is sent after every attempt to pay.

Whoever records an attempt writes it in the same transaction. Only a worker can sign, so what is stored is the
form without its signature, and which key created the checkout.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, cast

from bursar.core.ids import new_event_id
from bursar.core.money import Money, symbol
from bursar.db.pool import Queryable
from bursar.db.rows import Rows

TYPES = {"success": "transaction.succeeded", "failed": "transaction.failed"}


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt failed, in words that name no processor."""

    code: str
    message: str
    decline_code: str | None = None


@dataclass(frozen=True, slots=True)
class SigningKey:
    """The key that created the checkout: the merchant's own or, where a platform created it, the platform's."""

    account_id: int
    key_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ipn:
    account_id: int
    url: str
    key: SigningKey
    status: Literal["success", "failed"]
    identifier: str
    amount: Money
    payment_trx: str
    account_holder: str
    payment_type: str = "hosted"
    error: Failure | None = None
    event_id: str | None = None  # of the event that tells the same, so that a receiver of both can see it


IPNS = Rows(
    "ipn",
    given=(
        "account_id", "event_id", "type", "url", "fields", "amount", "identifier", "key_account_id", "key_id",
        "created_at",
    ),
    derived={"id": "nextval('ipn_id')"},
)  # fmt: skip
_INSERT = IPNS.insert()


async def enqueue(db: Queryable, ipn: Ipn, now: datetime) -> str:
    """Writes a notification in the caller's transaction; returns the event id that it will carry."""
    row = as_row(ipn, now)
    await db.execute(_INSERT, [row])
    return cast("str", row[1])


def as_row(ipn: Ipn, now: datetime) -> tuple[Any, ...]:
    """A notification as `IPNS` has it, for whoever writes it together with what it tells of."""
    assert (ipn.status == "failed") == (ipn.error is not None), "a failed attempt, and no other, has an error"
    return (
        ipn.account_id,
        ipn.event_id or new_event_id(),
        TYPES[ipn.status],
        ipn.url,
        form_fields(ipn),
        printed(ipn.amount),
        ipn.identifier,
        ipn.key.account_id,
        ipn.key.key_id,
        now,
    )


def printed(amount: Money) -> str:
    """The amount as it is signed and sent: always with the currency's decimals, so it can be told from what follows."""
    return f"{amount.decimal:f}"


def form_fields(ipn: Ipn) -> list[tuple[str, str]]:
    """The form, in order, without its signature, which goes after the identifier."""
    error = _error(ipn.error)
    currency = ipn.amount.currency
    fields = [("status", ipn.status), ("identifier", ipn.identifier)]
    fields += [(f"error[{name}]", value) for name, value in error]
    fields += [
        ("data[payment_trx]", ipn.payment_trx),
        ("data[status]", ipn.status),
        ("data[amount]", printed(ipn.amount)),
        ("data[account_holder]", ipn.account_holder),
        ("data[payment_type]", ipn.payment_type),
        ("data[currency][code]", currency),
        ("data[currency][symbol]", symbol(currency)),
    ]
    return fields + [(f"data[error][{name}]", value) for name, value in error]


def _error(error: Failure | None) -> list[tuple[str, str]]:
    if error is None:
        return []
    named = [("code", error.code), ("message", error.message)]
    return [*named, ("decline_code", error.decline_code)] if error.decline_code else named
