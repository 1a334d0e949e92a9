"""What the simulator tells the service, and when: in order and once, unless a fault was ordered."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import msgspec

from bursar.core import ids
from bursar.db.pool import Connection
from bursar.processors.protocol import Callback
from bursar.processors.simulator import faults
from bursar.processors.simulator.faults import Kind, Operation
from bursar.processors.simulator.scenarios import LATE

ALL_KINDS: tuple[Kind, ...] = ("duplicate_callback", "late_callback", "out_of_order")
COPIES_LARGEST = 5

_encode = msgspec.json.Encoder().encode


async def tell(
    db: Connection, operation: Operation | None, *, kinds: tuple[Kind, ...] = ALL_KINDS, **facts: Any
) -> None:
    """Puts one callback into the outbox, in the transaction of what it tells of. `operation` None: never faulty."""
    now = await db.fetchval("SELECT instance_now()")
    callback = Callback(event_id=f"sev_{ids.random_text(ids.BASE62, 24)}", at=now, **facts)
    fault = await faults.take(db, operation, *kinds) if operation else None
    copies = 1 + random.randint(1, COPIES_LARGEST) if fault == "duplicate_callback" else 1  # noqa: S311 - no secret
    await db.execute(
        "UPDATE simulator.callback SET due_at = least(due_at, $2) WHERE about = $1 AND held AND delivered_at IS NULL",
        callback.reference,
        now,
    )
    await db.execute(
        """
        INSERT INTO simulator.callback (id, event_id, about, body, copies, held, due_at, created_at)
        VALUES (nextval('simulator.callback_id'), $1, $2, $3, $4, $5, $6, $7)
        """,
        callback.event_id,
        callback.reference,
        _encode(callback),
        copies,
        fault == "out_of_order",
        now + (LATE if fault in ("late_callback", "out_of_order") else timedelta()),
        now,
    )
