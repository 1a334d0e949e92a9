"""Numbered SQL files, applied once each, in order, each in its own transaction, by one migrator at a time.

The lock is an advisory one: it dies with the connection, so a killed migrator never has to be cleaned up after.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from importlib.resources import files

import asyncpg

LOCK = 0x62757273  # "burs"
_NAME = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")
_LEDGER_OF_MIGRATIONS = """
CREATE TABLE IF NOT EXISTS schema_migration (
    number      integer PRIMARY KEY,
    name        text NOT NULL,
    checksum    text NOT NULL,
    applied_at  timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE schema_migration IS 'reference: which migrations this database has had';
GRANT SELECT ON schema_migration TO bursar_app;
"""


class MigrationError(Exception):
    """The schema cannot be brought to, or is not at, the version of this program; one line says why."""


@dataclass(frozen=True, slots=True)
class Migration:
    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


def available() -> list[Migration]:
    found = [
        Migration(int(match[1]), match[2], item.read_text())
        for item in files("bursar.db").joinpath("migrations").iterdir()
        if (match := _NAME.fullmatch(item.name))
    ]
    found.sort(key=lambda migration: migration.number)
    if [migration.number for migration in found] != list(range(1, len(found) + 1)):
        raise MigrationError("migration files are not numbered 0001, 0002, … without gaps")
    return found


async def migrate(url: str) -> list[Migration]:
    """Applies what is missing and returns it. Safe to call from many processes at once."""
    connection = await asyncpg.connect(url, timeout=10)
    try:
        await connection.execute("SELECT pg_advisory_lock($1)", LOCK, timeout=120)
        await connection.execute("SET client_min_messages = warning")
        await connection.execute(_LEDGER_OF_MIGRATIONS)
        todo = _missing(await _applied(connection))
        for migration in todo:
            await _apply(connection, migration)
        return todo
    finally:
        await connection.close()


async def check(url: str) -> None:
    """Raises unless the database has exactly this program's migrations."""
    connection = await asyncpg.connect(url, timeout=10)
    try:
        try:
            applied = await _applied(connection)
        except asyncpg.UndefinedTableError:
            applied = {}
        missing = _missing(applied)
    finally:
        await connection.close()
    if missing:
        raise MigrationError(f"the database lacks migration {missing[0].number:04d}; run `bursar migrate`")


async def _applied(connection: asyncpg.Connection[asyncpg.Record]) -> dict[int, str]:
    rows = await connection.fetch("SELECT number, checksum FROM schema_migration ORDER BY number")
    return {row["number"]: row["checksum"] for row in rows}


def _missing(applied: dict[int, str]) -> list[Migration]:
    known = available()
    newest = known[-1].number if known else 0
    if applied and max(applied) > newest:
        raise MigrationError(
            f"the database has schema {max(applied):04d}, newer than this program's {newest:04d}; use a newer bursar"
        )
    for migration in known:
        if applied.get(migration.number, migration.checksum) != migration.checksum:
            raise MigrationError(f"migration {migration.number:04d} was changed after it was applied to this database")
    return [migration for migration in known if migration.number not in applied]


async def _apply(connection: asyncpg.Connection[asyncpg.Record], migration: Migration) -> None:
    try:
        async with connection.transaction():
            await connection.execute("SET LOCAL lock_timeout = '5s'")
            await connection.execute(migration.sql)
            await connection.execute(
                "INSERT INTO schema_migration (number, name, checksum) VALUES ($1, $2, $3)",
                migration.number,
                migration.name,
                migration.checksum,
            )
    except asyncpg.PostgresError as error:
        raise MigrationError(f"migration {migration.number:04d}_{migration.name} failed: {error}") from error
