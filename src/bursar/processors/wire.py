"""One HTTP request and its answer, over a connection of its own: all that the link to the simulator needs.

Addresses come from settings, never from a merchant; redirects are answers like any other.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import httptools

LARGEST_REPLY = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: bytes


class _Incoming:
    """Collects what the parser finds."""

    def __init__(self) -> None:
        self.body = bytearray()
        self.complete = False

    def on_body(self, data: bytes) -> None:
        self.body += data

    def on_message_complete(self) -> None:
        self.complete = True


async def send(method: str, url: str, headers: Mapping[str, str], body: bytes, timeout_s: float) -> Reply:
    """Raises TimeoutError or another OSError when there was no whole answer."""
    address = urlsplit(url)
    secure = address.scheme == "https"
    async with asyncio.timeout(timeout_s):
        reader, writer = await asyncio.open_connection(
            address.hostname,
            address.port or (443 if secure else 80),
            ssl=ssl.create_default_context() if secure else None,
        )
        try:
            writer.write(_head(method, address.path or "/", address.netloc, headers, len(body)) + body)
            await writer.drain()
            return await _answer(reader)
        finally:
            writer.close()


def _head(method: str, target: str, host: str, headers: Mapping[str, str], length: int) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", "Connection: close", f"Content-Length: {length}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


async def _answer(reader: asyncio.StreamReader) -> Reply:
    incoming = _Incoming()
    parser = httptools.HttpResponseParser(incoming)
    while not incoming.complete:
        data = await reader.read(65536)
        if not data:
            raise ConnectionResetError("the answer was cut off")
        try:
            parser.feed_data(data)
        except httptools.HttpParserError:
            raise ConnectionResetError("the answer was not HTTP") from None
        if len(incoming.body) > LARGEST_REPLY:
            raise ConnectionResetError("the answer was too long")
    return Reply(parser.get_status_code(), bytes(incoming.body))
