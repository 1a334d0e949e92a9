"""What a process refuses to run with, and what an address refuses to serve. Most lost money starts as configuration."""

from __future__ import annotations

from typing import Any

from bursar.core import ids
from bursar.core.errors import EndpointNotFound
from bursar.db.clock import clock_offset
from bursar.db.pool import Database
from bursar.http.reply import failed, send_reply
from bursar.settings import Settings

OLDEST_SERVER = 150_000


class Refused(Exception):
    """The process must not start like this; one line says why."""


async def check_database(db: Database, settings: Settings) -> None:
    """Durability, version, role and clock: raises unless all are as they must be."""
    row = await db.fetchrow(
        """
        SELECT current_setting('fsync') AS fsync,
               current_setting('full_page_writes') AS full_page_writes,
               current_setting('synchronous_commit') AS synchronous_commit,
               current_setting('default_transaction_isolation') AS isolation,
               current_setting('server_version_num')::integer AS version,
               (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) AS is_superuser,
               EXISTS (SELECT FROM pg_tables WHERE schemaname = 'public' AND tableowner = current_user) AS owns_tables,
               current_user AS role
        """
    )
    assert row is not None
    if row["is_superuser"] or row["owns_tables"]:
        raise Refused(f"the service must not log in as {row['role']}, a superuser or the tables' owner; use bursar_app")
    if row["version"] < OLDEST_SERVER:
        raise Refused("the database is older than PostgreSQL 15")
    for name in ("fsync", "full_page_writes"):
        if row[name] != "on":
            raise Refused(f"the database runs with {name} off: a crash would lose acknowledged payments")
    if row["synchronous_commit"] == "off":
        raise Refused("the database runs with synchronous_commit off: a crash would lose acknowledged payments")
    if row["isolation"] != "read committed":
        raise Refused("the database's default isolation must be read committed")
    if not settings.is_test and await clock_offset(db):
        raise Refused("the clock of this database was moved by a test instance; a live instance cannot use it")


def separate_operator(app: Any, settings: Settings) -> Any:
    """With an operator address of its own, /ops exists there alone, and nothing else does."""
    if not settings.ops_listen:
        return app
    ops_port = int(settings.ops_listen.rpartition(":")[2])
    reply = failed(EndpointNotFound())

    async def separated(scope: Any, receive: Any, send: Any) -> None:
        at_ops = (scope.get("server") or ("", 0))[1] == ops_port
        wants_ops = scope.get("path", "").startswith("/ops/")
        if scope["type"] == "http" and at_ops != wants_ops:
            await send_reply(send, reply, ids.new_request_id())
            return
        await app(scope, receive, send)

    return separated
