"""Roles and databases: what a server needs before the migrations can run, embedded or not.

Two roles: `bursar_owner` owns the database and runs the migrations, `bursar_app` is what the service logs in as.
Which tables the service may touch is granted by the migrations, not here.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import asyncpg

OWNER = "bursar_owner"
SERVICE = "bursar_app"

# A dead client must not hold a wallet's lock, nor a slow query a connection.
SERVICE_DEFAULTS = {
    "lock_timeout": "2s",
    "statement_timeout": "5s",
    "idle_in_transaction_session_timeout": "10s",
}

# CREATEDB is for the tests, which clone a migrated template; it gives no right over anybody else's database.
_ATTRIBUTES = {
    OWNER: "LOGIN NOSUPERUSER CREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS",
    SERVICE: "LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS",
}

_ADVISORY_LOCK = 0x62757273617264  # any number that only this module uses
_SCRAM_ITERATIONS = 4096  # PostgreSQL's own number
_CONNECT_TIMEOUT_S = 10.0


async def ensure_roles(admin_url: str, owner_password: str, service_password: str, database: str = "bursar") -> None:
    """Make the roles and the database where they are missing, and set the passwords; safe to run again, or at once.

    The administrator is a superuser, or has CREATEROLE and CREATEDB as on a hosted PostgreSQL.
    """
    async with _connected(admin_url) as connection:
        # Held until the connection closes: two preparers at once would trip over each other's catalogue rows.
        await connection.execute("SELECT pg_advisory_lock($1)", _ADVISORY_LOCK)
        await _ensure_role(connection, OWNER, owner_password)
        await _ensure_role(connection, SERVICE, service_password)
        for setting, value in SERVICE_DEFAULTS.items():
            await _run(connection, "ALTER ROLE %I SET %I = %L", SERVICE, setting, value)
        # The owner may end the service's sessions, which DROP DATABASE … WITH (FORCE) needs.
        await _run(connection, "GRANT %I TO %I", SERVICE, OWNER)
        if not await connection.fetchval("SELECT rolsuper FROM pg_roles WHERE rolname = current_user"):
            await _run(connection, "GRANT %I TO CURRENT_USER", OWNER)
        if not await connection.fetchval("SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", database):
            await _create(connection, database, template=None)
        await _restrict(connection, database)
        async with _connected(with_database(admin_url, database)) as inside:
            await inside.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")


async def create_database(url: str, name: str, template: str | None = None) -> None:
    """A database of `bursar_owner`, as the administrator or as that owner; a template must have no sessions."""
    async with _connected(url) as connection:
        await _create(connection, name, template)
        # A template's own privileges are copied with it, those on the database are not.
        await _restrict(connection, name)


async def drop_database(url: str, name: str) -> None:
    """Drop the database if it is there, ending the sessions in it."""
    async with _connected(url) as connection:
        try:
            await _run(connection, "DROP DATABASE IF EXISTS %I WITH (FORCE)", name)
        except asyncpg.InsufficientPrivilegeError:
            # Autovacuum is in it: an owner may not force that out, though a plain DROP makes it go by itself.
            await connection.execute(
                """
                SELECT pg_terminate_backend(pid, 5000)
                FROM pg_stat_activity
                WHERE datname = $1
                  AND usename IS NOT NULL
                """,
                name,
            )
            await _run(connection, "DROP DATABASE IF EXISTS %I", name)


def with_database(url: str, name: str) -> str:
    """The same server and role, another database."""
    parts = urlsplit(url)
    query = urlencode(
        [
            (key, value)
            for key, value in parse_qsl(parts.query, keep_blank_values=True)
            if key not in {"dbname", "database"}
        ],
        safe="/",
        quote_via=quote,
    )
    return f"{parts.scheme}://{parts.netloc}/{quote(name, safe='')}" + (f"?{query}" if query else "")


async def _ensure_role(connection: asyncpg.Connection, role: str, password: str) -> None:
    attributes = _ATTRIBUTES[role]
    found = await connection.fetchrow(
        # What the role may do now, to leave it alone where that is right: only a superuser may name some of these.
        """
        SELECT rolcanlogin AS "LOGIN",
               rolsuper AS "SUPERUSER",
               rolcreatedb AS "CREATEDB",
               rolcreaterole AS "CREATEROLE",
               rolreplication AS "REPLICATION",
               rolbypassrls AS "BYPASSRLS"
        FROM pg_roles
        WHERE rolname = $1
        """,
        role,
    )
    if found is None:
        await _run(connection, f"CREATE ROLE %I {attributes}", role)
    elif set(attributes.split()) != {name if has else f"NO{name}" for name, has in found.items()}:
        await _run(connection, f"ALTER ROLE %I {attributes}", role)
    await _run(connection, "ALTER ROLE %I PASSWORD %L", role, scram_verifier(password))


async def _create(connection: asyncpg.Connection, name: str, template: str | None) -> None:
    if template is None:
        await _run(connection, "CREATE DATABASE %I OWNER %I ENCODING 'UTF8' TEMPLATE template0", name, OWNER)
    else:
        await _run(connection, "CREATE DATABASE %I OWNER %I TEMPLATE %I", name, OWNER, template)


async def _restrict(connection: asyncpg.Connection, name: str) -> None:
    await _run(connection, "REVOKE CONNECT, TEMPORARY ON DATABASE %I FROM PUBLIC", name)
    await _run(connection, "GRANT CONNECT ON DATABASE %I TO %I", name, SERVICE)


async def _run(connection: asyncpg.Connection, statement: str, *names: str) -> None:
    """Run a command that takes no parameters, its names (%I) and values (%L) quoted by PostgreSQL itself."""
    await connection.execute(await connection.fetchval("SELECT format($1, VARIADIC $2::text[])", statement, names))


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(url, timeout=_CONNECT_TIMEOUT_S)
    try:
        yield connection
    finally:
        await connection.close()


def scram_verifier(password: str) -> str:
    """What PostgreSQL stores for a password (RFC 5803). Sent instead of it, so that no server log can hold it."""
    if not password.isascii():
        raise ValueError("a database password must be ASCII")
    salt = os.urandom(16)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, _SCRAM_ITERATIONS)
    stored_key = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server_key = hmac.digest(salted, b"Server Key", "sha256")
    salt64, stored64, server64 = (b64encode(part).decode() for part in (salt, stored_key, server_key))
    return f"SCRAM-SHA-256${_SCRAM_ITERATIONS}:{salt64}${stored64}:{server64}"
