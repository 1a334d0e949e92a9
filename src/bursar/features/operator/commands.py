"""Orders to the worker. The API writes one and waits; the worker, which alone runs due work, writes what came of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any, cast

from bursar.db.pool import Database, Queryable
from bursar.features.operator.errors import WorkFailed
from bursar.http.routes import Unknown

POLL_S = 0.02


async def order(db: Queryable, kind: str, argument: Mapping[str, Any]) -> int:
    return cast(
        "int",
        await db.fetchval(
            """
            INSERT INTO worker_command (id, kind, argument)
            VALUES (nextval('worker_command_id'), $1, $2)
            RETURNING id
            """,
            kind,
            dict(argument),
        ),
    )


async def outcome(db: Database, command_id: int, timeout_s: float) -> dict[str, Any] | WorkFailed:
    """Waits until the worker is done. `Unknown` when there is no worker or it takes too long: it is still ordered."""
    deadline = time.monotonic() + timeout_s
    while True:
        row = await db.fetchrow(
            "SELECT result, error FROM worker_command WHERE id = $1 AND done_at IS NOT NULL", command_id
        )
        if row is not None:
            break
        if time.monotonic() >= deadline:
            raise Unknown
        await asyncio.sleep(POLL_S)
    if row["error"] is not None:
        return WorkFailed()
    return cast("dict[str, Any]", row["result"])
