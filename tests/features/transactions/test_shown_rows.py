"""Rows of lists are remembered as they were shown: whatever changes, in whatever process, a list shows it at once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from bursar.db.pool import Database, Record
from bursar.features.payments import service as payments
from bursar.features.payments.schemas import Transaction
from bursar.http import shown
from bursar.http.caller import load_account
from bursar.http.context import Ctx
from bursar.http.schemas import PageQuery
from bursar.http.shown import Shown
from tests.support.service import Party, Service, running_service
from tests.support.till import DECLINED, OK, PROOF, Till

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def other(till: Till) -> AsyncIterator[Service]:
    """Another process of the same service."""
    async with running_service(till.service.urls, like=till.service, worker=False) as running:
        yield running


async def check(party: Party, *services: Service) -> list[dict[str, Any]]:
    """Both lists of payments, in each process, as single reads show their rows; twice, so that all is remembered."""
    found: list[dict[str, Any]] = []
    for service in (*services, *services):
        for path, name in (("/hosted-payments", None), ("/transactions", "transaction")):
            found = (await service.get(party, path)).json()["data"]
            for row in found:
                alone = (await service.get(party, f"{path}/{row['id']}")).json()["data"]
                assert row == (alone[name] if name else alone)
    return found


class TestWhatIsChanged:
    @pytest.mark.parametrize(
        "change",
        [
            "payment_reference = 'another'", "identifier = 'another'", "amount_minor = 77", "currency = 'JPY'",
            "details = 'another'", "customer_name = 'another'", "customer_email = NULL", "customer_phone = '123'",
            "metadata = '{\"a\": 1}'", "status = 'failed', due_at = NULL", "remark = 'another'", "reserve_minor = 5",
            "status = 'cancelled', cancelled_at = now(), due_at = NULL, remark = 'checkout_expired'",
            "status = 'succeeded', paid_at = now(), due_at = NULL, fee_minor = 12",
            "status = 'succeeded', paid_at = now(), due_at = NULL, refunded_minor = 5, refunding_minor = 7",
            "started_at = now(), processor_reference = 'another'", "proof_status = 'requested'",
            "expires_at = now()", "created_at = created_at - interval '1 day'", "fee_payer = 'platform'",
            "platform_id = 1, application_fee_minor = 3",
        ],
    )  # fmt: skip
    async def test_in_the_database_itself(self, till: Till, merchant: Party, change: str) -> None:
        """Even if it did not say when: no column is left out of what a version covers."""
        payment = await till.create(merchant)
        await till.create(merchant, "order-2")
        before = await check(merchant, till.service)
        owner = await till.owner()
        try:
            await owner.execute(f"UPDATE payment SET {change} WHERE id = $1", payment["id"])
            after = await check(merchant, till.service)
        finally:
            await owner.close()
        assert [row["id"] for row in after] == [row["id"] for row in before]

    async def test_by_what_happens_to_a_payment(self, till: Till, merchant: Party, other: Service) -> None:
        both = (till.service, other)
        first, second, third = [await till.create(merchant, f"order-{number}") for number in (1, 2, 3)]
        await check(merchant, *both)
        assert (await till.pay(first, DECLINED))["status"] == "failed"
        await check(merchant, *both)
        await till.pay(first, OK)
        assert [row["status"] for row in await check(merchant, *both)] == ["pending", "pending", "succeeded"]
        assert (await till.refund(merchant, first, amount=20)).status_code == 200
        assert [row["refunded_amount"] for row in await check(merchant, *both)] == [0, 0, 20]
        await till.cancel(merchant, second)
        await till.pay(third, PROOF)
        assert [row["status"] for row in await check(merchant, *both)] == ["succeeded", "cancelled", "succeeded"]

    async def test_in_another_process(self, till: Till, merchant: Party, other: Service) -> None:
        payment = await till.create(merchant)
        await check(merchant, other)
        reply = await till.service.send(merchant, "POST", f"/transactions/{payment['id']}/cancel", {})
        assert reply.status_code == 200, reply.text
        [row] = (await other.get(merchant, "/transactions")).json()["data"]
        assert row["status"] == "cancelled"

    async def test_of_a_link(self, till: Till, merchant: Party, other: Service) -> None:
        body = {"amount": 5, "currency": "GBP", "details": "Tea"}
        made = (await till.service.send(merchant, "POST", "/payment-links", body)).json()["data"]["payment_link"]
        for service in (till.service, other):
            assert (await service.get(merchant, "/payment-links")).json()["data"] == [made]
        changed = await till.service.send(merchant, "PATCH", f"/payment-links/{made['id']}", {"status": "cancelled"})
        link = changed.json()["data"]["payment_link"]
        assert link["status"] == "cancelled"
        for service in (till.service, other):
            assert (await service.get(merchant, "/payment-links")).json()["data"] == [link]


class Interrupted:
    """A database in which something happens between two statements."""

    def __init__(self, db: Database, change: str) -> None:
        self.db, self.change, self.asked = db, change, 0

    async def fetch(self, query: str, *arguments: Any) -> list[Record]:
        self.asked += 1
        if self.asked == 2:
            await self.db.execute(self.change)
        return await self.db.fetch(query, *arguments)

    async def fetchrow(self, query: str, *arguments: Any) -> Record | None:
        return await self.db.fetchrow(query, *arguments)

    async def fetchval(self, query: str, *arguments: Any) -> Any:
        return await self.db.fetchval(query, *arguments)

    async def execute(self, query: str, *arguments: Any) -> str:
        return await self.db.execute(query, *arguments)


async def show(ctx: Ctx, rows: Any) -> list[Transaction]:
    return [payments.transaction(row, ctx.account.public_id) for row in rows]


async def test_a_row_that_changes_between_two_looks(till: Till, merchant: Party) -> None:
    """It is no longer what was asked for, so the page is asked for again."""
    payment = await till.create(merchant)
    await till.create(merchant, "order-2")
    service = till.service
    account = await load_account(service.db, merchant.merchant_id)
    assert account is not None
    change = f"UPDATE payment SET remark = 'meanwhile', status = 'failed', due_at = NULL WHERE id = {payment['id']}"
    db = Interrupted(service.db, change)
    ctx = Ctx(account, None, db, None, "", service.instance.vault, service.settings, shown=Shown())
    listing, scope, filters = payments.TRANSACTIONS, (merchant.merchant_id,), {"status": "pending"}
    query = PageQuery.model_validate({"per_page": 2})
    page = await shown.page(ctx, listing, scope, query, show, filters=filters)
    assert [row.identifier for row in page.items] == ["order-2"]
    assert (db.asked, page.total) == (3, 1)


class TestHowMuchIsRemembered:
    async def test_what_was_shown(self, till: Till, merchant: Party) -> None:
        await till.create(merchant)
        await check(merchant, till.service)
        remembered = till.service.instance.shown._recent
        assert [key for (key, _) in remembered if key[1] == merchant.merchant_id]

    async def test_one_version_of_each_row(self) -> None:
        rows = Shown()
        key = ((show, 1, "acct_1"), 1)
        rows.put(key, b"1", b"one")
        assert (rows.get(key, b"1"), rows.get(key, b"2")) == (b"one", None)
        rows.put(key, b"2", b"two")
        assert (rows.get(key, b"1"), rows.get(key, b"2")) == (None, b"two")

    async def test_never_more_than_there_is_room_for(self) -> None:
        rows = Shown(largest=100_000)
        often = ((show, 1, "acct_1"), 0)
        rows.put(often, b"1", b"often")
        for number in range(1, 1_000):
            rows.put(((show, 1, "acct_1"), number), b"1", b"x" * 600)
            assert rows.get(often, b"1") == b"often"
            assert len(rows._recent) + len(rows._older) <= 100
        assert rows.get(((show, 1, "acct_1"), 1), b"1") is None
        assert rows.get(((show, 1, "acct_1"), 999), b"1") is not None
