"""What a bookkeeper sees: statements, one movement explained, the service's own accounts; and the commands for it."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any

import pytest

from bursar.cli import main
from bursar.db.embedded import Urls
from bursar.db.pool import Database
from bursar.ledger import seals, statement
from tests.ledger.books import PLATFORM, SHOP, as_owner, pay, payout, posted, reserve, settle, top_up

Run = Callable[..., Awaitable[tuple[int, str, str]]]


@pytest.fixture
async def books(db: Database) -> Database:
    await posted(db, top_up(1, 5_000), pay(1, 10_000, processing_fee=100, application_fee=50, platform_id=PLATFORM))
    await posted(db, reserve(1, 700), settle(), payout(1, 1_000))
    return db


@pytest.fixture
def run(urls: Urls, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    for name in [name for name in os.environ if name.startswith("BURSAR_")]:  # the tests' own, which is no setting
        monkeypatch.delenv(name)
    monkeypatch.setenv("BURSAR_DATABASE_URL", urls.service)

    async def call(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = await asyncio.to_thread(main, arguments)
        said = capsys.readouterr()
        return status, said.out, said.err

    return call


class TestStatement:
    async def test_goes_from_opening_to_closing(self, books: Database) -> None:
        [found] = await statement.statements(books, SHOP)
        assert (found.opening, found.closing) == (Decimal("0.00"), Decimal("131.50"))
        assert (found.settled, found.pending, found.reserve) == (Decimal("131.50"), Decimal("0.00"), Decimal("7.00"))
        running = found.opening
        for row in found.rows:
            running += (row.money_in or 0) - (row.money_out or 0)
            assert row.balance == running
        assert [row.kind for row in found.rows] == [
            "adjustment", "payment", "application_fee", "processing_fee", "reserve", "settlement", "payout",
        ]  # fmt: skip

    async def test_may_be_of_the_newest_rows_alone(self, books: Database) -> None:
        [found] = await statement.statements(books, SHOP, largest=2)
        assert [row.kind for row in found.rows] == ["settlement", "payout"]
        assert found.opening == Decimal("141.50")
        assert await statement.statements(books, SHOP, currency="EUR") == []


class TestExplain:
    async def test_shows_the_legs_and_what_they_did(self, books: Database) -> None:
        found = await statement.explain(books, 2)
        assert found is not None
        assert [(leg.account, leg.debit, leg.credit) for leg in found.legs] == [
            ("processor_clearing", Decimal("100.00"), None),
            ("wallet 1001: pending", None, Decimal("98.50")),
            ("wallet 1002: pending", None, Decimal("0.50")),
            ("fees", None, Decimal("1.00")),
        ]
        assert [effect.account_id for effect in found.effects] == [SHOP, SHOP, PLATFORM, SHOP]
        assert await statement.explain(books, 999) is None


class TestServiceBalances:
    async def test_are_the_same_sealed_or_not(self, books: Database) -> None:
        before = await statement.service_balances(books)
        assert before == {
            ("GBP", "adjustments"): -5_000,
            ("GBP", "bank_transit"): 1_000,
            ("GBP", "fees"): 100,
            ("GBP", "processor_clearing"): -10_000,
        }
        await seals.seal(books)
        assert await statement.service_balances(books) == before
        await posted(books, top_up(2, 1))
        assert (await statement.service_balances(books))["GBP", "adjustments"] == -5_001


class TestCommands:
    async def test_ledger_show_prints_a_statement(self, books: Database, run: Run) -> None:
        status, out, _ = await run("ledger", "show", str(SHOP))
        assert status == 0
        assert "Opening balance 0.00" in out
        assert "Closing balance 131.50: settled 131.50, pending 0.00; held in reserve besides 7.00." in out
        assert "processing_fee" in out
        status, out, _ = await run("ledger", "show", str(SHOP), "--json")
        assert (status, len(json.loads(out)[0]["rows"])) == (0, 7)
        assert (await run("ledger", "show", "7"))[:2] == (0, "Account 7 has no wallet.\n")
        status, _, err = await run("ledger", "show", "nobody")
        assert (status, err) == (1, "bursar: nobody is neither a merchant number nor an account id\n")

    async def test_ledger_explain_prints_a_movement(self, books: Database, run: Run) -> None:
        status, out, _ = await run("ledger", "explain", "2")
        assert status == 0
        for text in ("payment 1", "transaction:1", "processor_clearing", "wallet 1002: pending", "98.50"):
            assert text in out
        status, out, _ = await run("ledger", "explain", "2", "--json")
        assert json.loads(out)["kind"] == "payment"
        assert (await run("ledger", "explain", "99"))[0] == 1

    async def test_audit_verify_says_how_it_is(self, books: Database, run: Run, urls: Urls) -> None:
        await seals.seal(books)
        status, out, _ = await run("audit", "verify")
        assert status == 0
        assert "The ledger is sound." in out
        report: dict[str, Any] = json.loads((await run("audit", "verify", "--json"))[1])
        assert report["ok"] is True
        assert (await run("audit", "verify", "--anchor", report["head"]))[0] == 0
        assert (await run("audit", "verify", "--anchor", "00" * 32))[0] == 1
        await as_owner(urls, "UPDATE wallet SET main = main + 1 WHERE account_id = 1001")
        status, out, _ = await run("audit", "verify")
        assert status == 1
        assert "wallet of account 1001 in GBP" in out
        assert "NOT sound" in out
