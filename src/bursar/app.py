"""Puts the service together: the only file that knows every feature."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Sequence
from typing import Any

import falcon
import falcon.asgi
import structlog
import uvicorn

from bursar import logs
from bursar.db.pool import Database
from bursar.db.sweep import Sweep
from bursar.features.accounts import operator as accounts_operator
from bursar.features.accounts import routes as accounts
from bursar.features.api_keys import operator as api_keys_operator
from bursar.features.api_keys import routes as api_keys
from bursar.features.operator import routes as operator
from bursar.features.webhooks import operator as webhooks_operator
from bursar.features.webhooks import routes as webhooks
from bursar.http import asgi, guard, health, sweeps
from bursar.http.instance import Instance
from bursar.http.pipeline import Pipeline
from bursar.http.recovery import recovery_sweep
from bursar.http.routes import Route
from bursar.settings import Settings
from bursar.worker.loop import Worker

log = structlog.get_logger()

ROUTES: tuple[Route, ...] = (
    *accounts.ROUTES,
    *api_keys.ROUTES,
    *webhooks.ROUTES,
    *operator.ROUTES,
    *accounts_operator.ROUTES,
    *api_keys_operator.ROUTES,
    *webhooks_operator.ROUTES,
)

SWEEPS: tuple[Sweep, ...] = (recovery_sweep(ROUTES), *sweeps.SWEEPS)


def routes_of(settings: Settings, extra: Sequence[Route] = ()) -> list[Route]:
    """The routes of this instance: those for test instances are not there at all on a live one."""
    return [route for route in (*ROUTES, *extra) if settings.is_test or not route.test_only]


def create_app(instance: Instance, extra: Sequence[Route] = ()) -> Any:
    """The ASGI application. `extra` routes are for tests of the conventions themselves."""
    app = falcon.asgi.App()
    asgi.add_error_envelopes(app)
    health.add_routes(app, instance)
    asgi.add_routes(app, Pipeline(instance), routes_of(instance.settings, extra))
    return guard.separate_operator(app, instance.settings)


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
            timeout_keep_alive=30,
            timeout_graceful_shutdown=10,
            h11_max_incomplete_event_size=32 * 1024,
            backlog=1024,
        )
    )


async def serve_api(settings: Settings, sockets: list[socket.socket]) -> None:
    """One API process, until it is told to stop; requests in flight are answered first."""
    logs.configure(settings, "api")
    instance = await Instance.open(settings)
    try:
        await guard.check_database(instance.db, settings)
        server = http_server(create_app(instance))
        _stop_on_signal(lambda: setattr(server, "should_exit", True))
        await server.serve(sockets=sockets)
    finally:
        await instance.close()


async def serve_worker(settings: Settings) -> None:
    """One worker process, until it is told to stop."""
    logs.configure(settings, "worker")
    db = await Database.open(settings.database_url.get_secret_value(), size=settings.pool_size, name="bursar worker")
    try:
        await guard.check_database(db, settings)
        running = asyncio.create_task(Worker(settings, db, SWEEPS).run())
        _stop_on_signal(running.cancel)
        log.info("worker.ready")
        try:
            await running
        except asyncio.CancelledError:
            log.info("worker.stopped")
    finally:
        await db.close()


def _stop_on_signal(stop: Any) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
