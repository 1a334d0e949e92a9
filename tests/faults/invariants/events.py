"""E: what receivers were sent, held against what happened. Only when nothing is due any more."""

from __future__ import annotations

import hashlib
import hmac
from collections import defaultdict
from typing import Any
from urllib.parse import parse_qsl

from tests.faults.invariants.log import Log

CLOCK_S = 5.0


def _hmac(secret: str, message: bytes) -> str:
    return hmac.new(secret.encode(), message, hashlib.sha256).hexdigest()


async def deliveries_are_genuine(session: Any, log: Log) -> list[str]:
    """E3, E4: the frozen bytes, signed by the right secret at the time of the attempt, at the right place."""
    ids = {one["headers"].get("x-service-event-id") for one in log.deliveries}
    events = {
        row["event_id"]: row
        for row in await session.fetch(
            "SELECT event_id, account_id, platform_id, body FROM event WHERE event_id = ANY($1)", list(ids)
        )
    }
    broken = []
    for one in log.deliveries:
        endpoint = log.endpoints.get(one["path"])
        event_id = one["headers"].get("x-service-event-id", "")
        where = f"{event_id} at {one['path']}"
        if endpoint is None:
            continue  # a notification: see below
        event = events.get(event_id)
        if event is None:
            broken.append(f"E3: {where} is no event of ours")
            continue
        if event["body"].decode() != one["body"]:
            broken.append(f"E3: {where} has other bytes than the event")
        if endpoint["who"] not in (event["account_id"], event["platform_id"]):
            broken.append(f"E4: {where} is about account {event['account_id']}")
        dated = not any(since <= one["at"] <= until for since, until in log.wrong_clocks)
        broken += _signature(one, endpoint["secret"], where, dated=dated)
    return broken


def _signature(one: dict[str, Any], secret: str, where: str, *, dated: bool) -> list[str]:
    stamp = one["headers"].get("x-service-timestamp", "")
    expected = _hmac(secret, f"{stamp}.".encode() + one["body"].encode())
    if expected not in one["headers"].get("x-service-signature", "").split(","):
        return [f"E3: {where} is not signed with its secret"]
    if dated and abs(float(stamp) - one["at"]) > CLOCK_S:
        return [f"E3: {where} is dated {stamp} and came at {one['at']:.0f}"]
    return []


async def notifications_are_genuine(session: Any, log: Log) -> list[str]:
    """E3 for payment notifications: the same form each time, signed with the shop's key."""
    rows = await session.fetch("SELECT event_id, account_id, amount, identifier FROM ipn")
    known = {row["event_id"]: row for row in rows}
    broken, bodies = [], dict[str, str]()
    for one in log.deliveries:
        if one["path"] in log.endpoints:
            continue
        event_id = one["headers"].get("x-service-event-id", "")
        row = known.get(event_id)
        if row is None:
            broken.append(f"E3: notification {event_id} is none of ours")
            continue
        form = dict(parse_qsl(one["body"], keep_blank_values=True))
        if bodies.setdefault(event_id, one["body"]) != one["body"]:
            broken.append(f"E3: notification {event_id} was sent with different bytes")
        message = (form.get("data[amount]", "") + form.get("identifier", "")).encode()
        if form.get("identifier") != row["identifier"] or not any(
            form.get("signature", "") == _hmac(secret, message).upper() for secret in log.secrets
        ):
            broken.append(f"E3: notification {event_id} is not signed with a shop's key")
    return broken


async def everybody_was_told(session: Any, log: Log) -> list[str]:
    """E2: each event reached each endpoint that wants it, or was given up after the whole schedule."""
    rows = await session.fetch(
        """
        SELECT e.event_id, w.id, w.url, d.status, d.exhausted, d.next_attempt_at IS NOT NULL AS waits
        FROM webhook w
        JOIN event e ON w.account_id IN (e.account_id, e.platform_id) AND e.created_at >= w.created_at
            AND e.audience <> 'none'
        LEFT JOIN delivery d ON d.account_id = w.account_id AND d.webhook_id = w.id AND d.event_id = e.event_id
        WHERE w.account_id > 1000 AND '*' = ANY (w.events) AND w.status = 'active'
        """
    )
    heard: dict[str, set[str]] = defaultdict(set)
    for one in log.deliveries:
        heard[one["path"]].add(one["headers"].get("x-service-event-id", ""))
    broken = []
    for row in rows:
        path = "/" + row["url"].split("/", 3)[3]
        if row["status"] is None:
            broken.append(f"E2: {row['event_id']} was never meant for endpoint {row['id']}")
        elif row["status"] == "succeeded" and row["event_id"] not in heard[path]:
            broken.append(f"E2: {row['event_id']} counts as delivered to {path}, which never saw it")
        elif row["status"] != "succeeded" and not row["exhausted"] and not row["waits"]:
            broken.append(f"E2: {row['event_id']} is {row['status']} at {path}, and nobody will try again")
        elif path.startswith("/ok/") and row["status"] != "succeeded":
            broken.append(f"E2: {row['event_id']} is {row['status']} at {path}, which answers well")
    notices = await session.fetch(
        """
        SELECT i.event_id, i.url, d.status FROM ipn i
        LEFT JOIN delivery d ON d.account_id = i.account_id AND d.channel = 'ipn' AND d.event_id = i.event_id
        WHERE i.account_id > 1000
        """
    )
    for row in notices:
        path = "/" + row["url"].split("/", 3)[3]
        good = path.startswith("/ok/")
        if row["status"] is None or (good and (row["status"] != "succeeded" or row["event_id"] not in heard[path])):
            broken.append(f"E2: notification {row['event_id']} is {row['status']} at {path}")
    return broken


async def listeners_know_what_is_paid(session: Any, log: Log) -> list[str]:
    """E5: a listener that believes each event once has the same set of paid orders as our ledger."""
    broken = []
    paid = await session.fetch(
        """
        SELECT p.account_id, p.identifier, p.paid_at FROM payment p
        JOIN journal j ON j.account_id = p.account_id AND j.kind = 'payment' AND j.ref = p.id::text
        WHERE p.account_id > 1000
        """
    )
    bodies = await session.fetch(
        """
        SELECT event_id, account_id, convert_from(body, 'UTF8')::jsonb #>> '{data,transaction,identifier}' AS identifier
        FROM event WHERE type = 'transaction.succeeded' AND account_id > 1000
        """
    )
    told = {row["event_id"]: row["identifier"] for row in bodies}
    hooks = await session.fetch("SELECT account_id, url, created_at FROM webhook WHERE account_id > 1000")
    for hook in hooks:
        path = "/" + hook["url"].split("/", 3)[3]
        if not path.startswith("/ok/"):
            continue
        heard = {
            told[one["headers"]["x-service-event-id"]]
            for one in log.deliveries
            if one["path"] == path and one["headers"].get("x-service-event-id") in told
        }
        platform = await session.fetch("SELECT account_id FROM account WHERE platform_id = $1", hook["account_id"])
        accounts = {hook["account_id"], *(row["account_id"] for row in platform)}
        expected = {
            row["identifier"] for row in paid if row["account_id"] in accounts and row["paid_at"] >= hook["created_at"]
        }
        if heard != expected:
            wrong = sorted(heard ^ expected)[:3]
            broken.append(f"E5: the listener at {path} and the ledger differ about {', '.join(wrong)}")
    return broken


PARTS = (deliveries_are_genuine, notifications_are_genuine, everybody_was_told, listeners_know_what_is_paid)
