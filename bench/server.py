"""Server processes for benchmarks. Settings come from the environment, as for `bursar api` and `bursar worker`.

python -m bench.server app --fd N    the whole service with a few empty routes added
python -m bench.server bare --fd N   the same framework and server, fixed replies; BENCH_SIZES: bytes of one, of a page
python -m bench.server outcomes      a worker that applies callbacks and does nothing else

With BENCH_PROFILE=file, where a process spends its time is written there when it ends.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import falcon.asgi
import uvloop

from bench import sampling
from bursar import logs
from bursar.app import create_app, http_server, settle_memory
from bursar.db.pool import Connection, Database
from bursar.features.payments import callbacks
from bursar.http.context import Ctx
from bursar.http.envelope import success
from bursar.http.instance import Instance
from bursar.http.routes import Batched, Local, Prepared, Read, Route
from bursar.http.schemas import Body
from bursar.processors import inbox
from bursar.settings import load
from bursar.worker.loop import Worker

REPLY = {"ok": True}
IN_FLIGHT = 32


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
    def __init__(self, body: bytes) -> None:
        self._bytes = body

    async def on_get(self, _: falcon.asgi.Request, response: falcon.asgi.Response, **__: str) -> None:
        response.data = self._bytes
        response.content_type = "application/json"


def _bare() -> Any:
    app = falcon.asgi.App()
    one, page = (int(size) for size in os.environ.get("BENCH_SIZES", "1000,10000").split(","))
    for number in range(150):  # a router as full as the service's
        app.add_route(f"/v2/other-{number}/{{id}}", _Bare(b""))
    app.add_route("/v2/bench-read", _Bare(success(REPLY, None)))
    app.add_route("/v2/hosted-payments/{id}", _Bare(b"x" * one))
    app.add_route("/v2/transactions", _Bare(b"x" * page))
    return app


async def serve(kind: str, listener: socket.socket) -> None:
    if kind == "bare":
        await _until_told(http_server(_bare()), listener)
        return
    settings = load()
    logs.configure(settings, "bench")
    instance = await Instance.open(settings)
    try:
        server = http_server(create_app(instance, ROUTES))
        settle_memory()
        await _until_told(server, listener)
    finally:
        await instance.close()


async def _until_told(server: Any, listener: socket.socket) -> None:
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: setattr(server, "should_exit", True))
    with sampling.sampled(os.environ.get("BENCH_PROFILE")):
        await server.serve(sockets=[listener])


async def outcomes() -> None:
    """The worker's loop with one sweep, which takes no more callbacks at a time than the floor has clients."""
    settings = load()
    logs.configure(settings, "bench")
    inbox.BATCH = IN_FLIGHT
    db = await Database.open(settings.database_url.get_secret_value(), size=settings.pool_size, name="bench worker")
    try:
        running = asyncio.create_task(Worker(settings, db, (callbacks.SWEEP,)).run())
        settle_memory()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
        with sampling.sampled(os.environ.get("BENCH_PROFILE")), suppress(asyncio.CancelledError):
            await running
    finally:
        await db.close()


def main() -> None:
    if sys.argv[1] == "outcomes":
        uvloop.run(outcomes())
    else:
        uvloop.run(serve(sys.argv[1], socket.socket(fileno=int(sys.argv[3]))))


if __name__ == "__main__":
    main()
