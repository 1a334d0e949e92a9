"""HTTP/1.1 over plain sockets, quick enough for tens of thousands of requests from the machine that serves them."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from tests.support import signing
from tests.support.service import new_key


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes
    took_s: float

    @property
    def data(self) -> Any:
        return json.loads(self.body)["data"]

    @property
    def code(self) -> str | None:
        """The error's code; None of a success."""
        error = json.loads(self.body).get("error")
        return error["code"] if error else None


def request(method: str, path: str, headers: Mapping[str, str], body: bytes = b"") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: faults", *(f"{name}: {value}" for name, value in headers.items())]
    if body or method != "GET":
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def signed(secret: str, method: str, path: str, body: Any, *, key: str | None = None, **headers: str) -> bytes:
    """A write with the legacy signature, as bytes."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    sent = {
        "Authorization": f"Bearer {secret}",
        "Content-Type": "application/json",
        "Idempotency-Key": key or new_key(),
        **signing.legacy(secret, raw),
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    return request(method, path, sent, raw)


def get(secret: str, path: str, **headers: str) -> bytes:
    dashed = {name.replace("_", "-"): value for name, value in headers.items()}
    return request("GET", path, {"Authorization": f"Bearer {secret}", **dashed})


@dataclass
class Wire:
    """Connections to one address that are kept and used again; as many as are needed at once."""

    port: int
    timeout_s: float = 30.0
    _idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = field(default_factory=list)

    async def send(self, content: bytes) -> Reply:
        """One request, one reply. A kept connection that was closed meanwhile is replaced, as any client does."""
        while self._idle:
            reader, writer = self._idle.pop()
            if not reader.at_eof():
                break
            writer.close()
        else:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            async with asyncio.timeout(self.timeout_s):
                reply = await exchange(reader, writer, content)
        except BaseException:
            writer.close()
            raise
        if reply.headers.get("connection") == "close":
            writer.close()
        else:
            self._idle.append((reader, writer))
        return reply

    async def persistent(self, content: bytes, within_s: float = 30.0) -> Reply:
        """As a careful client: the same request again after a cut or a refused connection."""
        until = time.monotonic() + within_s
        while True:
            try:
                return await self.send(content)
            except (OSError, asyncio.IncompleteReadError):
                if time.monotonic() > until:
                    raise
                await asyncio.sleep(0.05)

    async def close(self) -> None:
        for _, writer in self._idle:
            writer.close()
        for _, writer in self._idle:
            with suppress(OSError):
                await writer.wait_closed()
        self._idle.clear()


async def exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, content: bytes) -> Reply:
    started = time.perf_counter()
    writer.write(content)
    await writer.drain()
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Reply(int(first.split()[1]), headers, body, time.perf_counter() - started)


@asynccontextmanager
async def wire(port: int, timeout_s: float = 30.0) -> AsyncIterator[Wire]:
    opened = Wire(port, timeout_s)
    try:
        yield opened
    finally:
        await opened.close()
