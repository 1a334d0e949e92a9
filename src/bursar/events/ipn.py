"""Payment notifications: the form that a checkout's `ipn_url` is sent after every attempt to pay.

Whoever records an attempt calls `enqueue` in the same transaction. Only a worker can sign, so what is stored is the
form without its signature, and which key created the checkout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import msgspec

from bursar.core.ids import new_event_id
from bursar.core.money import Money, symbol
from bursar.db.pool import Queryable

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


async def enqueue(db: Queryable, ipn: Ipn, now: datetime) -> str:
    """Writes a notification in the caller's transaction; returns the event id that it will carry."""
    [event_id] = await enqueue_many(db, [ipn], now)
    return event_id


async def enqueue_many(db: Queryable, ipns: Sequence[Ipn], now: datetime) -> list[str]:
    """The same for several, in one statement."""
    if not ipns:
        return []
    for ipn in ipns:
        assert (ipn.status == "failed") == (ipn.error is not None), "a failed attempt, and no other, has an error"
    event_ids = [ipn.event_id or new_event_id() for ipn in ipns]
    await db.execute(
        """
        INSERT INTO ipn
            (account_id, id, event_id, type, url, fields, amount, identifier, key_account_id, key_id, created_at)
        SELECT account_id, nextval('ipn_id'), event_id, type, url, fields::jsonb, amount, identifier, key_account_id,
               key_id, $10
        FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bigint[],
                    $9::bigint[])
             WITH ORDINALITY
             AS i (account_id, event_id, type, url, fields, amount, identifier, key_account_id, key_id, n)
        ORDER BY n
        """,
        [ipn.account_id for ipn in ipns],
        event_ids,
        [TYPES[ipn.status] for ipn in ipns],
        [ipn.url for ipn in ipns],
        [msgspec.json.encode(form_fields(ipn)).decode() for ipn in ipns],
        [printed(ipn.amount) for ipn in ipns],
        [ipn.identifier for ipn in ipns],
        [ipn.key.account_id for ipn in ipns],
        [ipn.key.key_id for ipn in ipns],
        now,
    )
    return event_ids


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
