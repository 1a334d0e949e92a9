"""How many rows a long list has: what a sweep has counted once, and the rows since, which are few.

Only rows that are final are counted: no transaction can still add one below a tally's `upto`. So a tally and a count
from there on, read by one statement, are exact at every moment, and to insert a row costs no counter anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from bursar.db.pool import Connection, Database, Queryable, Record
from bursar.db.sweep import Desk, Sweep, repeat

LEAST = 500  # new rows that are worth counting; as many are counted as quickly as a tally is read
SAMPLES = 2_000  # taken notice of in one go
_LOCK = 0x74616C79  # "taly"
_FOR_EVER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Tally:
    """A list whose rows are counted, by owner and part. Its pieces are SQL; migration 0009 has their indexes."""

    list: str
    table: str
    owner: str = "account_id"  # or 0, for a list of everybody's rows
    part: str = "''"
    where: str = "true"
    stamp: str = "txid"  # what rises with the transactions
    sample: str = "id % 32 = 0"
    id: str = "id"

    def rows(self, owner: str, part: str) -> str:
        """Which rows are of this owner and part, whether they are on the list or not."""
        conditions = [f"{self.owner} = {owner}"] if self.owner != "0" else []
        conditions += [f"{self.part} = {part}"] if self.part != "''" else []
        return " AND ".join(conditions) or "true"

    def total(self, owner: str = "$1", part: str = "''") -> str:
        """How many rows there are, as an expression; the ORDER BY keeps the planner, who expects many, to the index."""
        return f"""(
            SELECT coalesce(max(t.n), 0) + (
                SELECT count(*)
                FROM (
                    SELECT
                    FROM {self.table}
                    WHERE {self.rows(owner, part)} AND ({self.where}) AND {self.stamp} >= coalesce(max(t.upto), 0)
                    ORDER BY {self.stamp}
                    LIMIT {_FOR_EVER}
                ) AS since
            )
            FROM tally AS t
            WHERE t.account_id = {owner} AND t.list = '{self.list}' AND t.part = {part}
        )"""  # noqa: S608 - declared pieces


TRANSACTIONS = Tally("transactions", "payment")
HOSTED = Tally("hosted", "payment", where="kind = 'hosted'")
PAYMENT_LINKS = Tally("payment_links", "payment_link")
# Entries are written under the lock of their wallet, so its seq has no gap that is filled later.
WALLET_ROWS = Tally(
    "wallet_rows", "wallet_entry", part="currency", where="main + pending <> 0", stamp="seq", sample="seq % 32 = 0"
)
DELIVERIES = Tally("deliveries", "delivery")
EVENTS = Tally("events", "event", where="audience <> 'platform'")
EVENTS_TOLD = Tally("events_told", "event", owner="platform_id", where="audience IN ('both', 'platform')")
EVENTS_SHARED = Tally("events_shared", "event", part="platform_id::text", where="audience IN ('both', 'platform')")
CONNECTED = Tally("connected_accounts", "account", owner="platform_id", sample="account_id % 32 = 0", id="account_id")
# What the operator lists is everybody's, but for the sandbox's fixture.
ALL_ACCOUNTS = Tally(
    "all_accounts", "account", owner="0", where="account_id >= 1001", sample="account_id % 32 = 0", id="account_id"
)
ALL_VERIFICATION_LINKS = Tally("all_verification_links", "verification_link", owner="0", where="account_id >= 1001")
ALL_COMPLIANCE_REQUESTS = Tally("all_compliance_requests", "compliance_request", owner="0", where="account_id >= 1001")
ALL_TICKETS = Tally("all_tickets", "support_ticket", owner="0", where="account_id >= 1001")
AUDIT_TRAIL = Tally("audit_trail", "operator_audit", owner="0")

TALLIES = (
    TRANSACTIONS, HOSTED, PAYMENT_LINKS, WALLET_ROWS, DELIVERIES, EVENTS, EVENTS_TOLD, EVENTS_SHARED, CONNECTED,
    ALL_ACCOUNTS, ALL_VERIFICATION_LINKS, ALL_COMPLIANCE_REQUESTS, ALL_TICKETS, AUDIT_TRAIL,
)  # fmt: skip

# Lists with sampled rows that were not looked at yet; or all of them, when transaction numbers have gone back.
_GROWN = "\nUNION\n".join(
    [
        "SELECT list FROM tally_mark WHERE horizon > pg_snapshot_xmin(pg_current_snapshot())::text::bigint",
        *(
            f"""
            SELECT '{tally.list}'
            FROM (
                SELECT
                FROM {tally.table}
                WHERE {tally.sample}
                  AND {tally.id} > coalesce((SELECT reached FROM tally_mark WHERE list = '{tally.list}'), 0)
                ORDER BY {tally.id}
                LIMIT 1
            ) AS grown
            """  # noqa: S608 - declared pieces
            for tally in TALLIES
        ),
    ]
)

_BEGIN = """
-- Where the counting of a list is, below which transaction all are finished now, and were the last time.
INSERT INTO tally_mark AS mark (list, horizon)
VALUES ($1, pg_snapshot_xmin(pg_current_snapshot())::text::bigint)
ON CONFLICT (list) DO UPDATE SET horizon = excluded.horizon
RETURNING reached, horizon, (SELECT held.horizon FROM tally_mark AS held WHERE held.list = $1) AS before
"""

_SAMPLED = """
-- Rows that tell whose list has grown.
SELECT {tally.id} AS id, {tally.owner}::bigint AS owner, {tally.part} AS part
FROM {tally.table}
WHERE {tally.sample} AND {tally.id} > $1
ORDER BY {tally.id}
LIMIT $2
"""

_ADD = """
-- Counts what is final and new, of each list that has grown by enough.
INSERT INTO tally AS held (account_id, list, part, n, upto)
SELECT grown.owner, $3, grown.part, since.n, since.upto
FROM unnest($1::bigint[], $2::text[]) AS grown (owner, part)
LEFT JOIN tally AS t ON t.account_id = grown.owner AND t.list = $3 AND t.part = grown.part
CROSS JOIN LATERAL (
    SELECT count(*) AS looked_at, count(*) FILTER (WHERE {tally.where}) AS n, max({tally.stamp}) + 1 AS upto
    FROM {tally.table}
    WHERE {rows} AND {tally.stamp} >= coalesce(t.upto, 0) AND {tally.stamp} < $4
) AS since
WHERE since.looked_at >= $5
ON CONFLICT (account_id, list, part) DO UPDATE SET n = held.n + excluded.n, upto = excluded.upto
"""

# Where a tally is not what there is: for the audit.
WRONG = "\nUNION ALL\n".join(
    f"""
    SELECT format('%s of account %s %s: counted %s, there are %s', t.list, t.account_id, t.part, t.n, found.n) AS place
    FROM tally AS t
    CROSS JOIN LATERAL (
        SELECT count(*) AS n
        FROM {tally.table}
        WHERE {tally.rows("t.account_id", "t.part")} AND ({tally.where}) AND {tally.stamp} < t.upto
    ) AS found
    WHERE t.list = '{tally.list}' AND t.n <> found.n
    """  # noqa: S608 - declared pieces
    for tally in TALLIES
)


async def count_all(db: Database, least: int = LEAST) -> int:
    """Counts what has grown by `least` rows or more; returns how many rows it took notice of."""
    grown = {row["list"] for row in await db.fetch(_GROWN)}
    return sum([await count(db, tally, least) for tally in TALLIES if tally.list in grown])


async def count(db: Database, tally: Tally, least: int = LEAST) -> int:
    async with db.transaction() as connection:
        if not await connection.fetchval("SELECT pg_try_advisory_xact_lock($1, hashtext($2))", _LOCK, tally.list):
            return 0  # another worker is at it
        # A list that was never counted may be long; and the planner cannot know that few rows are new.
        await connection.execute(
            "SET LOCAL statement_timeout = '10min'; SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off"
        )
        mark = await connection.fetchrow(_BEGIN, tally.list)
        assert mark is not None
        if mark["before"] is not None and mark["horizon"] < mark["before"]:
            return await _begin_anew(connection, tally)
        seen = await connection.fetch(_SAMPLED.format(tally=tally), mark["reached"], SAMPLES)
        if seen:
            await _add(connection, tally, seen, mark["horizon"], least)
            await connection.execute("UPDATE tally_mark SET reached = $2 WHERE list = $1", tally.list, seen[-1]["id"])
        return len(seen)


async def _add(connection: Connection, tally: Tally, seen: Sequence[Record], horizon: int, least: int) -> None:
    grown = {(row["owner"], row["part"]) for row in seen if row["owner"] is not None and row["part"] is not None}
    await connection.execute(
        _ADD.format(tally=tally, rows=tally.rows("grown.owner", "grown.part")),
        [owner for owner, _ in grown],
        [part for _, part in grown],
        tally.list,
        horizon if tally.stamp == "txid" else _FOR_EVER,
        least,
    )


async def _begin_anew(connection: Connection, tally: Tally) -> int:
    """Transaction numbers went back: the database was restored on another server. New rows may be below `upto`."""
    await connection.execute("DELETE FROM tally WHERE list = $1", tally.list)
    await connection.execute("UPDATE tally_mark SET reached = 0 WHERE list = $1", tally.list)
    return 1


async def hold(db: Queryable, tally: Tally) -> None:
    """To be called in a transaction before it deletes rows of the list: until it ends, none of them is counted."""
    await db.execute("SELECT pg_advisory_xact_lock_shared($1, hashtext($2))", _LOCK, tally.list)


async def deleted(db: Queryable, tally: Tally, rows: Sequence[tuple[int, int]]) -> None:
    """To be called after that with the owner and the stamp of each row that was on the list and is gone."""
    await db.execute(
        """
        UPDATE tally
        SET n = tally.n - gone.n
        FROM (
            SELECT t.account_id, count(*) AS n
            FROM unnest($2::bigint[], $3::bigint[]) AS g (owner, stamp)
            JOIN tally AS t ON t.account_id = g.owner AND t.list = $1 AND t.part = '' AND g.stamp < t.upto
            GROUP BY t.account_id
        ) AS gone
        WHERE tally.account_id = gone.account_id AND tally.list = $1 AND tally.part = ''
        """,
        tally.list,
        [owner for owner, _ in rows],
        [stamp for _, stamp in rows],
    )


async def _run(_: Desk, __: datetime) -> int:
    return 0  # no moved clock waits for it


async def _always(desk: Desk, _: asyncio.Event) -> None:
    """Once a second: every hint that something is due is too often."""
    await repeat(lambda: count_all(desk.db), asyncio.Event())


SWEEP = Sweep("tallies", _run, beside=_always)
