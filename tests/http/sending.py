"""Requests as a client of each family would send them: raw bytes, headers spelled out, signed by the specification."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from typing import Any

import asyncpg
import httpx

from tests.support import signing
from tests.support.service import Party, Service, new_key

FIVE_LINES = ("management",)
SIX_LINES = ("subscriptions", "commerce")
EVERY_FAMILY = ("legacy", "dispute", "subscriptions", "commerce", "management")
REPLAYING = ("legacy", "subscriptions", "commerce")
NOT_REPLAYING = ("dispute", "management")
CONSUMING = ("dispute", "subscriptions", "management")
NOT_CONSUMING = ("legacy", "commerce")
BOUND = ("subscriptions", "commerce", "management")


def from_elsewhere() -> dict[str, str]:
    """As a trusted proxy passes a request on, each time from another address: those of management are counted."""
    host = ".".join(str(secrets.randbelow(254) + 1) for _ in range(3))
    return {"X-Forwarded-For": f"11.{host}", "X-Forwarded-Proto": "https"}


def encoded(body: Any) -> bytes:
    if isinstance(body, bytes):
        return body
    return b"" if body is None else json.dumps(body).encode()


def signature(
    kind: str, secret: str, method: str, path: str, key: str, account: str, raw: bytes, timestamp: int | None = None
) -> dict[str, str]:
    """The two signature headers of a write of this family."""
    if kind in SIX_LINES:
        return signing.six_lines(secret, method, path, key, account, raw, timestamp)
    if kind in FIVE_LINES:
        return signing.five_lines(secret, method, path, key, raw, timestamp)
    return signing.legacy(secret, raw, timestamp)


async def write(
    service: Service,
    family: str,
    party: Party | str,
    path: str = "/notes",
    body: Any = None,
    *,
    method: str = "POST",
    key: str | None = None,
    account: str | None = None,
    timestamp: int | None = None,
    content_type: str = "application/json",
    query: str = "",
    headers: Mapping[str, str | None] | None = None,
    content: Any = None,
) -> httpx.Response:
    """A signed write to a route of the tests. `headers` come last; None leaves one out."""
    secret = party if isinstance(party, str) else party.secret_key
    raw = encoded({"text": "a note"} if body is None else body)
    full = path if path.startswith(("/v2", "/sandbox")) else f"/v2/testing/{family}{path}"
    key = new_key() if key is None else key
    sent: dict[str, str | None] = {
        "Authorization": f"Bearer {secret}",
        "Content-Type": content_type,
        "Idempotency-Key": key,
        "Service-Account": account,
        **signature(family, secret, method, full, key, account or "", raw, timestamp),
        **(from_elsewhere() if family == "management" else {}),
        **(headers or {}),
    }
    kept = {name: value for name, value in sent.items() if value is not None}
    return await service.client.request(method, full + query, content=raw if content is None else content, headers=kept)


async def read(
    service: Service, family: str, party: Party | str, text: str = "", *, path: str = "/notes", **headers: str
) -> httpx.Response:
    query = f"?text={text}" if text else ""
    full = path if path.startswith(("/v2", "/sandbox")) else f"/v2/testing/{family}{path}"
    return await service.get(party, full + query, **(from_elsewhere() if family == "management" else {}), **headers)


def code(reply: httpx.Response) -> str | None:
    """The error code of a failure in its envelope; None of a success."""
    body = reply.json()
    if body["success"]:
        assert set(body) <= {"success", "data", "meta"}
        return None
    assert set(body) == {"success", "error"}
    assert set(body["error"]) == {"code", "message", "details"}
    assert isinstance(body["error"]["message"], str)
    return str(body["error"]["code"])


def details(reply: httpx.Response) -> dict[str, Any]:
    found = reply.json()["error"]["details"]
    assert isinstance(found, dict)
    return found


async def everything(service: Service) -> dict[str, list[str]]:
    """Every row of every table but the limiter's counters and the worker's own of how far it has counted, as text."""
    owner = await asyncpg.connect(service.urls.owner)
    try:
        tables = await owner.fetch(
            """
            SELECT c.relname AS name
            FROM pg_class c
            JOIN pg_namespace n ON n.oid = c.relnamespace
            WHERE c.relkind IN ('r', 'p') AND n.nspname = 'public'
              AND c.relname NOT IN ('rate_counter', 'tally', 'tally_mark')
            """
        )
        rows = {name: await owner.fetch(f"SELECT t::text AS line FROM {name} t ORDER BY 1") for (name,) in tables}
    finally:
        await owner.close()
    return {name: [row["line"] for row in found] for name, found in rows.items()}


async def effects(service: Service, text: str) -> int:
    """How often a note was written."""
    return int(await service.db.fetchval("SELECT count(*) FROM webhook WHERE description = $1", text))


async def events(service: Service, text: str) -> int:
    """How many events tell of it."""
    return int(
        await service.db.fetchval(
            "SELECT count(*) FROM event WHERE convert_from(body, 'UTF8') LIKE '%\"' || $1 || '\"%'", text
        )
    )
