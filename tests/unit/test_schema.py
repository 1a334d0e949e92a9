"""The schema holds itself to what it declares: the class of each table, and what the service's role may do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import pytest
import pytest_asyncio
from tests.support import databases

from bursar.db.embedded import Urls
from bursar.db.rows import Rows
from bursar.events import ipn, outbox
from bursar.features.payment_links import queries as payment_links
from bursar.features.payments import queries as payments
from bursar.http import idempotency

pytestmark = pytest.mark.asyncio(loop_scope="module")

CLASSES = ("tenant", "directory", "reference")


@pytest.fixture(scope="module")
def schema_urls(server: databases.TestServer) -> Iterator[Urls]:
    with databases.fresh_database(server.urls) as fresh:
        yield fresh


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def owner(schema_urls: Urls) -> AsyncIterator[asyncpg.Connection[Any]]:
    connection = await asyncpg.connect(schema_urls.owner)
    yield connection
    await connection.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def role(schema_urls: Urls) -> AsyncIterator[asyncpg.Connection[Any]]:
    """A session as the service has it."""
    connection = await asyncpg.connect(schema_urls.service)
    yield connection
    await connection.close()


async def _tables(owner: asyncpg.Connection[Any]) -> dict[str, str]:
    """Each table with the class that its comment declares."""
    rows = await owner.fetch(
        """
        SELECT c.relname AS name, coalesce(obj_description(c.oid, 'pg_class'), '') AS comment
        FROM pg_class c
        WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
        """
    )
    return {row["name"]: row["comment"].partition(":")[0] for row in rows}


async def _unique_keys(owner: asyncpg.Connection[Any], table: str) -> list[tuple[bool, list[str]]]:
    """Unique indexes: whether it is the primary key, and its columns in order."""
    rows = await owner.fetch(
        """
        SELECT i.indisprimary AS is_primary,
               ARRAY(SELECT pg_get_indexdef(i.indexrelid, n, true) FROM generate_series(1, i.indnkeyatts) n) AS columns
        FROM pg_index i
        WHERE i.indrelid = $1::text::regclass AND i.indisunique
        """,
        table,
    )
    return [(row["is_primary"], row["columns"]) for row in rows]


async def _columns(owner: asyncpg.Connection[Any], table: str) -> set[str]:
    rows = await owner.fetch(
        "SELECT column_name FROM information_schema.columns WHERE table_schema = 'public' AND table_name = $1", table
    )
    return {row["column_name"] for row in rows}


async def _attributes(owner: asyncpg.Connection[Any], relation: str) -> dict[str, str]:
    """The columns of a table, or the attributes of a type, in order, with their types."""
    rows = await owner.fetch(
        """
        SELECT attname AS name, format_type(atttypid, atttypmod) AS type
        FROM pg_attribute
        WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped
        ORDER BY attnum
        """,
        relation,
    )
    return {row["name"]: row["type"] for row in rows}


class TestRowsThatComeTogether:
    @pytest.mark.parametrize(
        "rows", [idempotency.NEW, outbox.EVENTS, ipn.IPNS, payments.NEW, payments.ATTEMPTS, payment_links.NEW]
    )
    async def test_their_type_has_the_given_columns_as_the_table_has_them(
        self, owner: asyncpg.Connection[Any], rows: Rows
    ) -> None:
        attributes = await _attributes(owner, f"new_{rows.table}")
        columns = await _attributes(owner, rows.table)
        assert tuple(attributes) == rows.given
        assert attributes == {name: columns[name] for name in rows.given}


class TestTheClassesOfTables:
    async def test_every_table_declares_one(self, owner: asyncpg.Connection[Any]) -> None:
        undeclared = {name: kind for name, kind in (await _tables(owner)).items() if kind not in CLASSES}
        assert undeclared == {}

    async def test_tenant_tables_are_keyed_by_account(self, owner: asyncpg.Connection[Any]) -> None:
        for table, kind in (await _tables(owner)).items():
            if kind != "tenant":
                continue
            keys = await _unique_keys(owner, table)
            primary = [columns for is_primary, columns in keys if is_primary]
            assert primary, f"{table} has no primary key"
            assert primary[0][0] == "account_id", f"{table}'s primary key does not start with account_id"
            for _, columns in keys:
                assert "account_id" in columns, f"{table} has a unique key without account_id: {columns}"

    async def test_directory_tables_lead_from_a_value(self, owner: asyncpg.Connection[Any]) -> None:
        for table, kind in (await _tables(owner)).items():
            if kind == "directory":
                assert await _unique_keys(owner, table) == [(True, ["kind", "value"])], table

    async def test_reference_tables_are_bound_to_no_account(self, owner: asyncpg.Connection[Any]) -> None:
        for table, kind in (await _tables(owner)).items():
            if kind == "reference":
                assert "account_id" not in await _columns(owner, table), table

    async def test_nothing_that_would_keep_a_table_on_one_node(self, owner: asyncpg.Connection[Any]) -> None:
        triggers = await owner.fetch("SELECT tgrelid::regclass::text AS name FROM pg_trigger WHERE NOT tgisinternal")
        assert [row["name"] for row in triggers] == []
        foreign = await owner.fetch("SELECT conrelid::regclass::text AS name FROM pg_constraint WHERE contype = 'f'")
        assert [row["name"] for row in foreign] == []

    async def test_every_moment_has_a_time_zone(self, owner: asyncpg.Connection[Any]) -> None:
        rows = await owner.fetch(
            """
            SELECT table_name || '.' || column_name AS place
            FROM information_schema.columns
            WHERE table_schema = 'public' AND data_type IN ('timestamp without time zone', 'real', 'double precision')
            """
        )
        assert [row["place"] for row in rows] == []


class TestTheServicesRole:
    async def test_is_neither_superuser_nor_owner(self, role: asyncpg.Connection[Any]) -> None:
        row = await role.fetchrow(
            """
            SELECT rolname, rolsuper, rolcreatedb, rolcreaterole, rolreplication, rolbypassrls
            FROM pg_roles
            WHERE rolname = current_user
            """
        )
        assert row is not None
        assert tuple(row) == ("bursar_app", False, False, False, False, False)
        assert await role.fetchval("SELECT count(*) FROM pg_tables WHERE tableowner = current_user") == 0
        assert await role.fetchval("SELECT count(*) FROM pg_auth_members WHERE member = current_user::regrole") == 0

    async def test_has_its_limits(self, role: asyncpg.Connection[Any]) -> None:
        for setting, value in (
            ("lock_timeout", "2s"), ("statement_timeout", "5s"), ("idle_in_transaction_session_timeout", "10s")
        ):  # fmt: skip
            assert await role.fetchval("SELECT current_setting($1)", setting) == value

    @pytest.mark.parametrize(
        "statement",
        [
            "UPDATE operator_audit SET actor = ''",
            "DELETE FROM operator_audit",
            "TRUNCATE operator_audit",
            "DELETE FROM event",
            "UPDATE event SET body = ''",
            "DELETE FROM account",
            "TRUNCATE account",
            "DELETE FROM api_key",
            "DELETE FROM partner",
            "UPDATE directory SET account_id = 1",
            "INSERT INTO schema_migration (number, name, checksum) VALUES (9999, '', '')",
            "UPDATE schema_migration SET checksum = ''",
            "DELETE FROM schema_migration",
            "INSERT INTO instance DEFAULT VALUES",
            "DELETE FROM instance",
            "INSERT INTO journal DEFAULT VALUES",
            "UPDATE journal SET note = ''",
            "DELETE FROM journal",
            "UPDATE wallet SET main = 0",
            "DELETE FROM wallet_entry",
            "CREATE TABLE mine (x integer)",
            "CREATE TEMPORARY TABLE mine (x integer)",
            "CREATE SCHEMA mine",
            "DROP TABLE event",
            "ALTER TABLE account ADD COLUMN x integer",
            "SET ROLE bursar_owner",
            "COPY account TO PROGRAM 'true'",
            "SELECT pg_read_file('/etc/passwd')",
            "SELECT setval('account_number', 1)",
        ],
    )
    async def test_may_not(self, role: asyncpg.Connection[Any], statement: str) -> None:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with role.transaction():
                await role.execute(statement)

    async def test_has_truncate_trigger_or_references_on_nothing(self, owner: asyncpg.Connection[Any]) -> None:
        rows = await owner.fetch(
            """
            SELECT table_name || ' ' || privilege_type AS granted
            FROM information_schema.table_privileges
            WHERE grantee IN ('bursar_app', 'PUBLIC') AND table_schema = 'public'
              AND privilege_type NOT IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
            """
        )
        assert [row["granted"] for row in rows] == []

    async def test_public_has_nothing(self, owner: asyncpg.Connection[Any]) -> None:
        rows = await owner.fetch(
            "SELECT table_name FROM information_schema.table_privileges"
            " WHERE grantee = 'PUBLIC' AND table_schema = 'public'"
        )
        assert rows == []
