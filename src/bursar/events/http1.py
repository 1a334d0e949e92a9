"""One HTTP/1.1 connection that posts and reads a bounded reply. No redirects, no proxies, no cookies, no surprises.

The status and headers decide a delivery. Of the body only the beginning is kept, and a receiver that keeps talking is
hung up on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import httptools

HEADERS_LARGEST = 32 * 1024
BODY_LARGEST = 64 * 1024
EXCERPT_LARGEST = 1024


class BadReply(Exception):
    """What came back is not HTTP, or has more headers than anyone needs."""


@dataclass(slots=True)
class Reply:
    status: int = 0
    retry_after: str | None = None
    excerpt: bytearray = field(default_factory=bytearray)


class Connection(asyncio.Protocol):
    """A connection for one exchange at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._parser: Any = None
        self._reply = Reply()
        self._headers: asyncio.Future[None] | None = None
        self._complete: asyncio.Future[None] | None = None
        self._seen = 0
        self._in_body = False
        self._finished = False
        self._reusable = False
        self.closed = False
        self.late = False  # the deadline passed

    # The exchange ----------------------------------------------------------------------------------------------

    async def post(self, request: bytes, deadline: float, body_within_s: float) -> Reply:
        """Sends the request; returns when the reply, or as much of it as is wanted, is there.

        `deadline` is a moment of the loop's clock. One timer keeps it: `asyncio.timeout` costs five times as much.
        """
        assert self._transport is not None
        if self.closed:
            raise ConnectionResetError("the connection was closed")
        loop = asyncio.get_running_loop()
        self._headers, self._complete = loop.create_future(), loop.create_future()
        self._start()
        self._transport.write(request)
        timer = loop.call_at(deadline, self._time_out)
        try:
            await self._headers
            if not self._complete.done():
                await asyncio.wait([self._complete], timeout=body_within_s)
        finally:
            timer.cancel()
        if self.late:
            raise TimeoutError
        if not self._finished:
            self.close()
        return self._reply

    @property
    def answered(self) -> bool:
        """Whether any byte of a reply came."""
        return self._seen > 0

    @property
    def reusable(self) -> bool:
        return self._reusable and self._finished and not self.closed

    def close(self) -> None:
        self.closed = True
        if self._transport is not None:
            self._transport.abort()

    def _start(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._reply = Reply()
        self._seen, self._in_body, self._finished, self._reusable = 0, False, False, False

    # asyncio's side --------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._parser is None or self._finished:
            self.close()  # it speaks without being asked
            return
        self._seen += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(BadReply(str(error)))
            return
        if not self._in_body and self._seen > HEADERS_LARGEST:
            self._fail(BadReply("too many headers"))
        elif self._in_body and not self._finished and self._seen > HEADERS_LARGEST + BODY_LARGEST:
            self._hang_up()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self.closed = True
        self._fail(error or ConnectionResetError("the connection was closed before an answer"))

    # The parser's side -----------------------------------------------------------------------------------------

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"retry-after":
            self._reply.retry_after = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self._reply.status = self._parser.get_status_code()
        if self._reply.status < 200 and self._reply.status != 101:
            return  # "100 Continue" and its like come before the answer
        self._reusable = self._parser.should_keep_alive()
        self._in_body = True
        if self._headers is not None and not self._headers.done():
            self._headers.set_result(None)

    def on_body(self, body: bytes) -> None:
        room = EXCERPT_LARGEST - len(self._reply.excerpt)
        if room > 0:
            self._reply.excerpt += body[:room]

    def on_message_complete(self) -> None:
        if not self._in_body:
            self._seen = 0
            return
        self._finished = True
        if self._complete is not None and not self._complete.done():
            self._complete.set_result(None)

    # Ends ------------------------------------------------------------------------------------------------------

    def _hang_up(self) -> None:
        """Enough was read to know the answer."""
        if self._complete is not None and not self._complete.done():
            self._complete.set_result(None)
        self.close()

    def _time_out(self) -> None:
        self.late = True
        self._fail(TimeoutError())

    def _fail(self, error: Exception) -> None:
        if self._headers is not None and not self._headers.done():
            self._headers.set_exception(error)
        if self._complete is not None and not self._complete.done():
            self._complete.set_result(None)  # the status is known; a cut body changes nothing
        self.close()


def build_request(path: str, host: str, headers: Mapping[str, str], body: bytes) -> bytes:
    lines = [f"POST {path} HTTP/1.1", f"Host: {host}", *[f"{name}: {value}" for name, value in headers.items()]]
    lines.append(f"Content-Length: {len(body)}")
    head = "\r\n".join(lines)
    if not head.count("\r") == head.count("\n") == len(lines) - 1:
        raise ValueError("a header may not contain a line break")
    return head.encode("latin-1") + b"\r\n\r\n" + body
