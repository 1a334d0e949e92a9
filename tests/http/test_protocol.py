"""Requests that are no proper HTTP/1.1: one 4xx and the end; time and numbers are bounded."""

from __future__ import annotations

import asyncio
import gc
import re
import time
from urllib.parse import urlsplit

import pytest

from bursar.http import admission, protocol
from tests.http.sending import write
from tests.support.service import Service

pytestmark = pytest.mark.asyncio(loop_scope="module")

LIVE = b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n"


async def talk(service: Service, *parts: bytes, until_closed: bool = True) -> bytes:
    """What comes back until the service closes; without `until_closed`, until a first reply is there."""
    reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(service.base_url).port)
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
        async with asyncio.timeout(20):
            return await reader.read() if until_closed else await reader.readuntil(b"}")
    finally:
        writer.close()


def statuses(received: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", received)]


class TestOneAnswerAndTheEnd:
    @pytest.mark.parametrize(
        "sent",
        [
            b"GET / HTTP/0.9\r\nHost: x\r\n\r\n",
            b"GET / HTTP/2.0\r\nHost: x\r\n\r\n",
            b"GET / HTTP/1.1\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: x/y\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"b" * protocol.HEAD_LARGEST + b"\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * protocol.HEADERS_MOST + b"\r\n",
            b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            b"POST /v2/webhooks HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"A: b\r\n" * 20_000,
            b"POST /v2/webhooks HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\n \r\n" * 30_000,
        ],
    )
    async def test_in_the_envelope(self, bursar: Service, sent: bytes) -> None:
        received = await talk(bursar, sent + LIVE)
        assert statuses(received) == [400]
        assert b'"code":"bad_request"' in received
        assert b"connection: close" in received

    async def test_rubbish_after_a_good_request_does_not_stand_for_its_reply(self, bursar: Service) -> None:
        assert statuses(await talk(bursar, LIVE + b"rubbish\r\n\r\n")) == [200]

    async def test_an_upgrade_is_not_made(self, bursar: Service) -> None:
        upgrade = b"GET /health/live HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
        assert statuses(await talk(bursar, upgrade + LIVE)) == [200]

    async def test_a_second_reply_is_never_written_for_a_bad_body(self, bursar: Service) -> None:
        """The length is refused before the body is read; what comes as body then is bad."""
        head = b"POST /v2/webhooks HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        received = await talk(bursar, head + b"200000\r\n" + b" " * 0x200000 + b"\r\n", b"zz\r\n")
        assert statuses(received) in ([413], [400])


class TestReplies:
    @pytest.mark.parametrize("path", [b"/v2/account", b"/sandbox/v2/account"])
    async def test_are_the_same_however_they_are_written(self, bursar: Service, path: bytes) -> None:
        """In one piece while the connection is kept, and otherwise head and body; in the sandbox with a header more."""
        kept = await talk(bursar, b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n" % path, until_closed=False)
        head, _, body = (
            await talk(bursar, b"GET %b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" % path)
        ).partition(b"\r\n\r\n")
        kept_head, _, kept_body = kept.partition(b"\r\n\r\n")
        assert body.startswith(kept_body)
        assert {*_lines(head)} == {*_lines(kept_head), b"connection: close"}

    async def test_to_head_have_no_body(self, bursar: Service) -> None:
        asked = b"HEAD /v2/account HTTP/1.1\r\nHost: x\r\n\r\n" + LIVE.replace(
            b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"
        )
        received = await talk(bursar, asked)
        assert statuses(received) == [401, 200]
        assert b"authent" not in received

    async def test_leave_nothing_to_the_collector(self, bursar: Service) -> None:
        gc.collect()
        gc.disable()
        try:
            before = _cycles()
            for _ in range(20):
                await bursar.client.get("/v2/account")
            assert _cycles() - before <= 2, "but for the last of a connection"
        finally:
            gc.enable()


def _cycles() -> int:
    return sum(isinstance(thing, protocol._Cycle) for thing in gc.get_objects())


def _lines(head: bytes) -> list[bytes]:
    return [line for line in head.split(b"\r\n") if not line.startswith(b"service-request-id")]


class TestTrailers:
    async def test_are_not_headers(self, bursar: Service) -> None:
        merchant = await bursar.open_account()
        chunked = (
            b"GET /v2/account HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n"
            b"Authorization: Bearer " + merchant.secret_key.encode() + b"\r\n\r\n"
        )
        assert statuses(await talk(bursar, chunked)) == [401]


class TestTime:
    @pytest.fixture(autouse=True)
    def hurried(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(protocol, "PATIENCE_S", 1)

    @pytest.mark.parametrize(
        ("sent", "expected"),
        [
            (b"", []),
            (b"GET /health/li", [408]),
            (b"GET /health/live HTTP/1.1\r\nHost: x\r\nA: b", [408]),
            (b"POST /v2/webhooks HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{", [408]),
            (b"POST /v2/webhooks HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", [408]),
            (LIVE + b"GET /health/li", [200, 408]),
        ],
    )
    async def test_for_a_request_is_limited(self, bursar: Service, sent: bytes, expected: list[int]) -> None:
        assert statuses(await talk(bursar, sent)) == expected

    async def test_between_requests_is_longer_but_ends(self, bursar: Service, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(protocol, "IDLE_S", 3)
        began = time.monotonic()
        assert statuses(await talk(bursar, LIVE)) == [200]
        assert time.monotonic() - began > 2

    async def test_a_reply_that_nobody_reads_is_given_up(self, bursar: Service) -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", urlsplit(bursar.base_url).port, limit=1)
        writer.write(b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 40)
        with pytest.raises(ConnectionError):
            await keep_writing(writer)


async def keep_writing(writer: asyncio.StreamWriter) -> None:
    """Until the other side is gone, which only whoever writes is told."""
    async with asyncio.timeout(30):
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.1)


class TestSeveralOnOneConnection:
    async def test_are_answered_in_their_order(self, bursar: Service) -> None:
        merchant = await bursar.open_account()
        head = f"Host: x\r\nAuthorization: Bearer {merchant.secret_key}\r\n".encode()
        asked = [b"GET /v2/testing/legacy/numbers/%d HTTP/1.1\r\n%b\r\n" % (number, head) for number in (1, 2, 3)]
        asked.insert(2, b"HEAD /v2/testing/legacy/numbers/9 HTTP/1.1\r\n%b\r\n" % head)
        asked.append(LIVE)  # no reply of the API
        last = b"GET /v2/testing/legacy/numbers/4 HTTP/1.1\r\nConnection: close\r\n%b\r\n" % head
        received = await talk(bursar, b"".join(asked) + last)
        assert statuses(received) == [200] * 6
        assert re.findall(rb'{"id":(\d)}', received) == [b"1", b"2", b"3", b"4"]
        assert received.count(b"connection: close") == 1
        assert received.count(b"service-request-id: req_") == 5


class TestManyAtOnce:
    async def test_more_than_can_be_answered_are_told_to_come_back(
        self, bursar: Service, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(admission, "MOST", 2)
        monkeypatch.setattr(admission.ADMISSION, "most", 2)
        merchant = await bursar.open_account()
        slow = [asyncio.create_task(bursar.get(merchant, f"/testing/legacy/slow?seconds=1&n={n}")) for n in range(2)]
        while bursar.db.in_use < 2:  # noqa: ASYNC110 - a look at the pool
            await asyncio.sleep(0.01)
        refused = await write(bursar, "legacy", merchant)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "service_unavailable")
        assert refused.headers["Retry-After"] == "1"
        assert refused.headers["Service-Request-Id"].startswith("req_")
        assert (await bursar.client.head("/v2/account")).content == b""
        twice = b"POST /v2/webhooks HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}" * 2
        assert statuses(await talk(bursar, twice + LIVE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))) == [
            503, 503, 200,
        ]  # fmt: skip
        assert (await bursar.client.get("/health/live")).status_code == 200
        assert [reply.status_code for reply in await asyncio.gather(*slow)] == [200, 200]
        assert (await write(bursar, "legacy", merchant)).status_code == 201
