"""Idempotency keys: one effect per key, and the first reply again, byte for byte.

The key's row is claimed in the transaction of the effect and completed with the reply in the same transaction: a crash
before commit leaves nothing, after it the replay is exact. What counts as "the same key" is the family's business.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import asyncpg
import msgspec
from msgspec.structs import replace

from bursar.core.crypto import CannotOpen, open_for_reader, seal_for_reader
from bursar.core.errors import (
    BillingReviewRequired,
    DuplicateRequest,
    IdempotencyConflict,
    InvalidIdempotencyKey,
    MissingIdempotencyKey,
    ServiceUnavailable,
)
from bursar.core.text import is_forbidden
from bursar.db.pool import SESSION, Connection, Record
from bursar.db.rows import Rows
from bursar.http.families import Family, KeyScope

DAY = timedelta(days=1)
MONTH = timedelta(days=30)
TWIN_WAIT_S = 0.25


class Stored(msgspec.Struct, frozen=True):
    """A reply as it went out: status, the headers that belong to it, and its exact bytes."""

    status: int
    body: bytes
    headers: dict[str, str] = {}
    replayed: bool = False


class Claim(msgspec.Struct, frozen=True):
    """One use of a key. `scope` and `fingerprint` follow the family's rule of what the same request is."""

    owner_id: int
    family: Family
    scope: str
    key: str
    fingerprint: bytes
    keep: timedelta

    @property
    def identity(self) -> tuple[int, str, str, str]:
        return self.owner_id, self.family.name, self.scope, self.key


class Held(msgspec.Struct, frozen=True):
    """A key that somebody used before."""

    fingerprint: bytes
    reply: Stored | None  # None while the first request is still running
    sealed: bool
    since: datetime


def check_key(family: Family, key: str) -> None:
    if not key:
        raise MissingIdempotencyKey
    if not family.key_shape.fullmatch(key) or is_forbidden(key):  # keys are stored, and told to webhooks
        raise InvalidIdempotencyKey(status=400 if family.strict_headers else None)


def new_claim(
    family: Family, owner_id: int, target_id: int, method: str, path: str, key: str, content: bytes, keep: timedelta
) -> Claim:
    """`content` is the raw body, or for uploads a digest of the parsed parts, since clients change the boundary."""
    place = f"{method} {path}"
    if family.key_scope is KeyScope.TARGET_METHOD_PATH:
        scope = f"{target_id} {place}"
    else:
        scope = place if family.key_scope is KeyScope.METHOD_PATH else ""
    fingerprint = hashlib.sha256(f"{place}\n{target_id}\n".encode() + content).digest()
    return Claim(owner_id, family, scope, key, fingerprint, keep)


async def claim(db: Connection, wanted: Claim) -> tuple[datetime, Held | None]:
    """Claims the key in the open transaction; returns the instance's time, and who holds the key if it is taken."""
    try:
        row = await db.fetchrow(
            "SELECT * FROM idempotency_claim($1, $2, $3, $4, $5, $6)",
            *wanted.identity,
            wanted.fingerprint,
            wanted.keep,
        )
    except asyncpg.LockNotAvailableError as error:
        raise DuplicateRequest from error  # a twin is still at work in another process
    assert row is not None
    if row["claimed"]:
        return row["moment"], None
    if row["held_fingerprint"] is None:
        raise DuplicateRequest  # it expired and was swept between the two looks; the next try will have it
    return row["moment"], _held(row, "held_")


async def find(db: Connection, wanted: Claim) -> Held | None:
    row = await db.fetchrow(
        """
        SELECT fingerprint, status, headers, body, sealed, created_at AS since
        FROM idempotency_key
        WHERE account_id = $1 AND family = $2 AND scope = $3 AND key = $4 AND expires_at > instance_now()
        """,
        *wanted.identity,
    )
    return _held(row, "") if row else None


async def complete(db: Connection, wanted: Claim, reply: Stored, *, secret: str | None = None) -> None:
    """Stores the reply, once; sealed to the holder of `secret` when it shows a secret of its own."""
    body = seal_for_reader(secret, reply.body, wanted.fingerprint) if secret else reply.body
    await db.execute(
        """
        UPDATE idempotency_key
        SET status = $5, headers = $6, body = $7, sealed = $8
        WHERE account_id = $1 AND family = $2 AND scope = $3 AND key = $4 AND status IS NULL
        """,
        *wanted.identity,
        reply.status,
        _pack(reply.headers),
        body,
        secret is not None,
    )


_CLAIM_MANY = """
-- The keys of one batch, each with its reply. A key that is taken yields no row; an expired one is taken over.
WITH patience AS MATERIALIZED (
    -- A twin in flight elsewhere is waited for, but not for long.
    SELECT set_config('lock_timeout', '250ms', true)
), claimed AS (
    INSERT INTO idempotency_key AS held
        (account_id, family, scope, key, fingerprint, status, headers, body, created_at, expires_at)
    SELECT k.*
    FROM patience
    CROSS JOIN unnest($1::new_idempotency_key[]) AS k
    ON CONFLICT (account_id, family, scope, key) DO UPDATE
        SET fingerprint = excluded.fingerprint, status = excluded.status, headers = excluded.headers,
            body = excluded.body, sealed = false,
            created_at = excluded.created_at, expires_at = excluded.expires_at
        WHERE held.expires_at <= excluded.created_at AND held.status IS NOT NULL
    RETURNING account_id, family, scope, key
)
SELECT account_id, family, scope, key, set_config('lock_timeout', $2, true)
FROM (SELECT * FROM claimed ORDER BY key) AS claimed  -- sorted, so that all are claimed before patience ends
"""


