"""From declared routes to an ASGI application, in front of the pages' one, which answers for everything else."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import falcon
import falcon.asgi
import structlog
from falcon.routing import CompiledRouter

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
from bursar.http.received import Received
from bursar.http.reply import WHOLE, failed, send_reply
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


class Api:
    """The declared routes. Their requests skip what a page's need: cookies, forms, media handlers."""

    def __init__(self, pipeline: Pipeline, routes: Iterable[Route], pages: Any) -> None:
        self._pipeline = pipeline
        self._pages = pages
        self._router = CompiledRouter()
        places: dict[str, dict[str, tuple[Route, bool]]] = defaultdict(dict)
        for route in routes:
            for prefix, dry in prefixes(route):
                methods = places[prefix + route.path]
                assert route.method not in methods, f"{route.method} {route.path} is declared twice"
                methods[route.method] = (route, dry)
                if route.method == "GET":
                    methods["HEAD"] = (route, dry)
        for path, methods in places.items():
            self._router.add_route(path, methods)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        found = self._router.find(scope["path"]) if scope["type"] == "http" else None
        if found is None:
            await self._pages(scope, receive, send)
            return
        methods: Any = found[0]
        place = methods.get(scope["method"])
        if place is None:
            refusal = failed(MethodNotAllowed(headers={"Allow": ", ".join(sorted(methods))}))
            await send_reply(send, refusal, ids.new_request_id())
            return
        route, dry = place
        await self._pipeline.respond(route, Received(scope, receive), send, found[2], dry=dry)


def crashing_in_replies(app: Any) -> Any:
    """The application with crash points in the middle of a reply, when its head is out, and after it."""

    async def crashing(scope: Any, receive: Any, send: Any) -> None:
        async def sending(message: Any) -> None:
            if message["type"] != "http.response.body":
                await send({name: value for name, value in message.items() if name != WHOLE})
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
