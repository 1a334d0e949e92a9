"""The audit: proves, from one snapshot, that journals, wallets, unsettled parts and seals agree, or says where not.

Each check is one set-based query that returns the places where its rule does not hold. The rules are also CHECKs,
keys and privileges; this looks at what is there, however it came to be there.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import asyncpg
import msgspec

from bursar.db import tallies
from bursar.ledger import seals

Session: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
Progress = Callable[[str, int, int], None]  # what is being checked, steps done, steps in all

PLACES_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Check:
    """`places` is a query for (place text): one row wherever the rule does not hold."""

    name: str
    rule: str
    places: str


class Result(msgspec.Struct, frozen=True):
    name: str
    ok: bool
    detail: str


class Report(msgspec.Struct, frozen=True):
    ok: bool
    checks: list[Result]
    head: str | None  # of the chain of seals: note it elsewhere, and give it as the next audit's anchor


CHECKS = (
    Check(
        "journals_balance",
        "every journal has two legs or more, none of them nothing, that add up to zero",
        """
        SELECT format('journal %s of account %s', j.id, j.account_id) AS place
        FROM journal j
        WHERE cardinality(j.amounts) < 2
           OR cardinality(j.owners) <> cardinality(j.amounts)
           OR cardinality(j.accounts) <> cardinality(j.amounts)
           OR 0 = ANY (j.amounts)
           OR (SELECT sum(amount) FROM unnest(j.amounts) AS amount) <> 0
        """,
    ),
    Check(
        "natural_keys_are_unique",
        "no fact was posted twice",
        """
        SELECT format('%s %s of account %s: journals %s', kind, ref, account_id,
                      string_agg(id::text, ', ' ORDER BY id)) AS place
        FROM journal
        GROUP BY account_id, kind, ref
        HAVING count(*) > 1
        """,
    ),
    Check(
        "entries_match_journals",
        "every wallet entry is what its journal says, and every leg of a wallet has its entries",
        """
        WITH leg AS (
            SELECT j.account_id AS home, j.id, j.currency, g.owner,
                   coalesce(sum(g.amount) FILTER (WHERE g.account = 'main'), 0) AS main,
                   coalesce(sum(g.amount) FILTER (WHERE g.account = 'pending'), 0) AS pending,
                   coalesce(sum(g.amount) FILTER (WHERE g.account = 'reserve'), 0) AS reserve
            FROM journal j, unnest(j.owners, j.accounts, j.amounts) AS g (owner, account, amount)
            WHERE g.account IN ('main', 'pending', 'reserve')
            GROUP BY j.account_id, j.id, j.currency, g.owner
        ), entry AS (
            SELECT e.journal_account_id AS home, e.journal_id AS id, e.currency, e.account_id AS owner,
                   sum(e.main) AS main, sum(e.pending) AS pending, sum(e.reserve) AS reserve
            FROM wallet_entry e
            GROUP BY e.journal_account_id, e.journal_id, e.currency, e.account_id
        )
        SELECT format('journal %s of account %s, wallet of account %s in %s', id, home, owner, currency) AS place
        FROM leg FULL JOIN entry USING (home, id, currency, owner)
        WHERE coalesce(leg.main, 0) <> coalesce(entry.main, 0)
           OR coalesce(leg.pending, 0) <> coalesce(entry.pending, 0)
           OR coalesce(leg.reserve, 0) <> coalesce(entry.reserve, 0)
        UNION ALL
        SELECT format('wallet of account %s in %s, seq %s: not as journal %s describes it', e.account_id, e.currency,
                      e.seq, e.journal_id)
        FROM wallet_entry e
        LEFT JOIN journal j ON j.account_id = e.journal_account_id AND j.id = e.journal_id
        WHERE j.id IS NULL OR (e.related, e.note, e.created_at) <> (j.related, j.note, j.created_at)
           OR e.fact IS DISTINCT FROM (ledger_class(e.kind) = 'fact')
        """,
    ),
    Check(
        "wallets_match_entries",
        "every bucket of every wallet is the sum of its entries",
        """
        WITH entry AS (
            SELECT account_id, currency, sum(main) AS main, sum(pending) AS pending, sum(reserve) AS reserve,
                   count(*) AS entries
            FROM wallet_entry
            GROUP BY account_id, currency
        )
        SELECT format('wallet of account %s in %s', account_id, currency) AS place
        FROM wallet w FULL JOIN entry e USING (account_id, currency)
        WHERE w.main IS DISTINCT FROM coalesce(e.main, 0)
           OR w.pending IS DISTINCT FROM coalesce(e.pending, 0)
           OR w.reserve IS DISTINCT FROM coalesce(e.reserve, 0)
           OR w.seq IS DISTINCT FROM coalesce(e.entries, 0)
        """,
    ),
    Check(
        "balances_are_chained",
        "each entry starts where the one before it ended, and no number is missing",
        """
        SELECT format('wallet of account %s in %s, seq %s', account_id, currency, seq) AS place
        FROM (
            SELECT account_id, currency, seq, balance_before, balance_after, main, pending,
                   lag(balance_after, 1, 0::bigint) OVER wallet AS previous,
                   lag(seq, 1, 0::bigint) OVER wallet AS previous_seq
            FROM wallet_entry
            WINDOW wallet AS (PARTITION BY account_id, currency ORDER BY seq)
        ) AS e
        WHERE balance_before <> previous OR seq <> previous_seq + 1
           OR balance_after <> balance_before + main + pending
        """,
    ),
    Check(
        "floors_held",
        "no request left a wallet below zero; pending and reserve never were",
        """
        SELECT format('wallet of account %s in %s, seq %s: a %s left %s', account_id, currency, seq, kind,
                      balance_after) AS place
        FROM wallet_entry
        WHERE balance_after < 0 AND ledger_class(kind) IS DISTINCT FROM 'fact'
        UNION ALL
        SELECT format('wallet of account %s in %s', account_id, currency)
        FROM wallet
        WHERE pending < 0 OR reserve < 0
        """,
    ),
    Check(
        "unsettled_parts_are_pending",
        "what is pending is the sum of the unsettled parts, and what is reserved is the sum of what was set aside",
        """
        WITH part AS (
            SELECT account_id, currency, sum(amount) AS amount, min(amount) AS least
            FROM unsettled
            GROUP BY account_id, currency
        ), aside AS (
            SELECT account_id, currency, sum(amount) FILTER (WHERE reserved) AS amount, min(amount) AS least
            FROM drawn
            GROUP BY account_id, currency
        )
        SELECT format('wallet of account %s in %s: pending %s, unsettled parts %s; reserve %s, set aside %s',
                      account_id, currency, w.pending, coalesce(part.amount, 0), w.reserve, coalesce(aside.amount, 0)
               ) AS place
        FROM wallet w
        FULL JOIN part USING (account_id, currency)
        FULL JOIN aside USING (account_id, currency)
        WHERE coalesce(w.pending, 0) <> coalesce(part.amount, 0) OR part.least < 0
           OR coalesce(w.reserve, 0) <> coalesce(aside.amount, 0) OR aside.least < 0
        """,
    ),
    Check(
        "service_accounts_balance",
        "in each currency, the service's own accounts and all wallets add up to zero",
        """
        SELECT format('%s: out by %s minor units', currency, sum(amount)) AS place
        FROM (
            SELECT j.currency, sum(g.amount) AS amount
            FROM journal j, unnest(j.accounts, j.amounts) AS g (account, amount)
            WHERE g.account NOT IN ('main', 'pending', 'reserve')
            GROUP BY j.currency
            UNION ALL
            SELECT currency, sum(main + pending + reserve) FROM wallet GROUP BY currency
        ) AS t
        GROUP BY currency
        HAVING sum(amount) <> 0
        """,
    ),
    Check("tallies_match_rows", "every list has as many rows as were counted", tallies.WRONG),
)
SEALED = "the journals are those that were sealed, and every seal follows from the one before it"


@asynccontextmanager
async def session(url: str) -> AsyncIterator[Session]:
    """A connection for an audit: not bound by the service's time limits, and in nobody's way."""
    connection = await asyncpg.connect(
        url,
        timeout=10,
        server_settings={
            "application_name": "bursar audit",
            "timezone": "UTC",
            "jit": "off",
            "statement_timeout": "0",
            "idle_in_transaction_session_timeout": "60s",
            "work_mem": "128MB",
        },
    )
    try:
        await connection.set_type_codec(
            "jsonb", schema="pg_catalog", encoder=_encode_json, decoder=msgspec.json.decode, format="text"
        )
        yield connection
    finally:
        await connection.close()


async def verify(
    db: Session,
    *,
    anchor: str | None = None,
    progress: Progress | None = None,
    more: Sequence[Check] = (),
) -> Report:
    """Runs every check on one snapshot. `anchor` is a head that an earlier audit reported; `more` are features' own."""
    report = progress or (lambda *_: None)
    async with db.transaction(isolation="repeatable_read", readonly=True):
        checks = [*CHECKS, *more]
        sealed: int = await db.fetchval("SELECT count(*) FROM seal")
        steps = len(checks) + sealed
        results = []
        for done, check in enumerate(checks):
            report(check.name, done, steps)
            results.append(await _run(db, check))
        chain, head = await _verify_seals(db, anchor, lambda done: report("seals", len(checks) + done, steps))
        results.append(chain)
        report("done", steps, steps)
    return Report(all(result.ok for result in results), results, head)


