"""The simulator as a process of its own, on a port of its own: another origin, so its pages share nothing with ours."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import falcon
import falcon.asgi
import structlog
import uvicorn

from bursar import logs
from bursar.core import crashpoints
from bursar.db.pool import Database
from bursar.processors import inbox
from bursar.processors.signing import LinkKeys
from bursar.processors.simulator import api, pages
from bursar.processors.simulator.api import Shop
from bursar.processors.simulator.books import Links
from bursar.processors.simulator.courier import Courier
from bursar.settings import Settings

log = structlog.get_logger()


class CannotServe(Exception):
    """The simulator must not run like this; one line says why."""


def create_app(shop: Shop) -> falcon.asgi.App[Any, Any]:
    app = falcon.asgi.App()
    app.add_error_handler(Exception, _unexpected)
    api.add_routes(app, shop)
    pages.add_routes(app, shop)
    app.add_route("/health", _Health(shop.db))
    return app


class _Health:
    def __init__(self, db: Database) -> None:
        self._db = db

    async def on_get(self, _: falcon.asgi.Request, response: falcon.asgi.Response) -> None:
        await self._db.fetchval("SELECT 1")
        response.media = {"status": "ok"}


async def _unexpected(
    request: falcon.asgi.Request, response: falcon.asgi.Response | None, error: Exception, __: dict[str, Any]
) -> None:
    """Only the kind of error is logged, and where: a message could quote what a customer typed."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    place = f"{last.tb_frame.f_code.co_filename}:{last.tb_lineno}" if last else ""
    log.error("simulator.failed", route=request.uri_template, error=type(error).__name__, place=place)
    if response is not None and request.path.startswith("/pay/"):
        pages.show_problem(response, 503)
    elif response is not None:
        response.status = 503
        response.media = {"error": "unavailable"}


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[tuple[Shop, falcon.asgi.App[Any, Any]]]:
    """The simulator's application with its loop running; for the process below, and for tests."""
    if not settings.is_test:
        raise CannotServe("the processor simulator is for test instances; set BURSAR_ENV=test")
    if not (settings.processor_secret or settings.key_pepper):
        raise CannotServe("the processor simulator shares a secret with the service; set BURSAR_PROCESSOR_SECRET")
    keys = LinkKeys.of(settings.simulator_secret)
    db = await Database.open(settings.database_url.get_secret_value(), size=6, name="bursar simulator")
    courier = Courier(db, inbox.callback_url(settings.public_url, "simulator"), keys.callbacks)
    links = Links.of(settings.simulator_public_url, keys)
    shop = Shop(db, links, keys, courier, settings.processor_timeout_s + 0.5)
    running = asyncio.create_task(courier.run())
    try:
        yield shop, create_app(shop)
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        await db.close()


class _Server(uvicorn.Server):
    """uvicorn without its signal handling, which the process has for itself."""

    def install_signal_handlers(self) -> None:
        pass


def http_server(app: Any) -> uvicorn.Server:
    return _Server(
        uvicorn.Config(
            app,
            loop="uvloop",
            http="httptools",
            ws="none",
            lifespan="off",
            access_log=False,
            log_level="warning",
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=2,
        )
    )


async def serve_simulator(settings: Settings, sockets: list[socket.socket]) -> None:
    """The simulator's process, until it is told to stop."""
    logs.configure(settings, "simulator")
    crashpoints.arm(settings.crashpoint)
    async with opened(settings) as (_, app):
        server = http_server(app)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, lambda: setattr(server, "should_exit", True))
        log.info("simulator.ready", url=settings.simulator_public_url)
        await server.serve(sockets=sockets)
