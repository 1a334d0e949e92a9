"""Rows of calls to a processor. Whoever holds a row's lock may write its outcome; there is only one outcome."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from datetime import datetime
from typing import Any, cast

from bursar.core.errors import ApiError
from bursar.db.pool import Connection
from bursar.http.context import Ctx
from bursar.http.idempotency import Claim


async def begin(
    db: Connection, ctx: Ctx, kind: str, intent: Mapping[str, Any], claim: Claim | None, lease_s: float
) -> int:
    """The intent, due at once but leased to the caller, in real time, for as long as its call may take."""
    owner_id, family, scope, key = claim.identity if claim else (ctx.account.account_id, None, None, None)
    return cast(
        "int",
        await db.fetchval(
            """
            INSERT INTO operation
                (account_id, id, kind, intent, owner_id, family, scope, key, request_id, due_at, lease_until,
                 created_at, updated_at)
            VALUES ($1, nextval('operation_id'), $2, $3, $4, $5, $6, $7, $8, $9,
                    clock_timestamp() + $10 * interval '1 second', $9, $9)
            RETURNING id
            """,
            ctx.account.account_id,
            kind,
            dict(intent),
            owner_id,
            family,
            scope,
            key,
            ctx.request_id,
            ctx.now,
            lease_s,
        ),
    )


async def take(db: Connection, account_id: int, operation_id: int) -> bool:
    """Locks the row; False when its outcome is already written."""
    state = await db.fetchval(
        "SELECT state FROM operation WHERE account_id = $1 AND id = $2 FOR NO KEY UPDATE", account_id, operation_id
    )
    return state in ("calling", "unknown")


async def outcome_of(finishing: Awaitable[Any]) -> Any:
    """What `finish` returned. A declared error is an outcome and must be returned: raising it would undo the rest."""
    try:
        return await finishing
    except ApiError as error:
        raise RuntimeError(f"finish raised {error.code} instead of returning it") from error


async def done(db: Connection, account_id: int, operation_id: int, now: datetime) -> None:
    await db.execute(
        """
        UPDATE operation
        SET state = 'done', due_at = NULL, lease_until = NULL, updated_at = $3
        WHERE account_id = $1 AND id = $2
        """,
        account_id,
        operation_id,
        now,
    )


async def unknown(db: Connection, account_id: int, operation_id: int, now: datetime, due_at: datetime) -> None:
    """To be looked at again when `due_at` comes."""
    await db.execute(
        """
        UPDATE operation
        SET state = 'unknown', due_at = $4, lease_until = NULL, updated_at = $3
        WHERE account_id = $1 AND id = $2
        """,
        account_id,
        operation_id,
        now,
        due_at,
    )


async def to_review(db: Connection, account_id: int, operation_id: int, now: datetime) -> None:
    """Asking again is no longer safe; a person must find out."""
    await db.execute(
        """
        UPDATE operation
        SET state = 'review', due_at = NULL, lease_until = NULL, updated_at = $3
        WHERE account_id = $1 AND id = $2
        """,
        account_id,
        operation_id,
        now,
    )
