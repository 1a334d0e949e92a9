"""A server process for benchmarks: the whole service with two empty routes added, or a bare handler to compare with.

python -m bench.server app PORT    settings from the environment, as for `bursar api`
python -m bench.server bare PORT   the same framework and server, fixed replies of the same size
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Sequence
from typing import Any

import falcon.asgi
import uvloop

from bursar import logs
from bursar.app import create_app, http_server, settle_memory
from bursar.db.pool import Connection
from bursar.http.context import Ctx
from bursar.http.envelope import success
from bursar.http.instance import Instance
from bursar.http.routes import Batched, Local, Prepared, Read, Route
from bursar.http.schemas import Body
from bursar.settings import load

REPLY = {"ok": True}


class Empty(Body):
    """Nothing is asked."""


async def read(_: Ctx, __: None) -> dict[str, bool]:
    return REPLY


async def write(_: Ctx, __: Empty) -> dict[str, bool]:
    return REPLY


def prepare(_: Ctx, __: Empty) -> Prepared:
    return Prepared(None, REPLY)


async def apply(_: Connection, rows: Sequence[Any]) -> list[None]:
    return [None] * len(rows)


def _route(method: str, path: str, handler: Any, **more: Any) -> Route:
    return Route(method=method, path=path, name=f"bench{path}", summary="", tag="", handler=handler, **more)


ROUTES = (
    _route("GET", "/bench-read", Read(read)),
    _route("POST", "/bench-local", Local(write), body=Empty),
    _route("POST", "/bench-batched", Batched("event_id", prepare, apply), body=Empty),
)


class _Bare:
    def __init__(self) -> None:
        self._bytes = success(REPLY, None)

    async def on_get(self, _: falcon.asgi.Request, response: falcon.asgi.Response) -> None:
        response.data = self._bytes
        response.content_type = "application/json"

    async def on_post(self, request: falcon.asgi.Request, response: falcon.asgi.Response) -> None:
        await request.stream.read()
        response.data = self._bytes
        response.content_type = "application/json"


async def serve(kind: str, port: int) -> None:
    listener = socket.create_server(("127.0.0.1", port), backlog=1024)
    if kind == "bare":
        app = falcon.asgi.App()
        for number in range(150):  # a router as full as the service's
            app.add_route(f"/v2/other-{number}/{{id}}", _Bare())
        app.add_route("/v2/bench-read", _Bare())
        app.add_route("/v2/bench-local", _Bare())
        await http_server(app).serve(sockets=[listener])
        return
    settings = load()
    logs.configure(settings, "bench")
    instance = await Instance.open(settings)
    try:
        server = http_server(create_app(instance, ROUTES))
        settle_memory()
        await server.serve(sockets=[listener])
    finally:
        await instance.close()


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1], int(sys.argv[2])))