async def _run(db: Session, check: Check) -> Result:
    rows = await db.fetch(
        f"SELECT place, count(*) OVER () AS places FROM ({check.places}) AS wrong LIMIT {PLACES_SHOWN}"  # noqa: S608
    )
    if not rows:
        return Result(check.name, True, check.rule)
    unseen = rows[0]["places"] - len(rows)
    shown = "; ".join(row["place"] for row in rows)
    return Result(check.name, False, f"{shown}; and {unseen} more" if unseen else shown)


async def _verify_seals(db: Session, anchor: str | None, progress: Callable[[int], None]) -> tuple[Result, str | None]:
    wanted = anchor.strip().lower() if anchor else None
    anchored = wanted is None
    head = None
    wrong: list[str] = []
    done = 0
    async for block in seals.blocks(db):
        done += 1
        progress(done)
        head = block.head
        anchored = anchored or block.head == wanted
        if block.wrong:
            wrong.append(block.wrong)
    if not anchored:
        wrong.append("the head noted earlier is not in the chain: its end was removed, or the chain was made anew")
    if totals := await seals.wrong_totals(db):
        wrong.append(totals)
    detail = "; ".join(wrong[:PLACES_SHOWN]) or SEALED
    return Result("seals_are_intact", not wrong, detail), head


def _encode_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
