"""From what a handler returned to the bytes that go out."""

from __future__ import annotations

from typing import Any

from bursar.core.errors import ApiError
from bursar.http import envelope
from bursar.http.context import Ctx
from bursar.http.idempotency import Stored
from bursar.http.routes import Route


def render(route: Route, result: Any, ctx: Ctx) -> Stored:
    """The reply for a value, for an `Answer` with a status of its own, or for a declared error."""
    if isinstance(result, ApiError):
        return failed(result)
    if isinstance(result, envelope.Download):
        return Stored(route.status, result.content, result.headers)
    status, headers = route.status, {}
    if isinstance(result, envelope.Answer):
        status, headers, result = result.status or status, result.headers, result.data
    meta = {"sandbox": True, "effects": ctx.effects} if ctx.sandbox else None
    return Stored(status, envelope.success(result, route.wrap, meta), headers)


def failed(error: ApiError) -> Stored:
    return Stored(error.status, envelope.failure(error), error.headers)
