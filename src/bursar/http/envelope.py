"""The shape of every reply: `{success, data, meta}` or `{success, error}`, encoded once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from bursar.core.errors import ApiError

encode = msgspec.json.Encoder(decimal_format="number").encode


@dataclass(frozen=True, slots=True)
class Answer:
    """A handler's result when the route's own status does not fit, or a header belongs to it."""

    data: Any
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Download:
    """A file instead of JSON. It is always saved, never shown: whoever sent it may not be trusted."""

    content: bytes
    name: str
    mime: str

    @property
    def headers(self) -> dict[str, str]:
        return {
            "Content-Type": self.mime,
            "Content-Disposition": f'attachment; filename="{self.name}"',
            "Content-Security-Policy": "default-src 'none'; sandbox",
            "X-Content-Type-Options": "nosniff",
        }


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list that is counted."""

    items: Sequence[Any]
    current_page: int
    per_page: int
    total: int

    @property
    def meta(self) -> dict[str, Any]:
        last_page = max(1, -(-self.total // self.per_page))
        return {
            "pagination": {
                "current_page": self.current_page,
                "per_page": self.per_page,
                "total": self.total,
                "last_page": last_page,
            }
        }


@dataclass(frozen=True, slots=True)
class CursorPage:
    """One page of a list that is read on from a cursor."""

    items: Sequence[Any]
    next_cursor: str | None
    limit: int

    @property
    def meta(self) -> dict[str, Any]:
        return {"next_cursor": self.next_cursor, "has_more": self.next_cursor is not None, "limit": self.limit}


class _SuccessWire(msgspec.Struct):
    success: bool
    data: Any


class _SuccessMetaWire(msgspec.Struct):
    success: bool
    data: Any
    meta: Any


class _ErrorWire(msgspec.Struct):
    code: str
    message: str
    details: Mapping[str, Any] | None


class _FailureWire(msgspec.Struct):
    success: bool
    error: _ErrorWire


def success(result: Any, wrap: str | None, extra_meta: Mapping[str, Any] | None = None) -> bytes:
    """Encodes what a handler returned: a page as a list with its meta, an object under its resource name."""
    meta = dict(extra_meta or {})
    if isinstance(result, Page | CursorPage):
        data: Any = result.items
        meta = result.meta | meta
    else:
        data = {wrap: result} if wrap else result
    return encode(_SuccessMetaWire(True, data, meta)) if meta else encode(_SuccessWire(True, data))


def failure(error: ApiError) -> bytes:
    return encode(_FailureWire(False, _ErrorWire(error.code, error.text, error.details)))
