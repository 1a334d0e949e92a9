"""Puts the service together: the only file that knows every feature."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
from collections.abc import Sequence
from typing import Any

import falcon
import falcon.asgi
import structlog
import uvicorn

from bursar import logs
from bursar.core import crashpoints
from bursar.db.pool import Database
from bursar.db.sweep import Sweep
from bursar.docs import page as docs
from bursar.features.accounts import connected_routes as connected_accounts
from bursar.features.accounts import operator as accounts_operator
from bursar.features.accounts import routes as accounts
from bursar.features.api_keys import operator as api_keys_operator
from bursar.features.api_keys import routes as api_keys
from bursar.features.bank_accounts import operator as bank_accounts_operator
from bursar.features.bank_accounts import routes as bank_accounts
from bursar.features.compliance import operator as compliance_operator
from bursar.features.compliance import routes as compliance
from bursar.features.compliance import sweeps as compliance_sweeps
from bursar.features.deliveries import routes as deliveries
from bursar.features.events import routes as events
from bursar.features.identity import operator as identity_operator
from bursar.features.identity import routes as identity
from bursar.features.identity import sweeps as identity_sweeps
from bursar.features.notices import sweeps as notices_sweeps
from bursar.features.operator import routes as operator
from bursar.features.payment_links import routes as payment_links
from bursar.features.payment_links import sweeps as payment_links_sweeps
from bursar.features.payments import routes as payments
from bursar.features.payments import service as payments_service
from bursar.features.payments import sweeps as payments_sweeps
from bursar.features.proof import operator as proof_operator
from bursar.features.proof import routes as proof
from bursar.features.refunds import routes as refunds
from bursar.features.simulator import operator as simulator_operator
from bursar.features.support import operator as support_operator
from bursar.features.support import routes as support
from bursar.features.transactions import routes as transactions
from bursar.features.uploads import operator as uploads_operator
from bursar.features.wallets import operator as wallets_operator
from bursar.features.wallets import routes as wallets
from bursar.features.webhooks import operator as webhooks_operator
from bursar.features.webhooks import routes as webhooks
from bursar.features.webhooks import sweeps as webhooks_sweeps
from bursar.http import asgi, guard, health, sweeps
from bursar.http.instance import Instance
from bursar.http.pipeline import Pipeline
from bursar.http.protocol import BoundedHttp, look_at
from bursar.http.recovery import recovery_sweep
from bursar.http.routes import Route
from bursar.ledger import effects, seals, settlement
from bursar.pages import checkout, links, mailbox, site, verification
from bursar.processors import inbox
from bursar.processors.simulator_sweep import SIMULATOR
from bursar.settings import Settings
from bursar.worker import retention
from bursar.worker.loop import Worker

log = structlog.get_logger()

ROUTES: tuple[Route, ...] = (
    *accounts.ROUTES,
    *connected_accounts.ROUTES,
    *identity.ROUTES,
    *compliance.ROUTES,
    *support.ROUTES,
    *bank_accounts.ROUTES,
    *api_keys.ROUTES,
    *payments.ROUTES,
    *payment_links.ROUTES,
    *refunds.ROUTES,
    *proof.ROUTES,
    *transactions.ROUTES,
    *wallets.ROUTES,
    *webhooks.ROUTES,
    *deliveries.ROUTES,
    *events.ROUTES,
    *operator.ROUTES,
    *accounts_operator.ROUTES,
    *api_keys_operator.ROUTES,
    *webhooks_operator.ROUTES,
    *uploads_operator.ROUTES,
    *simulator_operator.ROUTES,
    *proof_operator.ROUTES,
    *wallets_operator.ROUTES,
    *identity_operator.ROUTES,
    *compliance_operator.ROUTES,
    *support_operator.ROUTES,
    *bank_accounts_operator.ROUTES,
)

SWEEPS: tuple[Sweep, ...] = (
    recovery_sweep(ROUTES),
    *sweeps.SWEEPS,
    *payments_sweeps.SWEEPS,
    *payment_links_sweeps.SWEEPS,
    settlement.SWEEP,
    seals.SWEEP,
    SIMULATOR,
    *webhooks_sweeps.SWEEPS,
    *notices_sweeps.SWEEPS,
    *identity_sweeps.SWEEPS,
    *compliance_sweeps.SWEEPS,
    retention.SWEEP,
)


def routes_of(settings: Settings, extra: Sequence[Route] = ()) -> list[Route]:
    """The routes of this instance: those for test instances are not there at all on a live one."""
    return [route for route in (*ROUTES, *extra) if settings.is_test or not route.test_only]


def create_app(instance: Instance, extra: Sequence[Route] = ()) -> Any:
    """The ASGI application. `extra` routes are for tests of the conventions themselves."""
    app = falcon.asgi.App()
    instance.witnesses = (effects.posted,)
    asgi.add_error_envelopes(app)
    health.add_routes(app, instance)
    site.add_styles(app)
    verification.add_routes(app, instance)
    hosted = site.Site(instance)
    pages = checkout.Pages(hosted)
    checkout.add_routes(app, pages)
    links.add_routes(app, pages)
    mailbox.add_routes(app, hosted)
    inbox.add_route(app, instance.db, payments_service.processors_of(instance.settings), instance.hints.wake)
    routes = routes_of(instance.settings, extra)
    docs.add_routes(app, routes, instance.settings)
    return guard.separate_operator(asgi.Api(Pipeline(instance), routes, app), instance.settings)


def settle_memory() -> None:
    """What start-up made stays for good: the collector need not look at it again, nor run after every few requests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


class _Server(uvicorn.Server):
    """uvicorn without its signal handling, which the process has for itself, and with a look round at every tick."""

    def install_signal_handlers(self) -> None:
        pass

    async def on_tick(self, counter: int) -> bool:
        look_at(self.server_state, counter)
        return await super().on_tick(counter)


def http_server(app: Any) -> uvicorn.Server:
    return _Server(
        uvicorn.Config(
            app,
            loop="uvloop",
            http=BoundedHttp,
            ws="none",
            lifespan="off",
            access_log=False,
            log_level="warning",
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=10,
            backlog=1024,
        )
    )


async def serve_api(settings: Settings, sockets: list[socket.socket]) -> None:
    """One API process, until it is told to stop; requests in flight are answered first."""
    logs.configure(settings, "api")
    crashpoints.arm(settings.crashpoint)
    instance = await Instance.open(settings)
    try:
        await guard.check_database(instance.db, settings)
        app = create_app(instance)
        server = http_server(asgi.crashing_in_replies(app) if crashpoints.is_armed() else app)
        settle_memory()
        _stop_on_signal(lambda: setattr(server, "should_exit", True))
        await server.serve(sockets=sockets)
    finally:
        await instance.close()


async def serve_worker(settings: Settings) -> None:
    """One worker process, until it is told to stop."""
    logs.configure(settings, "worker")
    crashpoints.arm(settings.crashpoint)
    db = await Database.open(settings.database_url.get_secret_value(), size=settings.pool_size, name="bursar worker")
    try:
        await guard.check_database(db, settings)
        running = asyncio.create_task(Worker(settings, db, SWEEPS).run())
        settle_memory()
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
