"""A: what clients were told, held against what they asked and against what the database has."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tests.faults.invariants.log import Exchange, Log

KEPT_S = 23 * 3600  # every family keeps a key for a day at least
ORDER = {"pending": 0, "failed": 1, "cancelled": 1, "succeeded": 1, "refunded": 2}


@dataclass(frozen=True)
class Shown:
    """A payment as a reply showed it; the numbers are those of the request's and the reply's notes."""

    asked: int
    heard: int
    status: str
    refunded: Decimal


async def replays_are_identical(_: Any, log: Log) -> list[str]:
    """A2, A3: the first reply again, byte for byte and marked; another body under the same key has no success."""
    broken = []
    for (who, _method, path, key), tries in log.keyed().items():
        where = f"{path} under {key} of {who}"
        same = [one for one in tries if one.body == tries[0].body]
        told = [one for one in same if one.ok]
        if any(one.ok for one in tries if one.body != tries[0].body):
            broken.append(f"A3: {where} accepted another body")
        if len({(one.status, one.type, one.reply) for one in told}) > 1:
            broken.append(f"A2: {where} was answered differently: {[one.n for one in told]}")
        first_hand = sum(not one.replayed for one in told)
        if first_hand > 1:
            broken.append(f"A2: {where} repeated its reply and did not say so")
        if told and first_hand == 0 and all(one.ok for one in same):
            broken.append(f"A2: {where} was only ever answered with a repeat")
        known = min((one.heard for one in told), default=10**12)
        turned = [one for one in same if one.final and not one.ok and one.n > known]
        broken += [f"A2: {where} succeeded, then answered {one.status} {one.code}" for one in turned]
    return broken


async def every_request_ends(_: Any, log: Log) -> list[str]:
    """A5: whatever was lost, cut or answered 5xx was resolved by the same key."""
    return [
        f"A5: {path} under {key} of {who} never had a final answer in {len(tries)} tries"
        for (who, _method, path, key), tries in log.keyed().items()
        if not any(one.final for one in tries)
    ]


async def what_was_said_is_stored(session: Any, log: Log) -> list[str]:
    """A4: every success that a client saw is in the database with those bytes."""
    rows = await session.fetch("SELECT account_id, scope, key, status, body, sealed FROM idempotency_key")
    stored = {(row["account_id"], row["key"], row["scope"].partition("/")[2]): row for row in rows}
    broken = []
    for (who, _method, path, key), tries in log.keyed().items():
        seen = next((one for one in tries if one.ok), None)
        if seen is None or log.moved_since(seen.n) > KEPT_S:
            continue
        row = stored.get((who, key, path.removeprefix("/")))
        if row is None:
            broken.append(f"A4: the reply to {path} under {key} of {who} is not in the database")
        elif row["status"] != seen.status or (not row["sealed"] and row["body"].decode() != seen.reply):
            broken.append(f"A4: the reply to {path} under {key} of {who} is stored otherwise than it was sent")
    return broken


_EFFECTS = {
    "create": "SELECT identifier AS key, count(*) AS n, max(id) AS id FROM payment WHERE account_id > 1000 GROUP BY 1",
    "link": "SELECT details AS key, count(*) AS n, max(id) AS id FROM payment_link WHERE account_id > 1000 GROUP BY 1",
    "refund": """
        SELECT reason AS key, count(*) AS n, max(id) AS id FROM refund
        WHERE account_id > 1000 AND status <> 'failed' GROUP BY 1
    """,
    "adjust": "SELECT note AS key, count(*) AS n, max(id) AS id FROM journal WHERE kind = 'adjustment' GROUP BY 1",
}


async def effects_are_once(session: Any, log: Log) -> list[str]:
    """A1, A5, A7: one effect if the client was told of success, none if it was refused, and its number is that."""
    found = {op: {row["key"]: row for row in await session.fetch(query)} for op, query in _EFFECTS.items()}
    broken = []
    for (who, _method, path, key), tries in log.keyed().items():
        effects = found.get(tries[0].op)
        if effects is None:
            continue
        told = next((one for one in tries if one.ok), None)
        row = effects.get(key)
        count = row["n"] if row else 0
        allowed = {0} if told is None else {0, 1} if _open(told) else {1}
        if any(one.final for one in tries) and count not in allowed:
            broken.append(f"A1: {path} under {key} of {who} had {count} effects; its client was told of {allowed}")
        elif told is not None and row is not None and (number := _number(told)) not in (None, row["id"]):
            broken.append(f"A7: {path} under {key} of {who} answered with {number}, which is {row['id']}")
    return broken


def _open(told: Exchange) -> bool:
    """A refund whose reply said that nobody knows yet: the processor may still refuse it."""
    return told.op == "refund" and told.data["refund"]["status"] == "pending"


def _number(told: Exchange) -> int | None:
    data = told.data
    if told.op == "create":
        return int(data["id"])
    if told.op == "link":
        return int(data["payment_link"]["id"])
    return int(data["refund"]["id"]) if told.op == "refund" else None


async def reads_never_go_back(session: Any, log: Log) -> list[str]:
    """A7, P1: what was shown of a payment stays true: no status goes back, no refund is forgotten."""
    shown: dict[int, list[Shown]] = defaultdict(list)
    for one in log.exchanges:
        if one.ok and (state := _transaction(one)) is not None:
            refunded = Decimal(str(state["refunded_amount"]))
            shown[state["id"]].append(Shown(one.n, one.heard, state["status"], refunded))
    rows = await session.fetch("SELECT id, status, refunded_minor FROM payment WHERE id = ANY($1)", list(shown))
    for row in rows:  # what there is now comes after everything
        shown[row["id"]].append(Shown(10**12, 10**12, row["status"], Decimal(row["refunded_minor"]) / 100))
    broken = []
    for number, states in shown.items():
        for before, after in itertools.permutations(states, 2):
            if before.heard >= after.asked:
                continue  # at the same time: either may have been first
            closed = ORDER[before.status] == 1 and after.status not in (before.status, "refunded")
            if ORDER[after.status] < ORDER[before.status] or closed or after.refunded < before.refunded:
                change = f"{before.status} ({before.refunded} refunded) to {after.status} ({after.refunded})"
                broken.append(f"A7: payment {number} went from {change}, shown to {before.asked} and {after.asked}")
    return broken


def _transaction(one: Exchange) -> dict[str, Any] | None:
    """The payment in a reply that is fresh; a repeated one shows what was true then."""
    if one.replayed or not re.search(r"/transactions/\d+", one.path) or one.type != "application/json":
        return None
    found = one.data.get("transaction") if isinstance(one.data, dict) else None
    return found if isinstance(found, dict) else None


PARTS = (replays_are_identical, every_request_ends, what_was_said_is_stored, effects_are_once, reads_never_go_back)
