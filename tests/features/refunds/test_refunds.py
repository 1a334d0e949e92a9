"""POST /transactions/{id}/refund: how much, from where, and what if the processor will not."""

from __future__ import annotations

import asyncio
from collections import Counter
from decimal import Decimal
from typing import Any

import httpx
import pytest

from tests.support.service import Party, new_key
from tests.support.till import AT_ONCE, Till, order

pytestmark = pytest.mark.asyncio(loop_scope="module")

D = Decimal


def code(reply: httpx.Response) -> str | None:
    body = reply.json()
    return None if body["success"] else str(body["error"]["code"])


async def paid(till: Till, merchant: Party, identifier: str = "order-1", **fields: Any) -> dict[str, Any]:
    payment = await till.create(merchant, identifier, **fields)
    await till.pay(payment)
    return payment


class TestHowMuch:
    async def test_a_part_and_then_the_rest(self, till: Till, merchant: Party) -> None:
        await paid(till, merchant, "other")
        payment = await paid(till, merchant)
        reply = await till.refund(merchant, payment, amount=20, reason="One book was damaged")
        assert reply.status_code == 200
        data = reply.json()["data"]
        assert data["refund"]["reference"] == f"RFD-{data['refund']['id']}"
        assert (data["refund"]["amount"], data["refund"]["status"]) == (20, "succeeded")
        assert data["refund"]["reason"] == "One book was damaged"
        assert data["transaction"]["status"] == "succeeded"
        assert (data["transaction"]["refunded_amount"], data["transaction"]["refundable_amount"]) == (20, 29.99)
        rest = (await till.refund(merchant, payment)).json()["data"]
        assert rest["refund"]["amount"] == 29.99
        assert rest["transaction"]["status"] == "refunded"
        assert (rest["transaction"]["refunded_amount"], rest["transaction"]["refundable_amount"]) == (49.99, 0)
        assert (await till.events(merchant)).count("transaction.refunded") == 2
        assert await till.available(merchant) == D("49.04") - D("0.95")  # the fee is kept
        await till.books_agree()

    @pytest.mark.parametrize("amount", [0, -1])
    async def test_nothing_or_less(self, till: Till, merchant: Party, amount: int) -> None:
        payment = await paid(till, merchant)
        reply = await till.refund(merchant, payment, amount=amount)
        assert (reply.status_code, code(reply)) == (422, "invalid_refund_amount")

    @pytest.mark.parametrize("amount", [1.001, "some", True])
    async def test_no_amount_at_all(self, till: Till, merchant: Party, amount: Any) -> None:
        payment = await paid(till, merchant)
        assert code(await till.refund(merchant, payment, amount=amount)) == "validation_error"

    async def test_more_than_is_left(self, till: Till, merchant: Party) -> None:
        payment = await paid(till, merchant)
        assert code(await till.refund(merchant, payment, amount=50)) == "refund_exceeds_transaction"
        await till.refund(merchant, payment, amount=20)
        reply = await till.refund(merchant, payment, amount=30)
        assert code(reply) == "refund_exceeds_transaction"
        assert reply.json()["error"]["details"] == {"refundable_amount": 29.99}

    async def test_more_than_the_wallet_has(self, till: Till, merchant: Party) -> None:
        payment = await paid(till, merchant)
        reply = await till.refund(merchant, payment)
        assert (reply.status_code, code(reply)) == (422, "insufficient_balance")
        assert reply.json()["error"]["details"] == {"available": 49.04, "currency": "GBP"}
        shown = await till.transaction(merchant, payment)
        assert (shown["refunded_amount"], shown["refundable_amount"]) == (0, 49.99)
        assert await till.service.db.fetchval("SELECT count(*) FROM refund WHERE payment_id = $1", payment["id"]) == 0

    async def test_what_was_not_paid(self, till: Till, merchant: Party) -> None:
        payment = await till.create(merchant)
        assert code(await till.refund(merchant, payment)) == "not_refundable"
        await till.cancel(merchant, payment)
        assert code(await till.refund(merchant, payment)) == "not_refundable"

    async def test_what_was_refunded(self, till: Till, merchant: Party) -> None:
        await paid(till, merchant, "other")
        payment = await paid(till, merchant)
        await till.refund(merchant, payment)
        assert code(await till.refund(merchant, payment, amount=1)) == "not_refundable"

    async def test_somebody_else_s(self, till: Till, merchant: Party) -> None:
        payment = await paid(till, merchant)
        assert code(await till.refund(await till.service.open_account(), payment)) == "not_found"

    async def test_the_key_is_kept_for_a_month(self, till: Till, merchant: Party) -> None:
        payment = await paid(till, merchant)
        key, path = new_key(), f"/transactions/{payment['id']}/refund"
        first = await till.service.send(merchant, "POST", path, {"amount": 10}, key=key)
        await till.advance(days=29)
        again = await till.service.send(merchant, "POST", path, {"amount": 10}, key=key)
        assert again.content == first.content
        assert (await till.transaction(merchant, payment))["refunded_amount"] == 10


