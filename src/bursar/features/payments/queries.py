"""Payments and their attempts in the database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from operator import itemgetter
from typing import Any, Literal, cast

from bursar.db import tallies
from bursar.db.listing import Listing
from bursar.db.pool import Database, Queryable, Record
from bursar.db.rows import Rows
from bursar.events import ipn
from bursar.events.ipn import Ipn
from bursar.features.payments import reference

# In two halves, as the two indexes on identifiers are.
_OF_ORDER = (
    "((identifier = {} AND status IN ('pending', 'succeeded', 'refunded'))"
    " OR (identifier = {} AND status IN ('failed', 'cancelled')))"
)

HOSTED = Listing(
    select="SELECT * FROM payment",
    scope="account_id = $1 AND kind = 'hosted'",
    filters={"identifier": _OF_ORDER},
    total=tallies.HOSTED.total(),
    versioned="payment",  # its attempts are written together with it
)

TRANSACTIONS = Listing(
    # What a transaction shows; a payment has twice as many columns.
    select="SELECT account_id, id, kind, payment_reference, identifier, processor_reference, status, amount_minor,"
    " currency, details, customer_name, customer_email, metadata, remark, fee_minor, fee_payer,"
    " application_fee_minor, refunded_minor, refunding_minor, reserve_minor, proof_status, paid_at, cancelled_at,"
    " created_at FROM payment",
    scope="account_id = $1",
    sorts={"id": "id", "created_at": "created_at", "status": "status"},
    filters={"status": "status = {}", "since": "created_at >= {}", "until": "created_at < {}"},
    search=("payment_reference", "identifier", "customer_name", "customer_email", "remark"),
    search_newest=10_000,
    named=(_OF_ORDER, "lower(customer_email) = lower({})"),
    number_of=partial(reference.number_of, reference.PAYMENT),
    total=tallies.TRANSACTIONS.total(),
    versioned="payment",
)

# A new payment; one whose order already has a live checkout is left out. In order, so that batches do not cross.
NEW = Rows(
    "payment",
    given=(
        "account_id", "id", "kind", "channel", "payment_reference", "identifier", "amount_minor", "currency", "details",
        "ipn_url", "success_url", "cancel_url", "customer_name", "customer_email", "customer_phone", "metadata",
        "link_id", "key_account_id", "key_id", "platform_id", "fee_payer", "application_fee_minor", "expires_at",
        "created_at",
    ),
    derived={"due_at": "expires_at", "updated_at": "created_at"},
    order="account_id, identifier",
    unless="ON CONFLICT (account_id, identifier) WHERE status IN ('pending', 'succeeded', 'refunded') DO NOTHING",
)  # fmt: skip
_INSERT = f"{NEW.insert()} RETURNING id"

ATTEMPTS = Rows(
    "payment_attempt",
    given=(
        "account_id", "payment_id", "n", "reference", "status", "error_code", "decline_code", "message", "holder",
        "last4", "at",
    ),
)  # fmt: skip

# The attributes of `payment_outcome`.
_OUTCOME = itemgetter(
    "account_id", "id", "status", "processor_reference", "started_at", "attempts", "fee_minor", "paid_at", "closing",
    "due_at",
)  # fmt: skip


async def next_id(db: Queryable) -> int:
    return cast("int", await db.fetchval("SELECT nextval('payment_id')"))


async def insert_many(db: Queryable, rows: Sequence[Mapping[str, Any]]) -> set[int]:
    """The ids of those that were written."""
    return {record["id"] for record in await db.fetch(_INSERT, [NEW.row(values) for values in rows])}


async def live_of(db: Queryable, orders: Sequence[tuple[int, str]]) -> dict[tuple[int, str], Record]:
    """The live checkouts of some orders, by (account, identifier)."""
    rows = await db.fetch(
        """
        SELECT payment.*
        FROM unnest($1::bigint[], $2::text[]) AS wanted (account_id, identifier)
        JOIN payment USING (account_id, identifier)
        WHERE status IN ('pending', 'succeeded', 'refunded')
        """,
        [account_id for account_id, _ in orders],
        [identifier for _, identifier in orders],
    )
    return {(row["account_id"], row["identifier"]): row for row in rows}


_FIND_MANY = """
-- The limit keeps the planner to look-ups by key.
SELECT wanted.n, payment.*
FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS wanted (account_id, id, n)
CROSS JOIN LATERAL (
    SELECT * FROM payment WHERE account_id = wanted.account_id AND id = wanted.id LIMIT 1
) AS payment
"""


async def find(db: Queryable, account_id: int, payment_id: int) -> Record | None:
    if isinstance(db, Database):
        return await db.look_up(_FIND_MANY, account_id, payment_id)
    return await db.fetchrow("SELECT * FROM payment WHERE account_id = $1 AND id = $2", account_id, payment_id)


async def lock(db: Queryable, account_id: int, payment_id: int) -> Record | None:
    return await db.fetchrow(
        "SELECT * FROM payment WHERE account_id = $1 AND id = $2 FOR NO KEY UPDATE", account_id, payment_id
    )


async def lock_many(db: Queryable, places: Sequence[tuple[int, int]]) -> dict[tuple[int, int], Record]:
    """Payments by (account, id), locked in that order."""
    rows = await db.fetch(
        """
        SELECT payment.*
        FROM unnest($1::bigint[], $2::bigint[]) AS wanted (account_id, id)
        JOIN payment USING (account_id, id)
        ORDER BY account_id, id
        FOR NO KEY UPDATE OF payment
        """,
        [account_id for account_id, _ in places],
        [payment_id for _, payment_id in places],
    )
    return {(row["account_id"], row["id"]): row for row in rows}


async def account_of(db: Queryable, payment_id: int) -> int | None:
    """Whose payment it is: for the operator and the processor, who name it by its number alone."""
    return cast(
        "int | None",
        await db.fetchval("SELECT account_id FROM payment WHERE id = $1 AND account_id >= 1001", payment_id),
    )


async def attempts_of(db: Queryable, account_id: int, payment_ids: Sequence[int]) -> dict[int, list[Record]]:
    """The attempts at each of these payments, in order."""
    found: dict[int, list[Record]] = {payment_id: [] for payment_id in payment_ids}
    rows = await db.fetch(
        """
        SELECT *
        FROM payment_attempt
        WHERE account_id = $1 AND payment_id = ANY($2::bigint[])
        ORDER BY payment_id, n
        """,
        account_id,
        list(payment_ids),
    )
    for row in rows:
        found[row["payment_id"]].append(row)
    return found


async def known_attempts(db: Queryable, places: Sequence[tuple[int, int]]) -> dict[tuple[int, int], frozenset[str]]:
    """The processor's names of the attempts that are on record, per payment."""
    if not places:
        return {}
    rows = await db.fetch(
        """
        SELECT account_id, payment_id, array_agg(reference) AS names
        FROM unnest($1::bigint[], $2::bigint[]) AS wanted (account_id, payment_id)
        JOIN payment_attempt USING (account_id, payment_id)
        GROUP BY account_id, payment_id
        """,
        [account_id for account_id, _ in places],
        [payment_id for _, payment_id in places],
    )
    return {(row["account_id"], row["payment_id"]): frozenset(row["names"]) for row in rows}


