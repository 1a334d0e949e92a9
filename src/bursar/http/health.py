"""/health and /metrics: for load balancers and monitoring, without a key."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import falcon
import falcon.asgi
import msgspec

from bursar import __version__
from bursar.db.pool import LOST, Busy
from bursar.http import metrics
from bursar.http.instance import Instance

READY_WITHIN_S = 2.0


class _Health:
    def __init__(self, instance: Instance, *, ready: bool) -> None:
        self._instance = instance
        self._ready = ready

    async def on_get(self, _: falcon.asgi.Request, response: falcon.asgi.Response) -> None:
        database = await self._database() if self._ready else "not checked"
        healthy = database != "unreachable"
        response.status = 200 if healthy else 503
        response.content_type = "application/json"
        response.data = msgspec.json.encode(
            {"status": "ok" if healthy else "unavailable", "database": database, "version": __version__}
        )

    async def _database(self) -> str:
        try:
            async with asyncio.timeout(READY_WITHIN_S):
                await self._instance.db.fetchval("SELECT 1 FROM schema_migration LIMIT 1")
        except (Busy, TimeoutError, asyncpg.PostgresError, *LOST):
            return "unreachable"
        return "ok"


class _Metrics:
    def __init__(self, instance: Instance) -> None:
        self._instance = instance

    async def on_get(self, _: falcon.asgi.Request, response: falcon.asgi.Response) -> None:
        metrics.connections_in_use.set(self._instance.db.in_use)
        response.content_type = metrics.CONTENT_TYPE
        response.data = metrics.exposition()


def add_routes(app: falcon.asgi.App[Any, Any], instance: Instance) -> None:
    app.add_route("/health", _Health(instance, ready=True))
    app.add_route("/health/live", _Health(instance, ready=False))
    app.add_route("/health/ready", _Health(instance, ready=True))
    app.add_route("/metrics", _Metrics(instance))
