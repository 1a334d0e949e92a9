"""Outbound requests against receivers that misbehave in every way that is known."""

from __future__ import annotations

import asyncio
import datetime
import ssl
from collections.abc import Sequence
from ipaddress import IPv4Address, ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from bursar.events.addresses import Address, Rules
from bursar.events.transport import Answer, Limits, Transport
from tests.events.receivers import Receiver, receiver

LOOPBACK = Rules(plain_http=True, loopback=True, ports=None)
QUICK = Limits(connect_s=0.5, total_s=1.0, body_s=0.2)
HEADERS = {"Content-Type": "application/json", "X-Service-Event-Id": "evt_1", "X-Service-Attempt": "1"}


async def post(url: str, *, rules: Rules = LOOPBACK, limits: Limits = QUICK, body: bytes = b"{}") -> Answer:
    transport = Transport(rules, limits)
    try:
        return await transport.post(url, HEADERS, body)
    finally:
        transport.close()


class TestAnswers:
    @pytest.mark.parametrize(
        ("path", "code", "error"),
        [
            ("/ok", 200, None),
            ("/created", 201, None),
            ("/closing", 200, None),
            ("/continue", 200, None),
            ("/fail", 500, "status"),
            ("/not-found", 404, "status"),
            ("/redirect", 302, "redirect"),
            ("/gone", 410, "gone"),
            ("/busy", 429, "status"),
            ("/hang", None, "timeout"),
            ("/drip", None, "timeout"),
            ("/reset", None, "connection reset"),
            ("/not-http", None, "bad reply"),
            ("/many-headers", None, "bad reply"),
            ("/huge", 200, None),
            ("/dripping-body", 200, None),
        ],
    )
    async def test_every_kind_of_receiver(self, path: str, code: int | None, error: str | None) -> None:
        async with receiver() as hooks:
            answer = await post(hooks.url(path))
            assert answer.code == code
            assert (answer.error or "").startswith(error or "")
            assert bool(answer.error) == bool(error)
            assert answer.duration_ms < 1500
            assert len(answer.excerpt) <= 1024
            assert len(hooks.requests) == 1, "redirects are not followed, and nothing is sent twice"

    async def test_retry_after_is_read(self) -> None:
        async with receiver() as hooks:
            assert (await post(hooks.url("/busy"))).retry_after == datetime.timedelta(seconds=600)

    async def test_nobody_listens(self) -> None:
        async with receiver() as hooks:
            port = hooks.port
        assert (await post(f"http://127.0.0.1:{port}/")).error == "connection refused"

    async def test_the_body_arrives_as_it_is(self) -> None:
        body = bytes(range(256)) * 100
        async with receiver() as hooks:
            await post(hooks.url("/ok/x?y=1"), body=body)
            [request] = hooks.requests
            assert request.body == body
            assert request.path == "/ok/x?y=1"
            assert request.headers["host"] == f"127.0.0.1:{hooks.port}"

    async def test_a_reply_is_shown_as_harmless_text(self) -> None:
        async def shout(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            text = b"<script>\x00\x1b[31m\xff caf\xc3\xa9"
            writer.write(b"HTTP/1.1 500 No\r\nContent-Length: %d\r\n\r\n%b" % (len(text), text))
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(shout, "127.0.0.1", 0)
        async with server:
            answer = await post(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
        assert answer.excerpt == "<script>��[31m� café"

    async def test_a_header_cannot_smuggle_another(self) -> None:
        transport = Transport(LOOPBACK, QUICK)
        async with receiver() as hooks:
            answer = await transport.post(hooks.url(), {"X-A": "b\r\nX-Injected: yes"}, b"")
            assert answer.error is not None
            assert hooks.requests == []


class TestConnections:
    async def test_one_is_kept_for_the_next_delivery(self) -> None:
        transport = Transport(LOOPBACK, QUICK)
        async with receiver() as hooks:
            for _ in range(5):
                assert (await transport.post(hooks.url(), HEADERS, b"{}")).code == 200
            assert hooks.connections == 1
            transport.close()

    async def test_one_that_was_closed_meanwhile_is_no_failure(self) -> None:
        transport = Transport(LOOPBACK, QUICK)
        async with receiver() as hooks:
            await transport.post(hooks.url(), HEADERS, b"{}")
            port = hooks.port
        async with receiver(port=port) as again:
            answer = await transport.post(f"http://127.0.0.1:{port}/ok", HEADERS, b"{}")
            assert answer.code == 200
            assert len(again.requests) == 1
        transport.close()

    async def test_one_that_falls_silent_is_a_timeout_and_not_a_second_request(self) -> None:
        transport = Transport(LOOPBACK, QUICK)
        async with receiver() as hooks:
            assert (await transport.post(hooks.url(), HEADERS, b"{}")).code == 200
            hooks.mood["/ok"] = "hang"
            answer = await transport.post(hooks.url(), HEADERS, b"{}")
            assert (answer.code, answer.error) == (None, "timeout")
            assert 900 < answer.duration_ms < 1500
            assert len(hooks.requests) == 2
            hooks.mood["/ok"] = "ok"
            assert (await transport.post(hooks.url(), HEADERS, b"{}")).code == 200
            assert hooks.connections == 2, "what was given up on is not used again"
            transport.close()

    async def test_time_that_runs_out_within_the_body_is_a_timeout(self) -> None:
        async with receiver() as hooks:
            limits = Limits(connect_s=0.5, total_s=0.3, body_s=5.0)
            answer = await post(hooks.url("/dripping-body"), limits=limits)
            assert (answer.code, answer.error) == (None, "timeout")
            assert answer.duration_ms < 1000


class Rebinding:
    """A resolver whose owner changes what a name means between two looks."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self._answers = list(answers)
        self.asked = 0

    async def __call__(self, host: str) -> Sequence[Address]:
        self.asked += 1
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return [ip_address(text) for text in answer]


class TestNames:
    async def _refused(self, resolver: Rebinding, rules: Rules, url: str) -> Answer:
        transport = Transport(rules, QUICK, resolver)
        answer = await transport.post(url, HEADERS, b"{}")
        transport.close()
        return answer

    @pytest.mark.parametrize(
        "addresses",
        [["127.0.0.1"], ["10.0.0.1"], ["169.254.169.254"], ["::1"], ["::ffff:10.0.0.1"], ["8.8.8.8", "127.0.0.1"], []],
    )
    async def test_a_name_that_leads_inside_is_refused(self, addresses: list[str]) -> None:
        answer = await self._refused(Rebinding(addresses), Rules(), "https://shop.example/hook")
        assert answer.code is None
        assert answer.error in ("refused: does not lead to a public address", "name not found")

    async def test_the_address_that_was_checked_is_the_one_that_is_used(self) -> None:
        """Public at the first look, this machine at the second: there is no second look within an attempt."""
        async with receiver() as canary:
            resolver = Rebinding(["203.0.113.1"], ["127.0.0.1"])
            rules = Rules(plain_http=True, ports=None)
            url = f"http://shop.example:{canary.port}/ok"
            for _ in range(3):
                answer = await self._refused(resolver, rules, url)
                assert answer.error == "refused: does not lead to a public address"
            assert resolver.asked == 3, "every attempt looks again"
            assert canary.connections == 0

    async def test_a_kept_connection_is_not_used_once_its_name_leads_elsewhere(self) -> None:
        async with receiver() as hooks:
            resolver = Rebinding(["127.0.0.1"], ["10.0.0.7"])
            transport = Transport(LOOPBACK, QUICK, resolver)
            url = f"http://shop.example:{hooks.port}/ok"
            assert (await transport.post(url, HEADERS, b"{}")).code == 200
            assert (await transport.post(url, HEADERS, b"{}")).error == "refused: does not lead to a public address"
            assert len(hooks.requests) == 1
            transport.close()

    async def test_a_name_keeps_its_host_header(self) -> None:
        async with receiver() as hooks:
            transport = Transport(LOOPBACK, QUICK, Rebinding(["127.0.0.1"]))
            await transport.post(f"http://shop.example:{hooks.port}/ok", HEADERS, b"{}")
            assert hooks.requests[0].headers["host"] == f"shop.example:{hooks.port}"
            transport.close()

    async def test_the_next_address_is_tried_when_the_first_does_not_answer(self) -> None:
        async with receiver() as hooks:
            transport = Transport(LOOPBACK, QUICK, Rebinding(["127.0.0.9", "127.0.0.1"]))
            assert (await transport.post(f"http://shop.example:{hooks.port}/ok", HEADERS, b"{}")).code == 200
            transport.close()

    async def test_a_slow_name_is_a_timeout(self) -> None:
        async def never(_: str) -> Sequence[Address]:
            await asyncio.sleep(30)
            return [IPv4Address("127.0.0.1")]

        transport = Transport(LOOPBACK, QUICK, never)
        assert (await transport.post("http://shop.example/", HEADERS, b"{}")).error == "timeout"

    async def test_proxies_of_the_environment_are_ignored(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
        monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
        async with receiver() as hooks:
            assert (await post(hooks.url())).code == 200


def _certificate(directory: Path, name: str, days: int = 1) -> tuple[Path, ssl.SSLContext]:
    """A certificate of its own authority, and a server context that uses it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    start = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=2)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + datetime.timedelta(days=2 + days))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = directory / f"{name}{days}.pem"
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + made.public_bytes(serialization.Encoding.PEM)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return path, context


