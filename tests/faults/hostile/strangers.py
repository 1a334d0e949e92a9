"""Every operation of the document with somebody else's ids: the answer is that for an id which does not exist.

Who asks: another merchant, another platform, a sibling of the same platform, the platform in the sibling's name, and
each of them in the sandbox. What is asked for is marked throughout, and no reply may carry a mark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.faults.hostile import document
from tests.faults.hostile.document import Operation
from tests.faults.hostile.estate import Estate, furnish
from tests.faults.hostile.forms import form
from tests.faults.report import Report
from tests.support.house import House, house
from tests.support.wire import Reply, get, request, signed

MISSING = {
    "connected-accounts": "acc0000000000000000_999999", "bank-accounts": "ba_999999999", "checkouts": "PAY-0ZZZZZZZ",
    "events": "evt_00000000000000000000000000",
}  # fmt: skip
SHOWN = ("/account", "/transactions", "/payment-links", "/webhooks", "/bank-accounts", "/support/tickets", "/balances")


@dataclass(frozen=True)
class Stranger:
    name: str
    secret: str
    prefix: str = "/v2"
    account: str | None = None


async def run(tier: str, seed: int) -> Report:
    del tier, seed  # the matrix is complete in every tier
    report = Report("strangers")
    async with house() as serving:
        platform = await serving.open_account("platform")
        victim_party = await serving.open_account(platform=platform.account_id, name="Zqvictimzq")
        victim = await furnish(serving, victim_party, "zqvictimzq")
        sibling = await furnish(
            serving, await serving.open_account(platform=platform.account_id, name="Sib"), "sibling"
        )
        merchant, other = await serving.open_account(), await serving.open_account("platform")
        strangers = [
            Stranger("another merchant", merchant.secret_key),
            Stranger("another platform", other.secret_key),
            Stranger("a sibling", sibling.party.secret_key),
            Stranger("the platform for a sibling", platform.secret_key, account=sibling.party.account_id),
            Stranger("another merchant's sandbox", merchant.test_secret_key, "/sandbox/v2"),
            Stranger("a sibling's sandbox", sibling.party.secret_key, "/sandbox/v2"),
        ]
        before = await _shown(serving, victim)
        operations = list((await document.of(serving)).operations())
        for operation in operations:
            for stranger in strangers:
                if operation.family == "operator":
                    await _locked_out(serving, operation, victim, stranger, report)
                elif not _may(operation, stranger):
                    await _asked(serving, operation, victim, stranger, report)
        await _filters(serving, operations, victim, strangers, report)
        after = await _shown(serving, victim)
        changed = [path for path in SHOWN if before[path] != after[path]]
        report.expect(not changed, f"what the victim sees at {changed} was changed")
        report.count("operations", len(operations))
    return report


def _may(operation: Operation, stranger: Stranger) -> bool:
    """A platform sees all accounts that it has connected, in whoever's name it asks."""
    return stranger.account is not None and operation.path.startswith("/v2/connected-accounts")


async def _asked(serving: House, operation: Operation, victim: Estate, stranger: Stranger, report: Report) -> None:
    there = await _send(serving, operation, victim.fill(operation.path), stranger)
    report.count("requests")
    _unmarked(there, victim, f"{stranger.name}: {operation.method} {operation.path}", report)
    if not operation.parameters:
        return
    missing_path = victim.fill(operation.path, **_missing(operation, victim))
    missing = await _send(serving, operation, missing_path, stranger)
    report.count("requests")
    same = (there.status, _plain(there, victim)) == (missing.status, _plain(missing, victim))
    where = f"{stranger.name}: {operation.method} {operation.path}"
    report.expect(same, f"{where} tells {there.status} {there.body!r} from {missing.status} {missing.body!r}")
    report.expect(there.status in (403, 404), f"{where}: {there.status} {there.body[:200]!r}")