_OUTCOMES = f"""
-- What outcomes change of payments that are locked, with the attempts and the notifications that go with it.
WITH tried AS ({ATTEMPTS.insert(2)}),
noticed AS ({ipn.IPNS.insert(3)})
UPDATE payment
SET status = new.status, processor_reference = new.processor_reference, started_at = new.started_at,
    attempts = new.attempts, fee_minor = new.fee_minor, paid_at = new.paid_at, closing = new.closing,
    due_at = new.due_at, updated_at = $4
FROM unnest($1::payment_outcome[]) AS new
WHERE payment.account_id = new.account_id AND payment.id = new.id
"""  # noqa: S608 - declared pieces


async def write_outcomes(
    db: Queryable,
    rows: Sequence[Mapping[str, Any]],
    attempts: Sequence[Mapping[str, Any]],
    notices: Sequence[Ipn],
    now: datetime,
) -> None:
    await db.execute(
        _OUTCOMES,
        [_OUTCOME(row) for row in rows],
        [ATTEMPTS.row(attempt) for attempt in attempts],
        [ipn.as_row(notice, now) for notice in notices],
        now,
    )


async def close(
    db: Queryable, account_id: int, payment_id: int, started_at: datetime | None, status: str, remark: str | None,
    now: datetime,
) -> Record | None:  # fmt: skip
    """Ends a payment that was not paid; None when it is not pending, or was started since it was looked at."""
    return await db.fetchrow(
        """
        UPDATE payment
        SET status = $4, remark = $5, cancelled_at = CASE WHEN $4 = 'cancelled' THEN $6::timestamptz END,
            closing = NULL, due_at = NULL, lease_until = NULL, updated_at = $6
        WHERE account_id = $1 AND id = $2 AND status = 'pending' AND started_at IS NOT DISTINCT FROM $3
        RETURNING *
        """,
        account_id,
        payment_id,
        started_at,
        status,
        remark,
        now,
    )