class TestWhereItComesFrom:
    async def test_its_own_unsettled_part_first(self, till: Till, merchant: Party) -> None:
        settled = await till.create(merchant, "settled")
        await till.pay(settled, AT_ONCE)
        payment = await paid(till, merchant)
        await till.refund(merchant, payment, amount=40)
        assert await till.wallet(merchant) == {"main": D("49.04"), "pending": D("9.04"), "reserve": 0}
        await till.refund(merchant, payment)
        assert await till.wallet(merchant) == {"main": D("48.09"), "pending": 0, "reserve": 0}


class TestTheApplicationFee:
    async def charged(self, till: Till, platform: Party, shop: Party, fee: float) -> dict[str, Any]:
        reply = await till.service.send(
            platform, "POST", "/hosted-payments", order(connect_application_fee=fee, amount=100),
            Service_Account=shop.account_id,
        )  # fmt: skip
        payment: dict[str, Any] = reply.json()["data"]
        await till.pay(payment)
        await till.pay(await till.create(shop, "other"))
        return payment

    async def test_it_goes_back_in_proportion(self, till: Till, platform: Party, shop: Party) -> None:
        payment = await self.charged(till, platform, shop, 9.99)
        backs = []
        for amount in (33.33, 33.33, 33.34):
            reply = await till.refund(shop, payment, amount=amount)
            backs.append(D(str(reply.json()["data"]["refund"]["application_fee_reversed"])))
        assert sum(backs) == D("9.99")
        assert await till.available(platform) == 0
        await till.books_agree()

    async def test_it_may_be_kept(self, till: Till, platform: Party, shop: Party) -> None:
        payment = await self.charged(till, platform, shop, 10)
        reply = await till.refund(shop, payment, amount=50, reverse_application_fee=False)
        assert reply.json()["data"]["refund"]["application_fee_reversed"] == 0
        assert await till.available(platform) == D("10.00")
        reply = await till.refund(shop, payment, amount=50)
        assert reply.json()["data"]["refund"]["application_fee_reversed"] == 5
        assert await till.available(platform) == D("5.00")

    async def test_a_refund_that_failed_leaves_it_where_it_was(self, till: Till, platform: Party, shop: Party) -> None:
        payment = await self.charged(till, platform, shop, 10)
        before = await till.wallet(shop), await till.wallet(platform)
        await till.fault("refund", "error")
        assert code(await till.refund(shop, payment, amount=40)) == "refund_failed"
        assert (await till.wallet(shop), await till.wallet(platform)) == before
        reply = await till.refund(shop, payment, amount=40)
        assert reply.json()["data"]["refund"]["application_fee_reversed"] == 4


class TestTheProcessor:
    async def test_it_refuses(self, till: Till, merchant: Party) -> None:
        payment = await paid(till, merchant)
        before, wallet = await till.transaction(merchant, payment), await till.wallet(merchant)
        await till.fault("refund", "error")
        key, path = new_key(), f"/transactions/{payment['id']}/refund"
        reply = await till.service.send(merchant, "POST", path, {"amount": 10}, key=key)
        assert (reply.status_code, code(reply)) == (422, "refund_failed")
        assert await till.transaction(merchant, payment) == before
        assert await till.wallet(merchant) == wallet
        assert "transaction.refunded" not in await till.events(merchant)
        again = await till.service.send(merchant, "POST", path, {"amount": 10}, key=key)  # the key is not used up
        assert again.status_code == 200
        await till.books_agree()

    async def test_its_answer_is_lost(self, till: Till, merchant: Party) -> None:
        """The money stays aside, the reply says pending, and the worker learns that it was done: once."""
        payment = await paid(till, merchant)
        await till.fault("refund", "timeout")
        reply = await till.refund(merchant, payment, amount=10)
        assert reply.status_code == 200
        assert reply.json()["data"]["refund"]["status"] == "pending"
        assert reply.json()["data"]["transaction"]["refunded_amount"] == 0
        assert reply.json()["data"]["transaction"]["refundable_amount"] == 39.99
        assert await till.available(merchant) == D("39.04")
        assert code(await till.refund(merchant, payment, amount=40)) == "refund_exceeds_transaction"
        await till.advance(seconds=10)
        assert (await till.transaction(merchant, payment))["refunded_amount"] == 10
        assert (await till.events(merchant)).count("transaction.refunded") == 1
        await till.books_agree()


class TestManyAtOnce:
    async def test_never_more_than_was_paid(self, till: Till, merchant: Party) -> None:
        for number in range(4):
            await paid(till, merchant, f"other-{number}")
        payment = await paid(till, merchant)
        replies = await asyncio.gather(*(till.refund(merchant, payment, amount=10) for _ in range(16)))
        codes = Counter(code(reply) for reply in replies)
        assert codes == {None: 4, "refund_exceeds_transaction": 12}
        assert (await till.transaction(merchant, payment))["refunded_amount"] == 40
        await till.books_agree()

    async def test_never_more_than_the_wallet_has(self, till: Till, merchant: Party) -> None:
        payments = [await paid(till, merchant, f"order-{number}", amount=10) for number in range(4)]
        replies = await asyncio.gather(*(till.refund(merchant, payment) for payment in payments))
        codes = Counter(code(reply) for reply in replies)
        assert codes == {None: 3, "insufficient_balance": 1}  # 4 × 9.65 does not cover 4 × 10
        assert await till.available(merchant) == D("8.60")
        await till.books_agree()
