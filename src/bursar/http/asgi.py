"""From declared routes to a Falcon application: routing, and the envelope for whatever no route answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import falcon
import falcon.asgi
import structlog

from bursar.core import ids
from bursar.core.crashpoints import crashpoint
from bursar.core.errors import (
    ApiError,
    BadRequest,
    EndpointNotFound,
    InternalError,
    MethodNotAllowed,
    PayloadTooLarge,
    UnsupportedMediaType,
    UriTooLong,
)
from bursar.http.pipeline import Pipeline
from bursar.http.reply import failed
from bursar.http.routes import Route

log = structlog.get_logger()

_BY_STATUS: dict[int, type[ApiError]] = {
    404: EndpointNotFound,
    405: MethodNotAllowed,
    413: PayloadTooLarge,
    414: UriTooLong,
    415: UnsupportedMediaType,
}


def prefixes(route: Route) -> tuple[tuple[str, bool], ...]:
    """Where a route is reached: (prefix, is a dry run)."""
    if route.family.name == "operator":
        return (("/ops/v1", False),)
    return (("/v2", False), ("/sandbox/v2", True))


def add_routes(app: falcon.asgi.App[Any, Any], pipeline: Pipeline, routes: Iterable[Route]) -> None:
    places: dict[str, dict[str, Any]] = defaultdict(dict)
    for route in routes:
        for prefix, dry in prefixes(route):
            responders = places[prefix + route.path]
            name = f"on_{route.method.lower()}"
            assert name not in responders, f"{route.method} {route.path} is declared twice"
            responders[name] = _responder(pipeline, route, dry=dry)
            if route.method == "GET":
                responders["on_head"] = responders[name]
    for path, responders in places.items():
        responders["on_options"] = _refuse([name.removeprefix("on_").upper() for name in responders])
        app.add_route(path, type("Resource", (), {name: staticmethod(call) for name, call in responders.items()})())


def _responder(pipeline: Pipeline, route: Route, *, dry: bool) -> Any:
    async def respond(request: falcon.asgi.Request, response: falcon.asgi.Response, **path: str) -> None:
        await pipeline.respond(route, request, response, path, dry=dry)

    return respond


def _refuse(allowed: list[str]) -> Any:
    """OPTIONS is a method like any other that is not declared; Falcon would answer it by itself."""

    async def refuse(_: falcon.asgi.Request, __: falcon.asgi.Response, **path: str) -> None:
        raise falcon.HTTPMethodNotAllowed(allowed)

    return refuse


def crashing_in_replies(app: Any) -> Any:
    """The application with crash points in the middle of a reply, when its head is out, and after it."""

    async def crashing(scope: Any, receive: Any, send: Any) -> None:
        async def sending(message: Any) -> None:
            if message["type"] != "http.response.body":
                await send(message)
                return
            crashpoint("reply.during")
            await send(message)
            crashpoint("reply.after")

        await app(scope, receive, sending)

    return crashing


def add_error_envelopes(app: falcon.asgi.App[Any, Any]) -> None:
    async def declared(
        _: falcon.asgi.Request, response: falcon.asgi.Response | None, error: falcon.HTTPError, __: dict[str, Any]
    ) -> None:
        kind = _BY_STATUS.get(error.status_code, BadRequest if error.status_code < 500 else InternalError)
        _fill(response, kind(), ids.new_request_id())
        if response is not None and error.headers:
            response.set_headers(error.headers)

    async def unexpected(
        _: falcon.asgi.Request, response: falcon.asgi.Response | None, error: Exception, __: dict[str, Any]
    ) -> None:
        request_id = ids.new_request_id()
        log.error("request.failed", request_id=request_id, exc_info=error)
        _fill(response, InternalError(details={"request_id": request_id}), request_id)

    app.add_error_handler(Exception, unexpected)
    app.add_error_handler(falcon.HTTPError, declared)


def _fill(response: falcon.asgi.Response | None, error: ApiError, request_id: str) -> None:
    if response is None:
        return
    reply = failed(error)
    response.status = reply.status
    response.data = reply.body
    response.content_type = "application/json"
    response.set_headers({"Service-Version": "2", "Service-Request-Id": request_id})
