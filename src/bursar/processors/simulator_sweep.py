"""Keeps the simulator in step with a moved clock: the worker has it do what is due before it goes on."""

from __future__ import annotations

from datetime import datetime

import structlog

from bursar.db.pool import Database
from bursar.db.sweep import Desk, Sweep
from bursar.processors.protocol import Rejected, Unknown
from bursar.processors.simulator_client import SimulatorClient

log = structlog.get_logger()

_DUE = """
SELECT least(
    (SELECT min(due_at) FROM simulator.callback WHERE delivered_at IS NULL AND ($1 OR due_at > instance_now())),
    (SELECT min(settles_at) FROM simulator.payment WHERE state = 'processing' AND ($1 OR settles_at > instance_now())),
    (SELECT min(due_at) FROM simulator.payout WHERE due_at IS NOT NULL AND ($1 OR due_at > instance_now()))
)
"""


async def _run(desk: Desk, now: datetime) -> int:
    if not desk.settings.is_test:
        return 0
    due: datetime | None = await desk.db.fetchval(_DUE, True)
    if due is None or due > now:
        return 0
    try:
        return await SimulatorClient.of(desk.settings).run_due()
    except (Unknown, Rejected) as error:
        log.warning("simulator.not_reached", error=str(error))
        return 0


async def _next_due(db: Database) -> datetime | None:
    """What is overdue already is left out: the clock must not stand still because the simulator does not run."""
    moment: datetime | None = await db.fetchval(_DUE, False)
    return moment


SIMULATOR = Sweep("simulator", _run, _next_due)
