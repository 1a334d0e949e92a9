"""Misbehaviour on order: the next calls of an operation fail, are not answered, or are told about strangely.

A fault hits a call that acts. A repeated call under a key that has had its effect is answered as it should be, so
however many faults were ordered, whoever keeps asking gets the truth.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar, get_args

from bursar.db.pool import Connection, Database, Queryable, persist
from bursar.processors.protocol import Rejected

# `start` is for tests of this link; the operator API orders the others.
Operation = Literal["start", "payment", "refund", "cancel", "payout", "collection", "funding", "terminal"]
Kind = Literal["timeout", "error", "duplicate_callback", "late_callback", "out_of_order"]
OPERATIONS: tuple[str, ...] = get_args(Operation)
KINDS: tuple[str, ...] = get_args(Kind)
LARGEST_COUNT = 10_000

T = TypeVar("T")

_TAKE = """
-- The oldest order for this operation that is of one of these kinds; two calls never take the same one.
UPDATE simulator.fault
SET remaining = remaining - 1
WHERE id = (
    SELECT id
    FROM simulator.fault
    WHERE operation = $1 AND kind = ANY($2::text[]) AND remaining > 0
    ORDER BY id
    LIMIT 1
    FOR UPDATE
)
RETURNING kind
"""


class Broken(Exception):
    """The call fails before it has done anything."""


@dataclass(frozen=True, slots=True)
class Done(Generic[T]):
    """An answer, and whether it was this call that acted or an earlier one under the same key."""

    answer: T
    acted: bool = True


@dataclass(frozen=True, slots=True)
class Performed(Generic[T]):
    """What a call came to: an answer, silence, or an error (no answer)."""

    answer: T | None
    silent: bool = False


async def order(db: Queryable, operation: str, kind: str, count: int) -> None:
    if operation not in OPERATIONS or kind not in KINDS or not 1 <= count <= LARGEST_COUNT:
        raise Rejected("invalid_request")
    await db.execute(
        """
        INSERT INTO simulator.fault (id, operation, kind, remaining, created_at)
        VALUES (nextval('simulator.fault_id'), $1, $2, $3, instance_now())
        """,
        operation,
        kind,
        count,
    )


async def take(db: Connection, operation: Operation, *kinds: Kind) -> str | None:
    """The kind of fault that hits this call now, if any does."""
    kind: str | None = await db.fetchval(_TAKE, operation, list(kinds))
    return kind


async def break_if_ordered(db: Connection, operation: Operation) -> None:
    if await take(db, operation, "error"):
        raise Broken


async def perform(
    database: Database, operation: Operation, work: Callable[[Connection], Awaitable[Done[T]]]
) -> Performed[T]:
    """One operation in one transaction, answered as ordered. `work` breaks, if it does, before it writes anything.

    It is run again when transactions collided; its key says whether it has acted.
    """

    async def once() -> Performed[T]:
        async with database.transaction() as db:
            try:
                done = await work(db)
            except Broken:
                return Performed(None)  # commits: the order is used up
            silent = done.acted and await take(db, operation, "timeout") is not None
        return Performed(done.answer, silent)

    return await persist(once)


async def hold_key(db: Connection, key: str) -> None:
    """Calls under one key come one after the other, so that the second sees what the first did."""
    await db.execute("SELECT pg_advisory_xact_lock(hashtextextended('simulator ' || $1, 0))", key)
