"""Secrets and card numbers planted wherever a request can carry text; then everything that was written is searched.

What was written: the logs of all processes at their most talkative, PostgreSQL's own log, the replies, the metrics, and
every row of every table. A secret may stand in the reply that first shows it, and nowhere else.
"""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import asyncpg

from tests.faults.hostile import document
from tests.faults.hostile.document import Document, Operation
from tests.faults.hostile.estate import Estate, furnish
from tests.faults.hostile.forms import form
from tests.faults.report import Report
from tests.support import signing
from tests.support.house import House, house
from tests.support.service import new_key
from tests.support.wire import request

ROUNDS = {"push": 1, "full": 5, "soak": 20}
OPERATOR = "op_canary_Qm7vZr2KxW9sTn4Yb6Hd8Jf3Lc5Pa1Ge"
CARDS = ("4242424242424242", "4000 0000 0000 0002", "5555-5555-5555-4444", "378282246310005", "6011111111111117")


@dataclass
class Canaries:
    """What must not be found. `written`: not even in the database, where a made-up key in a free text may stand."""

    written: list[str]
    told: list[str]


async def run(tier: str, seed: int) -> Report:
    report = Report("canaries")
    chance = random.Random(seed)
    async with house(operator_key=OPERATOR, log_level="debug", access_log="true") as serving:
        platform = await serving.open_account("platform")
        estate = await furnish(serving, await serving.open_account(platform=platform.account_id), "estate")
        own = [OPERATOR, platform.secret_key, platform.test_secret_key, estate.party.secret_key]
        own += [estate.party.test_secret_key, *await _webhook_secrets(serving, estate)]
        canaries = Canaries([*own, *CARDS], [])
        described = await document.of(serving)
        for _ in range(ROUNDS[tier]):
            for operation in described.operations():
                await _plant(serving, described, operation, estate, canaries, chance, report)
        await _search(serving, canaries, report)
    report.count("canaries", len(canaries.written) + len(canaries.told))
    return report


async def _webhook_secrets(serving: House, estate: Estate) -> list[str]:
    made = await serving.send(estate.party, "POST", "/webhooks", {"url": "https://example.com/c", "events": ["*"]})
    rotated = await serving.send(estate.party, "POST", f"/webhooks/{made.data['webhook']['id']}/rotate-secret", {})
    return [str(reply.data["webhook"]["secret"]) for reply in (made, rotated)]


def _made_up(chance: random.Random, kind: str) -> str:
    return f"{kind}_" + "".join(
        chance.choice("ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnpqrstuvwxyz23456789") for _ in range(32)
    )


async def _plant(
    serving: House, described: Document, operation: Operation, estate: Estate, canaries: Canaries,
    chance: random.Random, report: Report,
) -> None:  # fmt: skip
    for place in ("bearer", "query", "path", "account", "key", "signature", "agent", "text", "names", "broken", "form"):
        kind = chance.choice(("sk_live", "sk_test", "rk_live", "whsec"))
        secret, card = _made_up(chance, kind), chance.choice(CARDS)
        canaries.written.append(secret)
        # The operator's key is anything that its owner likes, so in a text it cannot be told from one.
        told = () if place in ("key", "query", "text", "names", "broken", "form") else (OPERATOR,)
        for value in (secret, card, estate.party.secret_key, *told):
            for sent in _requests(operation, estate, place, value):
                reply = await serving.wire.send(sent)
                report.count("requests")
                answer = reply.body.decode(errors="replace") + str(reply.headers)
                where = f"{operation.method} {operation.path}, {place}"
                report.expect(value not in answer, f"{where}: the reply repeats {value}: {reply.body[:300]!r}")
                report.expect(reply.status < 500, f"{where}: {reply.status} {reply.body[:300]!r}")


def _requests(operation: Operation, estate: Estate, place: str, value: str) -> Iterator[bytes]:
    """The operation with the value in one place of its request."""
    path, body = estate.fill(operation.path), json.dumps(operation.example or {}).encode()
    headers: dict[str, str] = {}
    if place == "query":
        path += f"?q={quote(value)}&{quote(value)}=1"
    elif place == "path":
        if not operation.parameters:
            return
        path = "/".join(quote(value) if part.startswith("{") else part for part in operation.path.split("/"))
    elif place == "account":
        headers = {"Service-Account": value, "X-Service-Client-Key": value, "X-Service-Public-Key": value}
    elif place == "agent":
        headers = dict.fromkeys(("User-Agent", "Referer", "X-Forwarded-For", "Cookie", "X-Request-Id"), value)
    elif place in ("text", "names", "broken", "form"):
        if not operation.writes:
            return
        for content, more in _bodies(operation, place, value):
            yield _signed(operation, estate, path, content, more)
        return
    overrides = {"bearer": "Authorization", "key": "Idempotency-Key", "signature": "X-Service-Signature"}
    if place in overrides:
        headers = {overrides[place]: f"Bearer {value}" if place == "bearer" else value}
    yield _signed(operation, estate, path, body if operation.writes else b"", headers)