class TestTls:
    async def _post(self, hooks: Receiver, trusted: Path | None, name: str = "shop.example") -> Answer:
        tls = ssl.create_default_context()
        if trusted is not None:
            tls.load_verify_locations(trusted)
        transport = Transport(LOOPBACK, QUICK, Rebinding(["127.0.0.1"]), tls)
        answer = await transport.post(f"https://{name}:{hooks.port}/ok", HEADERS, b"{}")
        transport.close()
        return answer

    async def test_a_trusted_certificate_of_the_name(self, tmp_path: Path) -> None:
        path, tls = _certificate(tmp_path, "shop.example")
        async with receiver(tls) as hooks:
            assert (await self._post(hooks, path)).code == 200

    async def test_an_unknown_authority_another_name_or_an_expired_one(self, tmp_path: Path) -> None:
        path, tls = _certificate(tmp_path, "shop.example")
        expired, expired_tls = _certificate(tmp_path, "shop.example", days=-1)
        async with receiver(tls) as hooks, receiver(expired_tls) as late:
            for answer in (
                await self._post(hooks, None),
                await self._post(hooks, path, "other.example"),
                await self._post(late, expired),
            ):
                assert answer.error == "tls: certificate_verify_failed"
            assert hooks.requests == late.requests == []

    async def test_no_tls_at_all(self, tmp_path: Path) -> None:
        path, _ = _certificate(tmp_path, "shop.example")
        async with receiver() as hooks:
            answer = await self._post(hooks, path)
            assert answer.code is None
            assert answer.error is not None
