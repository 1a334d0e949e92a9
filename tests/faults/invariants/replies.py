"""A: what clients were told, held against what they asked and against what the database has."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from decimal import Decimal
from typing import Any

from tests.faults.invariants.log import Exchange, Log

KEPT_S = 23 * 3600  # every family keeps a key for a day at least
ORDER = {"pending": 0, "failed": 1, "cancelled": 1, "succeeded": 1, "refunded": 2}


async def replays_are_identical(_: Any, log: Log) -> list[str]:
    """A2, A3: the first reply again, byte for byte and marked; another body under the same key has no success."""
    broken = []
    for (who, _method, path, key), tries in log.keyed().items():
        first = tries[0].body
        told: Exchange | None = None
        unsure = False  # a try whose end the client did not see, so a first reply may already be a replay
        for one in tries:
            if one.body != first:
                if one.ok:
                    broken.append(f"A3: {path} under {key} of {who} accepted another body")
            elif one.ok:
                if told is None:
                    if one.replayed and not unsure:
                        broken.append(f"A2: the first answer of {path} under {key} of {who} calls itself a repeat")
                    told = one
                elif (one.status, one.type, one.reply) != (told.status, told.type, told.reply):
                    broken.append(f"A2: {path} under {key} of {who} was answered differently: {told.n} and {one.n}")
                elif not one.replayed:
                    broken.append(f"A2: {path} under {key} of {who} repeated its reply and did not say so")
            else:
                if told is not None and one.final and one.code not in ("idempotency_conflict", "rate_limited"):
                    broken.append(f"A2: {path} under {key} of {who} succeeded, then answered {one.status} {one.code}")
                unsure = True
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
        wanted = 1 if told else 0
        if any(one.final for one in tries) and count != wanted:
            broken.append(f"A1: {path} under {key} of {who} had {count} effects, and its client was told of {wanted}")
        elif told is not None and row is not None and (number := _number(told)) not in (None, row["id"]):
            broken.append(f"A7: {path} under {key} of {who} answered with {number}, which is {row['id']}")
    return broken


def _number(told: Exchange) -> int | None:
    data = told.data
    if told.op == "create":
        return int(data["id"])
    if told.op == "link":
        return int(data["payment_link"]["id"])
    return int(data["refund"]["id"]) if told.op == "refund" else None


async def reads_never_go_back(session: Any, log: Log) -> list[str]:
    """A7, P1: what was shown of a payment stays true: no status goes back, no refund is forgotten."""
    shown: dict[int, list[tuple[Exchange, str, Decimal]]] = defaultdict(list)
    for one in log.exchanges:
        if one.ok and (state := _transaction(one)) is not None:
            shown[state["id"]].append((one, state["status"], Decimal(str(state["refunded_amount"]))))
    rows = await session.fetch("SELECT id, status, refunded_minor FROM payment WHERE id = ANY($1)", list(shown))
    for row in rows:
        last = shown[row["id"]][-1][0]
        shown[row["id"]].append((last, row["status"], Decimal(row["refunded_minor"]) / 100))
    broken = []
    for number, states in shown.items():
        for (_, before, refunded), (later, after, then) in itertools.pairwise(states):
            closed = ORDER[before] == 1 and after not in (before, "refunded")
            if ORDER[after] < ORDER[before] or closed or then < refunded:
                broken.append(f"A7: payment {number} went from {before} to {after} (reply {later.n})")
    return broken


def _transaction(one: Exchange) -> dict[str, Any] | None:
    """The payment in a reply that is fresh; a repeated one shows what was true then."""
    if one.replayed or not re.search(r"/transactions/\d+", one.path) or one.type != "application/json":
        return None
    found = one.data.get("transaction") if isinstance(one.data, dict) else None
    return found if isinstance(found, dict) else None


PARTS = (replays_are_identical, every_request_ends, what_was_said_is_stored, effects_are_once, reads_never_go_back)
