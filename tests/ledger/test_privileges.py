"""The one door: what the service's role may and may not do, and what not even a direct insert gets past."""

from __future__ import annotations

import asyncpg
import pytest

from bursar.db.embedded import Urls
from bursar.db.pool import Database
from bursar.ledger.kinds import KINDS, REVERSALS, Class
from tests.ledger.books import SHOP, as_owner, dispute, pay, payout, posted, reserve, top_up

# Each with a column of its own.
TABLES = {
    "journal": "note",
    "wallet": "main",
    "wallet_entry": "note",
    "unsettled": "amount",
    "drawn": "amount",
    "seal": "head",
}
BELOW_ZERO = "balance_before = -99999, balance_after = -99999 + main + pending"


class TestTheServicesRole:
    async def test_reads_the_ledger_and_cannot_write_it(self, db: Database) -> None:
        for table, column in TABLES.items():
            await db.fetch(f"SELECT * FROM {table}")
            for statement in (
                f"INSERT INTO {table} SELECT * FROM {table}",
                f"UPDATE {table} SET {column} = {column}",
                f"DELETE FROM {table}",
                f"TRUNCATE {table}",
            ):
                with pytest.raises(asyncpg.InsufficientPrivilegeError) as refused:
                    await db.execute(statement)
                assert refused.value.sqlstate == "42501"

    async def test_can_execute_posting_and_sealing_alone(self, db: Database) -> None:
        rows = await db.fetch(
            """
            SELECT proname
            FROM pg_proc
            WHERE pronamespace = 'public'::regnamespace AND proname LIKE 'ledger_%'
              AND provolatile = 'v' AND has_function_privilege(current_user, oid, 'execute')
            """
        )
        assert {row["proname"] for row in rows} == {"ledger_post", "ledger_seal"}

    async def test_the_two_doors_fix_their_search_path(self, db: Database) -> None:
        rows = await db.fetch("SELECT proname, proconfig, proowner::regrole FROM pg_proc WHERE prosecdef")
        doors = {row["proname"]: row for row in rows if row["proname"].startswith("ledger_")}
        assert set(doors) == {"ledger_post", "ledger_seal"}
        for door in doors.values():
            assert any(setting.startswith("search_path=") for setting in door["proconfig"])
            assert door["proowner"] == "bursar_owner"


class TestTheDatabase:
    """Even its owner cannot write what breaks a rule, short of dropping the rule."""

    async def test_has_no_triggers_and_no_foreign_keys_here(self, db: Database) -> None:
        for catalogue, relation in (("pg_trigger", "tgrelid"), ("pg_constraint", "conrelid")):
            extra = "" if catalogue == "pg_trigger" else "AND contype = 'f'"
            sql = f"SELECT count(*) FROM {catalogue} WHERE {relation} = ANY ($1::text[]::regclass[]) {extra}"
            assert await db.fetchval(sql, list(TABLES)) == 0

    async def test_refuses_a_journal_that_does_not_balance(self, db: Database, urls: Urls) -> None:
        await posted(db, pay())
        most = 2**63 - 1
        for amounts in ([100, -99], [100], [], [100, -100, 0], [most, most, 2]):
            count = len(amounts)
            forged = f"""
                INSERT INTO journal
                SELECT account_id, id + 1000, kind, 'forged', currency, array_fill(1::bigint, ARRAY[{count}]),
                       array_fill('main'::text, ARRAY[{count}]), ARRAY{amounts}::bigint[], related, note, event_at,
                       created_at, txid
                FROM journal
                """
            with pytest.raises(asyncpg.CheckViolationError, match="journal_balances"):
                await as_owner(urls, forged)

    async def test_refuses_a_request_below_zero_and_takes_a_fact(self, db: Database, urls: Urls) -> None:
        await posted(db, pay())
        await as_owner(urls, f"UPDATE wallet_entry SET {BELOW_ZERO}")
        with pytest.raises(asyncpg.CheckViolationError, match="wallet_entry_floor"):
            await as_owner(urls, f"UPDATE wallet_entry SET fact = false, {BELOW_ZERO}")

    async def test_writes_the_class_of_each_entry_from_its_kind(self, db: Database) -> None:
        await posted(db, top_up(1, 1_000), pay(), reserve(1, 100), payout(1, 10), dispute(1, 10))
        rows = await db.fetch("SELECT kind, fact FROM wallet_entry")
        assert {row["kind"]: row["fact"] for row in rows} == {
            "adjustment": True, "payment": True, "reserve": False, "payout": False, "dispute": True,
            "dispute_fee": True,
        }  # fmt: skip

    async def test_keeps_pending_reserve_and_parts_at_zero_or_above(self, db: Database, urls: Urls) -> None:
        await posted(db, pay(), reserve(1, 100))
        for statement in (
            "UPDATE wallet SET pending = -1",
            "UPDATE wallet SET reserve = -1",
            "UPDATE unsettled SET amount = -1",
            "UPDATE drawn SET amount = -1",
        ):
            with pytest.raises(asyncpg.CheckViolationError):
                await as_owner(urls, statement)

    async def test_keeps_natural_keys_and_numbers_unique(self, db: Database, urls: Urls) -> None:
        await posted(db, pay(1), pay(2))
        with pytest.raises(asyncpg.UniqueViolationError, match="journal_natural_key"):
            await as_owner(urls, "UPDATE journal SET ref = '1'")
        with pytest.raises(asyncpg.UniqueViolationError, match="wallet_entry_chain"):
            await as_owner(urls, f"UPDATE wallet_entry SET seq = 1 WHERE account_id = {SHOP}")


class TestKinds:
    """The table of kinds is in Python for people and in the database for certain; they are one table."""

    async def test_have_the_same_class_and_category_on_both_sides(self, db: Database) -> None:
        for name, kind in KINDS.items():
            row = await db.fetchrow("SELECT ledger_class($1), ledger_category($1), ledger_reversal($1)", name)
            assert row is not None
            assert tuple(row) == (kind.class_.value, kind.category, REVERSALS.get(name))
        assert await db.fetchval("SELECT ledger_class('gift')") is None

    async def test_that_ask_are_those_that_posting_judges(self, db: Database) -> None:
        posting = await db.fetchval("SELECT prosrc FROM pg_proc WHERE proname = 'ledger_post'")
        judged = posting.partition("requests CONSTANT")[2].partition(";")[0]
        for name, kind in KINDS.items():
            assert (f"'{name}'" in judged) == (kind.class_ is Class.REQUEST)