async def _locked_out(serving: House, operation: Operation, victim: Estate, stranger: Stranger, report: Report) -> None:
    body = b"" if operation.media is None else json.dumps(operation.example).encode()
    headers = {"Authorization": f"Bearer {stranger.secret}", "Content-Type": "application/json"}
    reply = await serving.wire.send(request(operation.method, victim.fill(operation.path), headers, body))
    report.count("requests")
    right = (reply.status, reply.code) == (401, "invalid_credentials")
    report.expect(right, f"{stranger.name}: {operation.method} {operation.path}: {reply.status} {reply.body[:200]!r}")


async def _filters(
    serving: House, operations: list[Operation], victim: Estate, strangers: list[Stranger], report: Report
) -> None:
    """Lists, with every parameter they know set to what is the victim's."""
    for operation in operations:
        if operation.writes or operation.parameters or operation.family == "operator":
            continue
        for name, value in _guesses(operation, victim):
            for stranger in (each for each in strangers if not _may(operation, each)):
                reply = await _send(serving, operation, f"{operation.path}?{name}={value}", stranger)
                report.count("requests")
                report.expect(reply.status < 500, f"{operation.path}?{name}={value}: {reply.status}")
                rows = json.loads(reply.body).get("data")
                found = [row for row in rows if victim.marker in str(row)] if isinstance(rows, list) else []
                report.expect(not found, f"{stranger.name}: {operation.path}?{name}={value} shows {found}")
                _unmarked(reply, victim, f"{stranger.name}: {operation.path}?{name}=…", report, sent=value)


def _guesses(operation: Operation, victim: Estate) -> Iterator[tuple[str, str]]:
    known = {re.sub(r".*\.", "", node["$ref"].rpartition("/")[2]) for node in operation.node["parameters"]}
    known = {name for name in known if re.fullmatch(r"[a-z_]+", name)}  # the others are headers
    numbers = {str(victim.party.merchant_id), victim.ids["transactions"], victim.ids["webhooks"]}
    for name in sorted(known | {"account_id", "q", "merchant_id"}):
        for value in (victim.party.account_id, victim.marker, *sorted(numbers)):
            yield name, value


async def _send(serving: House, operation: Operation, path: str, stranger: Stranger) -> Reply:
    path = stranger.prefix + path.removeprefix("/v2")
    headers = {"Service-Account": stranger.account} if stranger.account else {}
    if not operation.writes:
        return await serving.wire.send(get(stranger.secret, path, **headers))
    body: Any = operation.example or {}
    if operation.media == "multipart/form-data":
        body, headers["Content-Type"] = form(
            {name: str(value) for name, value in body.items() if "<file>" not in value}
        )
    return await serving.wire.send(signed(stranger.secret, operation.method, path, body, **headers))


def _missing(operation: Operation, victim: Estate) -> dict[str, str]:
    places = [part for part in operation.path.split("/") if part in victim.ids]
    return {place: MISSING.get(place, "999999999") for place in places}


def _plain(reply: Reply, victim: Estate) -> bytes:
    """The reply without the ids that were asked for, nor what differs from one request to the next."""
    body = reply.body
    for value in (*MISSING.values(), "999999999", *victim.ids.values()):
        body = body.replace(value.encode(), b"ID")
    return re.sub(rb"req_[0-9A-Za-z]+", b"REQ", body)


def _unmarked(reply: Reply, victim: Estate, where: str, report: Report, sent: str = "") -> None:
    """`sent` may come back in a message about it."""
    told = reply.body + str(reply.headers).encode()
    for word in victim.foreign_words:
        if word not in (sent, where) and not (sent and word in sent):
            mentioned = any(word == value and value in where for value in victim.ids.values())
            report.expect(mentioned or word.encode() not in told, f"{where}: the reply has {word}")


async def _shown(serving: House, victim: Estate) -> dict[str, Any]:
    """What the victim sees of its own."""
    return {path: json.loads((await serving.get(victim.party, path)).body) for path in SHOWN}
