"""A request as the server handed it over: what the pipeline reads, and nothing made before it is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bursar.core.errors import BadRequest, PayloadTooLarge


class Received:
    """Headers by their name in lower case; one that was sent twice is a list, as HTTP has it."""

    __slots__ = ("_headers", "_receive", "extensions", "method", "path", "peer", "query", "scheme")

    def __init__(self, scope: Any, receive: Any) -> None:
        sent = scope["headers"]
        headers = dict(sent)
        self._headers: dict[bytes, bytes] = headers if len(headers) == len(sent) else _listed(sent)
        self._receive = receive
        self.extensions: Mapping[str, Any] = scope.get("extensions") or {}
        self.method: str = "GET" if scope["method"] == "HEAD" else scope["method"]
        self.path: str = scope["raw_path"].decode("latin-1")  # exactly as sent, without the query
        self.query: bytes = scope["query_string"]
        self.scheme: str = scope["scheme"]
        client = scope["client"]
        self.peer: str = client[0] if client else ""

    def header(self, name: bytes) -> str | None:
        value = self._headers.get(name)
        return None if value is None else value.decode("latin-1")

    @property
    def media_type(self) -> str:
        value = self._headers.get(b"content-type", b"")
        return "application/json" if value == b"application/json" else _media_type(value)

    async def body(self, limit: int) -> bytes:
        """The raw body, never more than the limit whatever its length header says."""
        length = self._headers.get(b"content-length")
        if length is None:
            if b"transfer-encoding" not in self._headers:
                return b""
        elif int(length) > limit:
            raise PayloadTooLarge(details={"max_bytes": limit})
        parts: list[bytes] = []
        size = 0
        while True:
            message = await self._receive()
            if message["type"] != "http.request":
                raise BadRequest("The body ended early.")
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > limit:
                raise PayloadTooLarge(details={"max_bytes": limit})
            if not message.get("more_body"):
                return parts[0] if len(parts) == 1 else b"".join(parts)


def _listed(sent: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    headers: dict[bytes, bytes] = {}
    for name, value in sent:
        headers[name] = headers[name] + b"," + value if name in headers else value
    return headers


def _media_type(value: bytes) -> str:
    return value.decode("latin-1").partition(";")[0].strip().lower()
