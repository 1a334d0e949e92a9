"""Receivers of deliveries on loopback, well-behaved and otherwise. Each path behaves as its first part says."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Received:
    path: str
    headers: dict[str, str]
    body: bytes
    at: float

    @property
    def event_id(self) -> str:
        return self.headers["x-service-event-id"]

    @property
    def attempt(self) -> int:
        return int(self.headers["x-service-attempt"])


@dataclass
class Receiver:
    port: int = 0
    scheme: str = "http"
    requests: list[Received] = field(default_factory=list)
    connections: int = 0
    in_flight: Counter[str] = field(default_factory=Counter)
    most_in_flight: Counter[str] = field(default_factory=Counter)
    mood: dict[str, str] = field(default_factory=dict)  # path → behaviour, instead of what the path says
    delay_s: float = 0.0
    on_request: Callable[[Received], None] = lambda _: None

    def url(self, path: str = "/ok") -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}{path}"

    def at(self, path: str) -> list[Received]:
        return [request for request in self.requests if request.path == path]

    async def wait_for(self, count: int, path: str | None = None, timeout_s: float = 30.0) -> list[Received]:
        async with asyncio.timeout(timeout_s):
            while len(found := self.requests if path is None else self.at(path)) < count:  # noqa: ASYNC110 - a test's wait
                await asyncio.sleep(0.005)
        return found

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                request = await _read(reader)
                self.requests.append(request)
                self.on_request(request)
                self.in_flight[request.path] += 1
                self.most_in_flight[request.path] = max(self.most_in_flight[request.path], self.in_flight[request.path])
                try:
                    if self.delay_s:
                        await asyncio.sleep(self.delay_s)
                    keep = await self._answer(request, writer)
                finally:
                    self.in_flight[request.path] -= 1
                if not keep:
                    break
        writer.close()

    async def _answer(self, request: Received, writer: asyncio.StreamWriter) -> bool:
        behaviour = self.mood.get(request.path, request.path.split("/")[1])
        if behaviour == "hang":
            await asyncio.sleep(60)
        elif behaviour == "reset":
            writer.transport.abort()
            return False
        elif behaviour == "drip":
            for byte in b"HTTP/1.1 200 OK\r\nX-Slow: " + b"y" * 1000:
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(0.05)
        elif behaviour == "dripping-body":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
            for _ in range(1000):
                writer.write(b"z")
                await writer.drain()
                await asyncio.sleep(0.05)
        elif behaviour == "huge":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10485760\r\n\r\n")
            for _ in range(160):
                writer.write(b"x" * 65536)
                await writer.drain()
        elif behaviour == "many-headers":
            writer.write(b"HTTP/1.1 200 OK\r\n" + b"X-More: yes\r\n" * 10_000)
            await asyncio.sleep(60)
        elif behaviour == "not-http":
            writer.write(b"220 mail.example ESMTP\r\n")
            await writer.drain()
        else:
            status, headers = _PLAIN.get(behaviour, _PLAIN["ok"])
            text = behaviour.encode()
            head = f"HTTP/1.1 {status}\r\nContent-Length: {len(text)}\r\n{headers}\r\n".encode()
            writer.write(head + text)
            await writer.drain()
            return "close" not in headers
        return False


_PLAIN = {
    "ok": ("200 OK", ""),
    "created": ("201 Created", ""),
    "fail": ("500 Internal Server Error", ""),
    "unavailable": ("503 Service Unavailable", ""),
    "gone": ("410 Gone", ""),
    "busy": ("429 Too Many Requests", "Retry-After: 600\r\n"),
    "redirect": ("302 Found", "Location: http://127.0.0.1:1/elsewhere\r\n"),
    "not-found": ("404 Not Found", ""),
    "closing": ("200 OK", "Connection: close\r\n"),
    "continue": ("100 Continue\r\n\r\nHTTP/1.1 200 OK", ""),
}


async def _read(reader: asyncio.StreamReader) -> Received:
    begun = await reader.readexactly(1)
    if begun == b"\x16":  # a TLS handshake, which a plain server hangs up on
        raise ConnectionError
    head = (begun + await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.strip().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Received(first.split(" ")[1], headers, body, time.time())


@asynccontextmanager
async def receiver(
    tls: ssl.SSLContext | None = None, host: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[Receiver]:
    made = Receiver(scheme="https" if tls else "http")
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(made.serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(accept, host, port, ssl=tls)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()