PATIENCE = "SELECT set_config('lock_timeout', '250ms', true)"  # a twin in flight elsewhere is not waited for long
NEW = Rows(
    "idempotency_key",
    given=(
        "account_id", "family", "scope", "key", "fingerprint", "status", "headers", "body", "created_at", "expires_at",
    ),
    unless="ON CONFLICT DO NOTHING",
)  # fmt: skip


def new_row(wanted: Claim, reply: Stored, now: datetime) -> tuple[Any, ...]:
    """A key with its reply, as a row of `NEW`."""
    return (
        *wanted.identity, wanted.fingerprint, reply.status, _pack(reply.headers), reply.body, now, now + wanted.keep,
    )  # fmt: skip


async def claim_many(db: Connection, wanted: Sequence[Claim], replies: Sequence[Stored], now: datetime) -> set[int]:
    """Claims and completes many keys in one statement; returns the positions that were free."""
    new = [new_row(claim, reply, now) for claim, reply in zip(wanted, replies, strict=True)]
    try:
        rows = await db.fetch(_CLAIM_MANY, new, SESSION["lock_timeout"])
    except asyncpg.LockNotAvailableError as error:
        if len(wanted) > 1:
            raise  # one of them; run alone, each will know
        raise DuplicateRequest from error
    free = {(row["account_id"], row["family"], row["scope"], row["key"]) for row in rows}
    return {position for position, claim in enumerate(wanted) if claim.identity in free}


async def correct(db: Connection, wanted: Claim, reply: Stored) -> None:
    """Corrects the reply of a key claimed in this very transaction."""
    await db.execute(
        """
        UPDATE idempotency_key
        SET status = $5, headers = $6, body = $7
        WHERE account_id = $1 AND family = $2 AND scope = $3 AND key = $4
        """,
        *wanted.identity,
        reply.status,
        _pack(reply.headers),
        reply.body,
    )


async def release_many(db: Connection, wanted: Sequence[Claim]) -> None:
    """Gives back keys whose requests turned out to be errors that do not consume them."""
    await db.execute(
        """
        DELETE FROM idempotency_key AS held
        USING unnest($1::bigint[], $2::text[], $3::text[], $4::text[]) AS k (account_id, family, scope, key)
        WHERE (held.account_id, held.family, held.scope, held.key) = (k.account_id, k.family, k.scope, k.key)
        """,
        [claim.owner_id for claim in wanted],
        [claim.family.name for claim in wanted],
        [claim.scope for claim in wanted],
        [claim.key for claim in wanted],
    )


async def release_unanswered(db: Connection, wanted: Claim) -> None:
    """Gives back a key that never got a reply."""
    await db.execute(
        """
        DELETE FROM idempotency_key
        WHERE account_id = $1 AND family = $2 AND scope = $3 AND key = $4 AND status IS NULL
        """,
        *wanted.identity,
    )


def answer_held(held: Held, wanted: Claim, now: datetime, secret: str) -> Stored:
    """What a second use of a key gets: the first reply again, or a conflict."""
    family = wanted.family
    if not family.replays:
        raise DuplicateRequest
    if held.fingerprint != wanted.fingerprint:
        raise IdempotencyConflict
    if held.reply is None:
        if family.review_after and now - held.since > family.review_after:
            raise BillingReviewRequired
        raise DuplicateRequest
    return replace(_opened(held, wanted, held.reply, secret), replayed=True)


def answer_own(held: Held, wanted: Claim, secret: str) -> Stored:
    """What the same request gets when it tries again because it never heard of its commit: its own reply, if stored."""
    if held.fingerprint != wanted.fingerprint:
        raise IdempotencyConflict
    if held.reply is None:
        raise ServiceUnavailable(headers={"Retry-After": "1"})
    return _opened(held, wanted, held.reply, secret)


def _opened(held: Held, wanted: Claim, reply: Stored, secret: str) -> Stored:
    if not held.sealed:
        return reply
    try:
        return replace(reply, body=open_for_reader(secret, reply.body, wanted.fingerprint))
    except CannotOpen as error:
        raise DuplicateRequest("The first reply showed a secret to another key and cannot be repeated.") from error


def _held(row: Record, prefix: str) -> Held:
    reply = None
    if row[prefix + "status"] is not None:
        reply = Stored(row[prefix + "status"], row[prefix + "body"], _unpack(row[prefix + "headers"]))
    return Held(row[prefix + "fingerprint"], reply, row[prefix + "sealed"], row[prefix + "since"])


def _pack(headers: dict[str, str]) -> str | None:
    return msgspec.json.encode(headers).decode() if headers else None


def _unpack(headers: str | None) -> dict[str, str]:
    return msgspec.json.decode(headers, type=dict[str, str]) if headers else {}


class InFlight:
    """Keys at work in this process, so that twins are answered before they take a connection."""

    def __init__(self) -> None:
        self._running: dict[tuple[int, str, str, str], asyncio.Future[Held | None]] = {}

    async def enter(self, wanted: Claim) -> Held | None:
        """Takes the key's place, or waits shortly for a twin and returns what it was answered; then 409.

        A twin that left no reply (it failed, or showed a secret) is succeeded by the next in line.
        """
        identity, loop = wanted.identity, asyncio.get_running_loop()
        deadline = loop.time() + TWIN_WAIT_S
        while (twin := self._running.get(identity)) is not None:
            await asyncio.wait([twin], timeout=max(0.0, deadline - loop.time()))
            if not twin.done():
                raise DuplicateRequest
            if (held := twin.result()) is not None:
                return held
        self._running[identity] = loop.create_future()
        return None

    def leave(self, wanted: Claim, held: Held | None) -> None:
        self._running.pop(wanted.identity).set_result(held)
