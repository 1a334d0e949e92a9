"""Requests that are small or cheap to send and dear to read: each is refused at once, and the process does not grow."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass

from tests.faults.hostile.forms import form
from tests.faults.report import Report
from tests.support.house import House, house, resident_mib
from tests.support.service import Party
from tests.support.wire import Reply, get, signed

ROUNDS = {"push": 1, "full": 10, "soak": 100}
TRIES = 5  # the best of these counts: what is measured is the service, not what else the machine does
ANSWERED_MS = 100  # for up to 64 KB; what is larger has 250 ms and, beyond a megabyte, more by its size
GROWTH_MIB = 50
MB = 1024 * 1024


@dataclass(frozen=True)
class Bomb:
    name: str
    body: bytes
    path: str = "/hosted-payments"
    method: str = "POST"
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()


def _with(**fields: object) -> bytes:
    """A proper order, but for these fields."""
    proper = {
        "identifier": "bomb", "amount": 1, "currency": "GBP", "details": "x", "ipn_url": "https://example.com/ipn",
        "success_url": "https://example.com/a", "cancel_url": "https://example.com/b", "customer_name": "A",
        "customer_email": "a@example.com",
    }  # fmt: skip
    return json.dumps({**proper, **fields}).encode()


def _amount(literal: bytes) -> bytes:
    return _with(amount="AMOUNT").replace(b'"AMOUNT"', literal)


def bombs() -> Iterator[Bomb]:
    yield from _nesting()
    yield from _numbers()
    yield from _sizes()
    yield from _texts()
    yield from _elsewhere()


def _nesting() -> Iterator[Bomb]:
    yield Bomb("33 levels", b'{"a":' * 33 + b"1" + b"}" * 33)
    yield Bomb("500 levels of arrays", b'{"a":' + b"[" * 500 + b"]" * 500 + b"}")
    yield Bomb("a million levels", b"[" * 1_000_000)
    yield Bomb("100,000 levels of objects", b'{"a":' * 100_000)
    yield Bomb("100,000 levels, closed", b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}")
    yield Bomb("100,000 keys", b"{" + b",".join(b'"%d":1' % n for n in range(80_000)) + b"}")
    yield Bomb("a million keys", b"{" + b",".join(b'"%d":1' % n for n in range(1_000_000)) + b"}")
    yield Bomb("100,000 times the same key", b"{" + b",".join([b'"a":1'] * 100_000) + b"}")
    yield Bomb("wide and deep", b'{"a":[' + b",".join([b"[[[[1]]]]"] * 90_000) + b"]}")
    yield Bomb("half a million empty objects", b'{"a":[' + b",".join([b"{}"] * 330_000) + b"]}")


def _numbers() -> Iterator[Bomb]:
    yield Bomb("100,000 digits", _amount(b"9" * 100_000))
    yield Bomb("100,000 decimals", _amount(b"0." + b"9" * 100_000))
    yield Bomb("1e999999", _amount(b"1e999999"))
    yield Bomb("1e-999999", _amount(b"1e-999999"))
    yield Bomb("1e999999999999999999", _amount(b"1e999999999999999999"))
    yield Bomb("100,000 digits of exponent", _amount(b"1e" + b"9" * 100_000))
    yield Bomb("NaN", _amount(b"NaN"))
    yield Bomb("Infinity", _amount(b"-Infinity"))
    yield Bomb("100,000 digits as text", _with(amount="9" * 100_000))
    yield Bomb("20,000 numbers of 40 digits", b'{"a":[' + b",".join([b"1" * 41] * 20_000) + b"]}")


def _sizes() -> Iterator[Bomb]:
    yield Bomb("one byte too many", b'{"a":"' + b"x" * (MB - 7) + b'"}')
    yield Bomb("10 MB", b" " * (10 * MB))
    yield Bomb("a megabyte of spaces", b" " * MB)
    yield Bomb("gzip of 100 MB", gzip.compress(b" " * (100 * MB)), headers=(("Content-Encoding", "gzip"),))
    yield Bomb(
        "an upload of 13 MB", b" " * (13 * MB), path="/support/tickets", content_type="multipart/form-data; boundary=x"
    )


def _texts() -> Iterator[Bomb]:
    for name, text in (
        ("digits", "4" * 900_000),
        ("digits and spaces", "4 2-" * 220_000),
        ("nearly card numbers", "4111111111111112 " * 50_000),
        ("an e-mail address", "a" * 900_000 + "@example.com"),
        ("dots", "." * 900_000),
        ("at signs", "@" * 900_000),
        ("spaces", " " * 900_000 + "x"),
        ("combining accents", "\u0301" * 150_000),
    ):
        yield Bomb(f"900 KB of {name} as the e-mail", _with(customer_email=text))
        yield Bomb(f"900 KB of {name} as an address", _with(success_url="https://" + text))
    yield Bomb("escapes", b'{"a":"' + b"\\u0041" * 170_000 + b'"}')
    yield Bomb("half of a pair", b'{"a":"' + b"\\ud800" * 170_000 + b'"}')


def _elsewhere() -> Iterator[Bomb]:
    many = {f"f{n}": "x" for n in range(100_000)}
    for path in ("/support/tickets", "/transactions/1/proof"):
        body, content_type = form(many)
        yield Bomb(f"100,000 fields to {path}", body, path=path, content_type=content_type)
    body, content_type = form({"subject": "x", "body": "y" * 11 * MB})
    yield Bomb("a field of 11 MB", body, path="/support/tickets", content_type=content_type)
    long = "b" * 70_000
    yield Bomb(
        "a boundary of 60 KB",
        b"--b\r\n",
        path="/support/tickets",
        content_type=f"multipart/form-data; boundary={long[:60000]}",
    )
    yield Bomb(
        "a form without an end",
        b"--x\r\n" * 200_000,
        path="/support/tickets",
        content_type="multipart/form-data; boundary=x",
    )
    yield Bomb("10,000 query fields", b"", method="GET", path="/transactions?" + "&".join(["a=b"] * 10_000))
    yield Bomb("1,000 query fields", b"", method="GET", path="/transactions?" + "&".join(["a=b"] * 1_000))
    yield Bomb("a page far away", b"", method="GET", path="/transactions?page=" + "9" * 4000)
    yield Bomb("a search of 7 KB", b"", method="GET", path="/connected-accounts?q=" + "%25" * 2300)
    yield Bomb(
        "1,000 events", json.dumps({"url": "https://example.com", "events": ["*"] * 100_000}).encode(), path="/webhooks"
    )


async def run(tier: str, seed: int) -> Report:
    del seed  # the corpus is the same each time
    report = Report("bombs")
    async with house() as serving:
        merchant = await serving.open_account()
        [pid] = serving.api_pids()
        for _ in range(20):  # what an ordinary start allocates is not growth
            await serving.send(merchant, "POST", "/hosted-payments", {})
        before = resident_mib(pid)
        slowest, which = 0.0, ""
        for bomb in bombs():
            best = 1e9
            for _ in range(TRIES * ROUNDS[tier]):
                reply = await _send(serving, merchant, bomb)
                best = min(best, reply.took_s * 1000)
                report.count("bombs")
                report.expect(400 <= reply.status < 500, f"{bomb.name}: {reply.status} {reply.body[:200]!r}")
            if best > slowest:
                slowest, which = best, bomb.name
            report.expect(best < _allowed_ms(bomb), f"{bomb.name}: answered in {best:.0f} ms")
        report.expect(serving.api_pids() == [pid], "the process died")
        grown = resident_mib(pid) - before
        report.expect(grown < GROWTH_MIB, f"the process grew by {grown:.0f} MiB")
        report.notes.append(f"slowest: {which}, {slowest:.0f} ms; the process grew by {grown:.0f} MiB")
    return report


def _allowed_ms(bomb: Bomb) -> float:
    if len(bomb.body) <= 64 * 1024:
        return ANSWERED_MS
    return 250 + 25 * len(bomb.body) / MB


async def _send(serving: House, merchant: Party, bomb: Bomb) -> Reply:
    path = f"/v2{bomb.path}"
    if bomb.method == "GET":
        return await serving.wire.send(get(merchant.secret_key, path))
    headers = {"Content-Type": bomb.content_type, **dict(bomb.headers)}
    return await serving.wire.send(signed(merchant.secret_key, bomb.method, path, bomb.body, **headers))
