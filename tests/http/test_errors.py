"""What goes wrong, in the specified envelope: no route, no method, no connection, no idea."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from dataclasses import replace
from io import StringIO

import httpx
import pytest

from tests.http.sending import code, details, effects, read, write
from tests.support.doors import closed_door
from tests.support.routes import SHOWN_SECRET, declared_routes
from tests.support.service import Party, Service, new_key, running_service

pytestmark = pytest.mark.asyncio(loop_scope="module")


class TestRoutes:
    @pytest.mark.parametrize(
        "path", ["/", "/v2", "/v2/", "/v2/nothing", "/v1/account", "/v2/account/", "/v2//account", "/ops/v1/nothing",
                 "/sandbox/v2/nothing", "/v2/webhooks/1/nothing", "/%00", "/v2/%ff"],
    )  # fmt: skip
    async def test_unknown(self, bursar: Service, path: str) -> None:
        for method in ("GET", "POST"):
            reply = await bursar.client.request(method, path)
            if path == "/" and reply.is_success:
                continue  # whatever greets a browser there
            assert (reply.status_code, code(reply)) == (404, "endpoint_not_found")
            assert reply.headers["Service-Request-Id"].startswith("req_")
            assert reply.headers["Content-Type"] == "application/json"

    @pytest.mark.parametrize(
        ("method", "path"),
        [("POST", "/v2/account"), ("OPTIONS", "/v2/account"), ("OPTIONS", "/ops/v1/accounts"),
         ("DELETE", "/v2/webhooks"), ("PUT", "/v2/webhooks/1"), ("PATCH", "/sandbox/v2/account"),
         ("PUT", "/ops/v1/accounts"), ("DELETE", "/ops/v1/clock")],
    )  # fmt: skip
    async def test_known_with_another_method(self, bursar: Service, method: str, path: str) -> None:
        reply = await bursar.client.request(method, path)
        assert (reply.status_code, code(reply)) == (405, "method_not_allowed")
        assert "GET" in reply.headers["Allow"]

    async def test_head_is_a_read_without_its_body(self, bursar: Service, merchant: Party) -> None:
        reply = await bursar.client.head("/v2/account", headers={"Authorization": f"Bearer {merchant.secret_key}"})
        assert (reply.status_code, reply.content) == (200, b"")
        assert (await bursar.client.head("/v2/account")).status_code == 401

    async def test_an_alias_says_what_to_use_instead(self, bursar: Service, merchant: Party) -> None:
        reply = await read(bursar, "legacy", merchant, path="/alias")
        assert reply.headers["Deprecation"] == "@1735689600"
        assert reply.headers["Link"] == '</v2/testing/legacy/notes>; rel="successor-version"'
        assert "Sunset" not in reply.headers

    async def test_a_declared_error_of_a_read(self, bursar: Service, merchant: Party) -> None:
        reply = await read(bursar, "legacy", merchant, path="/missing")
        assert (reply.status_code, code(reply), reply.json()["error"]["details"]) == (404, "not_found", None)


class TestAnUnexpectedFailure:
    async def test_is_opaque_and_logged_with_its_trace(
        self, bursar: Service, merchant: Party, log_lines: StringIO
    ) -> None:
        reply = await read(bursar, "legacy", merchant, path="/crash")
        assert (reply.status_code, code(reply)) == (500, "internal_error")
        request_id = details(reply)["request_id"]
        assert reply.headers["Service-Request-Id"] == request_id
        for leak in ("SELECT", "table_that_is_not_there", "RuntimeError", "Traceback", SHOWN_SECRET):
            assert leak not in reply.text
        line = next(line for line in log_lines.getvalue().splitlines() if request_id in line)
        record = json.loads(line)
        assert (record["event"], record["route"]) == ("request.failed", "testing_crash")
        assert "RuntimeError" in record["exception"]
        assert SHOWN_SECRET not in line
        assert merchant.secret_key not in log_lines.getvalue()

    async def test_of_a_write_leaves_nothing(self, bursar: Service, merchant: Party) -> None:
        text = new_key()
        reply = await write(bursar, "legacy", merchant, body={"text": text, "then": "crash"})
        assert (reply.status_code, code(reply)) == (500, "internal_error")
        assert SHOWN_SECRET not in reply.text
        assert await effects(bursar, text) == 0


class TestAnExhaustedPool:
    async def test_is_503_and_not_a_hang(self, bursar: Service, merchant: Party) -> None:
        async with running_service(
            bursar.urls, like=bursar, routes=declared_routes(), worker=False, pool_size=1, pool_wait_s=0.2
        ) as small:
            await small.get(merchant, "/account")
            with closed_door() as door:
                slow = asyncio.create_task(read(small, "legacy", merchant, path=f"/held?door={door.name}"))
                await door.reached.wait()
                replies = await asyncio.gather(
                    read(small, "legacy", merchant, "x"),
                    write(small, "legacy", merchant),
                    *(write(small, "legacy", merchant, "/entries") for _ in range(6)),
                    write(small, "legacy", merchant, "/charges", {"reference": new_key()}),
                )
            for reply in replies:
                assert (reply.status_code, code(reply)) == (503, "service_unavailable")
                assert reply.headers["Retry-After"] == "1"
            assert (await slow).status_code == 200
            assert (await write(small, "legacy", merchant)).status_code == 201

    async def test_does_not_touch_the_key(self, bursar: Service, merchant: Party) -> None:
        text, key = new_key(), new_key()
        async with running_service(
            bursar.urls, like=bursar, routes=declared_routes(), worker=False, pool_size=1, pool_wait_s=0.1
        ) as small:
            await small.get(merchant, "/account")
            with closed_door() as door:
                slow = asyncio.create_task(read(small, "legacy", merchant, path=f"/held?door={door.name}"))
                await door.reached.wait()
                assert (await write(small, "legacy", merchant, body={"text": text}, key=key)).status_code == 503
            await slow
            reply = await write(small, "legacy", merchant, body={"text": text}, key=key)
        assert (reply.status_code, await effects(bursar, text)) == (201, 1)
        assert "Idempotency-Replayed" not in reply.headers


class TestAClientThatGoesAway:
    async def test_its_write_is_done_or_not_and_the_key_tells(self, bursar: Service, merchant: Party) -> None:
        text, key = new_key(), new_key()
        with closed_door() as door:
            body = {"text": text, "door": door.name}
            async with httpx.AsyncClient(base_url=bursar.base_url) as impatient:
                asked = write(replace(bursar, client=impatient), "legacy", merchant, body=body, key=key)
                asking = asyncio.create_task(asked)
                await door.reached.wait()
                asking.cancel()
                await asyncio.wait([asking])
        while (reply := await write(bursar, "legacy", merchant, body=body, key=key)).status_code == 409:
            assert code(reply) == "duplicate_request"
        assert (reply.status_code, await effects(bursar, text)) == (201, 1)


class TestFraming:
    """Straight to the socket, where a library would not let us."""

    @pytest.mark.parametrize(
        "request_bytes",
        [
            b"GET /v2/account HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
            b"GET /v2/account HTTP/1.1\r\nHost: x\r\nContent-Length: 1, 2\r\n\r\n",
            b"POST /v2/account HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            b"GET /v2/account HTTP/9.9\r\nHost: x\r\n\r\n",
            b"GET /\xe9 HTTP/1.1\r\nHost: x\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"GARBAGE\r\n\r\n",
            b"FROB /v2/account HTTP/1.1\r\nHost: x\r\n\r\n",
            b"GET /v2/account HTTP/1.1\r\nHost : x\r\n\r\n",
        ],
    )
    async def test_nonsense_gets_one_4xx(self, bursar: Service, request_bytes: bytes) -> None:
        host, port = bursar.base_url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(request_bytes)
        writer.write_eof()
        answer = await asyncio.wait_for(reader.read(), 5)
        writer.close()
        assert answer == b"" or answer.split()[1][:1] == b"4"
        assert answer.count(b"HTTP/1.1") <= 1

    @pytest.mark.parametrize("part", [b"X-Filler: " + b"x" * 1000 + b"\r\n", b"x" * 1000])
    async def test_a_head_without_end_is_cut_off(self, bursar: Service, part: bytes) -> None:
        host, port = bursar.base_url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET /v2/account HTTP/1.1\r\nHost: x\r\nX-Long: ")
        sent = 0
        with contextlib.suppress(ConnectionError):
            while sent < 2_000_000 and not reader.at_eof():
                writer.write(part)
                sent += len(part)
                await writer.drain()
                await asyncio.sleep(0)
        assert sent < 2_000_000, "the head had no end"
        with contextlib.suppress(ConnectionError):
            answer = await asyncio.wait_for(reader.read(), 5)
            assert answer == b"" or answer.split()[1] == b"400"
        writer.close()

    async def test_the_service_still_answers(self, bursar: Service, merchant: Party) -> None:
        host, port = bursar.base_url.removeprefix("http://").split(":")
        idle = [socket.create_connection((host, int(port))) for _ in range(50)]
        assert (await bursar.get(merchant, "/account")).status_code == 200
        for one in idle:
            one.close()


class TestHealth:
    async def test_needs_no_key(self, bursar: Service) -> None:
        for path in ("/health", "/health/live", "/health/ready"):
            reply = await bursar.client.get(path)
            assert (reply.status_code, reply.json()["status"]) == (200, "ok")
        metrics = await bursar.client.get("/metrics")
        assert "bursar_request_seconds" in metrics.text