async def set_closing(
    db: Queryable, account_id: int, payment_id: int, closing: str | None, due_at: datetime, now: datetime
) -> Record | None:
    """From now on it cannot be started; or, with None, it can again."""
    return await db.fetchrow(
        """
        UPDATE payment
        SET closing = $3, due_at = $4, updated_at = $5
        WHERE account_id = $1 AND id = $2 AND status = 'pending'
        RETURNING *
        """,
        account_id,
        payment_id,
        closing,
        due_at,
        now,
    )


def _claiming(table: Literal["payment", "review_case"]) -> str:
    """Takes rows whose time has come, and that nobody holds; the lease is in real time."""
    return f"""
        UPDATE {table}
        SET lease_until = clock_timestamp() + interval '60 seconds', looks = looks + 1
        WHERE (account_id, id) IN (
            SELECT account_id, id
            FROM {table}
            WHERE due_at <= $1 AND (lease_until IS NULL OR lease_until < clock_timestamp())
            ORDER BY due_at
            LIMIT $2
        )
          AND due_at <= $1 AND (lease_until IS NULL OR lease_until < clock_timestamp())
        RETURNING *
    """  # noqa: S608 - one of two names


def _soonest(table: Literal["payment", "review_case"]) -> str:
    return f"""
        SELECT min(due_at)
        FROM {table}
        WHERE due_at IS NOT NULL AND (lease_until IS NULL OR lease_until < clock_timestamp())
    """  # noqa: S608 - one of two names


async def claim_due(db: Queryable, now: datetime, limit: int) -> list[Record]:
    """Payments that must be closed, or whose processor must be asked."""
    return await db.fetch(_claiming("payment"), now, limit)


async def next_due(db: Queryable) -> datetime | None:
    return cast("datetime | None", await db.fetchval(_soonest("payment")))


async def look_again(db: Queryable, account_id: int, payment_id: int, due_at: datetime) -> None:
    """Gives the lease back; it is due again at that time."""
    await db.execute(
        """
        UPDATE payment
        SET due_at = $3, lease_until = NULL
        WHERE account_id = $1 AND id = $2 AND status = 'pending'
        """,
        account_id,
        payment_id,
        due_at,
    )


async def open_case(
    db: Queryable, kind: str, account_id: int, payment_id: int, facts: Mapping[str, Any], due_at: datetime | None,
    now: datetime,
) -> bool:  # fmt: skip
    """A case for a person; False when there is one already."""
    number = await db.fetchval(
        """
        INSERT INTO review_case (account_id, id, kind, payment_id, facts, due_at, created_at, updated_at)
        VALUES ($1, nextval('review_case_id'), $2, $3, $4, $5, $6, $6)
        ON CONFLICT (account_id, kind, payment_id) DO NOTHING
        RETURNING id
        """,
        account_id,
        kind,
        payment_id,
        dict(facts),
        due_at,
        now,
    )
    return number is not None


async def claim_cases(db: Queryable, now: datetime, limit: int) -> list[Record]:
    return await db.fetch(_claiming("review_case"), now, limit)


async def next_case_due(db: Queryable) -> datetime | None:
    return cast("datetime | None", await db.fetchval(_soonest("review_case")))


async def case_later(db: Queryable, case: Record, due_at: datetime) -> None:
    await db.execute(
        "UPDATE review_case SET due_at = $3, lease_until = NULL WHERE account_id = $1 AND id = $2",
        case["account_id"],
        case["id"],
        due_at,
    )


async def case_is(db: Queryable, case: Record, status: str, now: datetime) -> None:
    """Nothing more is done about it here; a person closes it."""
    await db.execute(
        """
        UPDATE review_case
        SET status = $3, due_at = NULL, lease_until = NULL, updated_at = $4
        WHERE account_id = $1 AND id = $2
        """,
        case["account_id"],
        case["id"],
        status,
        now,
    )


async def mark_started(db: Queryable, account_id: int, payment_id: int, due_at: datetime, now: datetime) -> None:
    """The intent to open a checkout at the processor, before it is called; and when to ask, should nobody tell."""
    await db.execute(
        """
        UPDATE payment
        SET started_at = coalesce(started_at, $4), due_at = $3, looks = 0, updated_at = $4
        WHERE account_id = $1 AND id = $2
        """,
        account_id,
        payment_id,
        due_at,
        now,
    )


async def keep_reference(db: Queryable, account_id: int, payment_id: int, reference: str, now: datetime) -> None:
    await db.execute(
        """
        UPDATE payment
        SET processor_reference = $3, updated_at = $4
        WHERE account_id = $1 AND id = $2 AND processor_reference IS NULL
        """,
        account_id,
        payment_id,
        reference,
        now,
    )
