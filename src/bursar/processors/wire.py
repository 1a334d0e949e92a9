"""HTTP requests and their answers: all that the link to the simulator needs.

Addresses come from settings, never from a merchant; redirects are answers like any other.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from contextlib import closing
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

import httptools

LARGEST_REPLY = 1024 * 1024


class Reply(NamedTuple):
    status: int
    body: bytes


async def send(method: str, url: str, headers: Mapping[str, str], body: bytes, timeout_s: float) -> Reply:
    """One request over a connection of its own.

    Raises TimeoutError or another OSError when there was no whole answer.
    """
    with closing(Line(url)) as line:
        return await line.send(method, "", headers, body, timeout_s)


class Line:
    """Connections to one place, for requests to addresses that begin with `url`. They stay open until `close`."""

    def __init__(self, url: str) -> None:
        address = urlsplit(url)
        self._tls = ssl.create_default_context() if address.scheme == "https" else None
        self._host = address.hostname or ""
        self._port = address.port or (443 if self._tls else 80)
        self._name = address.netloc
        self._path = address.path
        self._free: list[_Connection] = []
        self._closed = False

    async def send(self, method: str, path: str, headers: Mapping[str, str], body: bytes, timeout_s: float) -> Reply:
        """Raises TimeoutError or another OSError when there was no whole answer."""
        request = self._head(method, path, headers, len(body)) + body
        until = asyncio.get_running_loop().time() + timeout_s
        # The other side may be closing a connection that was kept; only a question is sent twice.
        if method == "GET" and (kept := self._kept()) is not None:
            try:
                return await self._exchange(kept, request, until)
            except ConnectionError:
                if kept.answered:
                    raise
        return await self._exchange(await self._connect(until), request, until)

    def close(self) -> None:
        self._closed = True
        for connection in self._free:
            connection.close()
        self._free.clear()

    def _kept(self) -> _Connection | None:
        while self._free:
            connection = self._free.pop()
            if connection.reusable:
                return connection
        return None

    async def _connect(self, until: float) -> _Connection:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout_at(until):
            _, connection = await loop.create_connection(_Connection, self._host, self._port, ssl=self._tls)
            return connection

    async def _exchange(self, connection: _Connection, request: bytes, until: float) -> Reply:
        try:
            return await connection.exchange(request, until)
        finally:
            if connection.reusable and not self._closed:
                self._free.append(connection)
            else:
                connection.close()

    def _head(self, method: str, path: str, headers: Mapping[str, str], length: int) -> bytes:
        target = self._path + path or "/"
        lines = [f"{method} {target} HTTP/1.1", f"Host: {self._name}", f"Content-Length: {length}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


class _Connection(asyncio.Protocol):
    """For one exchange at a time. It may be used again after a whole answer that did not say otherwise."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._parser: Any = None
        self._body = bytearray()
        self._answer: asyncio.Future[Reply] | None = None
        self.answered = False  # by so much as a byte
        self.reusable = False

    async def exchange(self, request: bytes, until: float) -> Reply:
        """The answer, if it comes before that time of the loop."""
        assert self._transport is not None
        self.answered = self.reusable = False
        if self._transport.is_closing():
            raise ConnectionResetError("the connection was closed")
        self._parser = httptools.HttpResponseParser(self)
        self._body.clear()
        loop = asyncio.get_running_loop()
        self._answer = loop.create_future()
        timer = loop.call_at(until, self._fail, TimeoutError("the answer did not come in time"))
        try:
            self._transport.write(request)
            return await self._answer
        finally:
            timer.cancel()

    def close(self) -> None:
        self.reusable = False
        if self._transport is not None:
            self._transport.abort()

    # asyncio's side --------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._answer is None or self._answer.done():
            self.close()  # it speaks without being asked
            return
        self.answered = True
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._fail(ConnectionResetError("the answer was not HTTP"))

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(ConnectionResetError("the answer was cut off"))

    # The parser's side -----------------------------------------------------------------------------------------

    def on_body(self, data: bytes) -> None:
        self._body += data
        if len(self._body) > LARGEST_REPLY:
            self._fail(ConnectionResetError("the answer was too long"))

    def on_message_complete(self) -> None:
        if self._answer is not None and not self._answer.done():
            self.reusable = self._parser.should_keep_alive()
            self._answer.set_result(Reply(self._parser.get_status_code(), bytes(self._body)))

    def _fail(self, error: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
        self.close()
