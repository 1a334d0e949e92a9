"""What must be true after every load: books that agree, a row for every answer, the first reply again for a replay."""

from __future__ import annotations

from collections.abc import Sequence

from bench import load, rows
from bench.load import Result
from bench.stage import Server, Stage
from bursar.features.payments import service as payments
from bursar.ledger import audit


async def books(stage: Stage) -> str:
    """The audit of the ledger and of the payments."""
    async with audit.session(stage.urls.service) as session:
        report = await audit.verify(session, more=payments.CHECKS)
    wrong = [f"{check.name}: {check.detail}" for check in report.checks if not check.ok]
    assert report.ok, wrong
    return f"{len(report.checks)} checks hold"


async def floor_is_rows(stage: Stage, floor_id: int) -> str:
    """The floor of a create wrote as many keys, payments and events."""
    connection = await stage.connect()
    try:
        found = {
            await connection.fetchval(f"SELECT count(*) FROM {table} WHERE account_id = $1", floor_id)
            for table in rows.TABLES
        }
    finally:
        await connection.close()
    assert len(found) == 1, found
    return f"{found.pop()} rows of each kind"


async def floor_is_journals(stage: Stage) -> str:
    """The floor of an outcome wrote what the ledger writes: four entries and two unsettled parts to a journal."""
    connection = await stage.connect()
    try:
        journals, entries, unsettled = [
            await connection.fetchval(f"SELECT count(*) FROM hand_{table}")
            for table in ("journal", "wallet_entry", "unsettled")
        ]
        moved = await connection.fetchval(
            "SELECT sum(h.pending - w.pending) FROM hand_wallet h JOIN bench_wallet w USING (account_id, currency)"
        )
    finally:
        await connection.close()
    assert (entries, unsettled, moved) == (4 * journals, 2 * journals, 9830 * journals), (journals, entries, moved)
    return f"{journals} journals of four entries"


async def creates_are_rows(stage: Stage, merchant_id: int, answered: int) -> str:
    """Every 201 left a key, a payment and an event, and nothing else did."""
    connection = await stage.connect()
    try:
        found = [
            await connection.fetchval(f"SELECT count(*) FROM {table} WHERE account_id = $1 {which}", merchant_id)
            for table, which in (
                ("idempotency_key", "AND status = 201"),
                ("payment", ""),
                ("event", "AND type = 'transaction.created'"),
            )
        ]
    finally:
        await connection.close()
    assert found == [answered] * 3, (answered, found)
    return f"{answered} answers of 201, as many keys, payments and events"


def replays_are_identical(app: Server, sent: Sequence[bytes], first: Result) -> str:
    """The same bytes again get the same bytes again."""
    count = len(first.digests)
    again = load.run(list(sent[:count]), app.port, 4, 30, keep=count)
    assert again.statuses == {"201": count}, again.statuses
    assert again.digests == first.digests
    return f"{count} replays, byte for byte"