def _bodies(operation: Operation, place: str, value: str) -> Iterator[tuple[bytes, Mapping[str, str]]]:
    example: dict[str, Any] = operation.example or {}
    if place == "text":
        for name, was in example.items():
            if isinstance(was, str):
                yield json.dumps({**example, name: value}).encode(), {}
        yield json.dumps({**example, "metadata": {"note": value}, "comment": [value]}).encode(), {}
    elif place == "names":
        yield json.dumps({**example, value: "x", "secret_key": value, "card_number": value}).encode(), {}
    elif place == "broken":
        yield f'{{"a": "{value}", "{value}": "{value}", "{value}"'.encode(), {}
        yield f'{{"a": {value}}}'.encode(), {}
        yield f'{{"{value}": 1, "{value}": 2}}'.encode(), {}
    elif operation.media == "multipart/form-data":
        content, kind = form(dict.fromkeys((*example, value, "x"), value))
        yield content, {"Content-Type": kind}
        yield content[:-30], {"Content-Type": kind}


def _signed(operation: Operation, estate: Estate, path: str, body: bytes, more: Mapping[str, str]) -> bytes:
    secret = OPERATOR if operation.family == "operator" else estate.party.secret_key
    headers = {"Authorization": f"Bearer {secret}"}
    if operation.writes:
        headers |= {"Content-Type": "application/json", "Idempotency-Key": new_key(), **signing.legacy(secret, body)}
    return request(operation.method, path, {**headers, **more}, body)


# The search ----------------------------------------------------------------------------------------------------


def _traces(value: str) -> set[str]:
    """How it would look as it is, quoted, in hex and in base64; of a card, also without what stands between digits."""
    raw = value.encode()
    bare = value.replace(" ", "").replace("-", "") if value[:1].isdigit() else value
    return {value, bare, quote(value), raw.hex(), base64.b64encode(raw).decode().rstrip("=")}


async def _search(serving: House, canaries: Canaries, report: Report) -> None:
    metrics = await serving.wire.send(request("GET", "/metrics", {}))
    told = {"the log": serving.log(), "the metrics": metrics.body.decode()}
    told |= {f"the file {path.name}": path.read_text(errors="replace") for path in _log_files(serving)}
    rows = await _dump(serving)
    report.count("bytes searched", sum(map(len, told.values())) + sum(map(len, rows.values())))
    for value in {*canaries.told, *canaries.written}:
        for trace in _traces(value):
            for where, text in told.items():
                report.expect(trace not in text, f"{where} has {trace}")
    for value in {*canaries.written}:
        for trace in _traces(value):
            for table, text in rows.items():
                report.expect(trace not in text, f"the table {table} has {trace}")


def _log_files(serving: House) -> list[Path]:
    return [path for path in serving.serving.data_dir.rglob("*log*") if path.is_file() and "pg_" not in str(path)]


async def _dump(serving: House) -> dict[str, str]:
    """Every row of every table, those of the simulator aside: it plays the card network, and is told cards."""
    owner = await asyncpg.connect(serving.urls.owner)
    try:
        names = await owner.fetch(
            """
            SELECT c.relname AS name
            FROM pg_class c
            JOIN pg_namespace n ON n.oid = c.relnamespace
            WHERE c.relkind IN ('r', 'p') AND n.nspname = 'public'
            """
        )
        lines = {name: await owner.fetch(f"SELECT t::text AS line FROM {name} t") for (name,) in names}
    finally:
        await owner.close()
    return {name: "\n".join(row["line"] for row in rows) + _text(rows) for name, rows in lines.items()}


def _text(rows: list[Any]) -> str:
    """Bytes are shown in hex; what they spell is searched, too."""
    found = []
    for row in rows:
        for part in row["line"].split("\\x")[1:]:
            digits = part.split('"')[0].split(",")[0].rstrip(")")
            if len(digits) % 2 == 0:
                found.append(bytes.fromhex(digits).decode(errors="replace"))
    return "\n".join(found)
