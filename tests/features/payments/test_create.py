"""POST /hosted-payments: what it makes, what it refuses, one checkout per order."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from tests.support.service import Party, new_key
from tests.support.till import OK, Till, order

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def create(till: Till, party: Party, identifier: str = "order-1", **fields: Any) -> httpx.Response:
    return await till.service.send(party, "POST", "/hosted-payments", order(identifier, **fields))


def code(reply: httpx.Response) -> str | None:
    body = reply.json()
    return None if body["success"] else str(body["error"]["code"])


def details(reply: httpx.Response) -> dict[str, Any]:
    found: dict[str, Any] = reply.json()["error"]["details"]
    return found


class TestWhatItMakes:
    async def test_a_pending_payment_with_a_checkout(self, till: Till, merchant: Party) -> None:
        reply = await create(till, merchant, metadata={"basket": "7"}, customer_phone="+44 20 7946 0018")
        assert reply.status_code == 201
        made = reply.json()["data"]
        assert made["status"] == "pending"
        assert (made["amount"], made["currency"], made["identifier"]) == (49.99, "GBP", "order-1")
        assert made["checkout_url"].startswith(f"{till.service.base_url}/pay/")
        assert made["transaction_id"] == made["id"]
        assert made["metadata"] == {"basket": "7"}
        assert "connect_application_fee" not in made
        assert "reused" not in made
        assert await till.events(merchant) == ["transaction.created"]

    async def test_it_is_found_by_id_reference_and_order(self, till: Till, merchant: Party) -> None:
        made = await till.create(merchant)
        for name in (made["id"], made["payment_reference"], made["payment_reference"].lower()):
            reply = await till.service.get(merchant, f"/hosted-payments/{name}")
            assert reply.json()["data"] == made
        listed = await till.service.get(merchant, "/hosted-payments?identifier=order-1")
        assert listed.json()["data"] == [made]
        assert (await till.service.get(merchant, "/hosted-payments?identifier=other")).json()["data"] == []

    async def test_nobody_else_finds_it(self, till: Till, merchant: Party) -> None:
        made = await till.create(merchant)
        other = await till.service.open_account()
        for path in ("/hosted-payments/{id}", "/hosted-payments/{payment_reference}", "/transactions/{id}"):
            assert code(await till.service.get(other, path.format(**made))) == "not_found"
        for name in ("0", "999999999", "PAY-0000000", "nothing", "1" * 30):
            assert code(await till.service.get(merchant, f"/hosted-payments/{name}")) == "not_found"

    async def test_the_legacy_address_makes_the_same(self, till: Till, merchant: Party) -> None:
        reply = await till.service.send(merchant, "POST", "/transactions", order())
        assert reply.status_code == 201
        assert reply.headers["Deprecation"].startswith("@")
        assert reply.headers["Link"] == '</v2/hosted-payments>; rel="successor-version"'
        assert "checkout_url" in reply.json()["data"]

    async def test_the_amount_may_be_a_string(self, till: Till, merchant: Party) -> None:
        reply = await create(till, merchant, amount="1234.50")
        assert reply.json()["data"]["amount"] == 1234.5

    async def test_an_identical_request_is_replayed(self, till: Till, merchant: Party) -> None:
        key = new_key()
        first = await till.service.send(merchant, "POST", "/hosted-payments", order(), key=key)
        again = await till.service.send(merchant, "POST", "/hosted-payments", order(), key=key)
        assert (again.status_code, again.content) == (201, first.content)
        assert again.headers["Idempotency-Replayed"] == "true"
        other = await till.service.send(merchant, "POST", "/hosted-payments", order(amount=1), key=key)
        assert code(other) == "idempotency_conflict"

    async def test_the_sandbox_keeps_nothing(self, till: Till, merchant: Party) -> None:
        reply = await till.service.send(merchant.test_secret_key, "POST", "/sandbox/v2/hosted-payments", order())
        assert reply.status_code == 201
        assert reply.json()["meta"] == {
            "sandbox": True,
            "effects": [{"type": "event", "event": "transaction.created"}],
        }
        made = reply.json()["data"]
        missing = await till.service.get(merchant.test_secret_key, f"/sandbox/v2/hosted-payments/{made['id']}")
        assert code(missing) == "not_found"

    async def test_the_sandbox_has_a_sample_of_every_state(self, till: Till, merchant: Party) -> None:
        seen = {}
        for number in range(1, 12):
            reply = await till.service.get(merchant.test_secret_key, f"/sandbox/v2/hosted-payments/{number}")
            assert reply.status_code == 200, reply.text
            seen[number] = reply.json()["data"]["status"]
        assert set(seen.values()) == {"pending", "succeeded", "failed", "cancelled", "expired", "refunded"}
        paid = await till.service.send(merchant.test_secret_key, "POST", "/sandbox/v2/transactions/2/cancel", {})
        assert code(paid) == "not_cancelable"
        cancelled = await till.service.send(merchant.test_secret_key, "POST", "/sandbox/v2/transactions/1/cancel", {})
        assert cancelled.json()["data"]["transaction"]["status"] == "cancelled"


class TestOneCheckoutPerOrder:
    async def test_the_same_again_is_the_same_checkout(self, till: Till, merchant: Party) -> None:
        made = await till.create(merchant)
        again = await create(till, merchant, details="Described otherwise")
        assert again.status_code == 200
        assert again.json()["data"] == made | {"reused": True}
        assert await till.events(merchant) == ["transaction.created"]

    @pytest.mark.parametrize(
        "other", [{"amount": 50}, {"currency": "EUR"}, {"ipn_url": "http://127.0.0.1:9/elsewhere"}]
    )
    async def test_anything_different_is_a_conflict(self, till: Till, merchant: Party, other: dict[str, Any]) -> None:
        made = await till.create(merchant)
        reply = await create(till, merchant, **other)
        assert (reply.status_code, code(reply)) == (409, "duplicate_resource")
        assert details(reply)["payment_reference"] == made["payment_reference"]

    async def test_a_paid_or_refunded_order_is_a_conflict(self, till: Till, merchant: Party) -> None:
        made = await till.create(merchant)
        await till.pay(made)
        assert details(await create(till, merchant))["status"] == "succeeded"
        assert (await till.refund(merchant, made)).json()["success"] is False  # the fee is missing in the wallet
        await till.pay(await till.create(merchant, "order-2"))
        assert (await till.refund(merchant, made)).status_code == 200
        assert details(await create(till, merchant))["status"] == "refunded"

    async def test_a_cancelled_order_may_be_tried_anew(self, till: Till, merchant: Party) -> None:
        first = await till.create(merchant)
        assert (await till.cancel(merchant, first)).status_code == 200
        second = await till.create(merchant)
        assert second["id"] != first["id"]
        listed = await till.service.get(merchant, "/hosted-payments?identifier=order-1")
        assert [row["status"] for row in listed.json()["data"]] == ["pending", "cancelled"]

    async def test_fifty_at_once_make_one(self, till: Till, merchant: Party) -> None:
        replies = await asyncio.gather(*(create(till, merchant) for _ in range(50)))
        assert sorted(reply.status_code for reply in replies) == [200] * 49 + [201]
        assert len({reply.json()["data"]["id"] for reply in replies}) == 1
        assert await till.events(merchant) == ["transaction.created"]

    async def test_orders_are_the_account_s_own(self, till: Till, merchant: Party) -> None:
        other = await till.service.open_account()
        assert (await till.create(merchant))["id"] != (await till.create(other))["id"]


class TestWhatItRefuses:
    async def test_every_bad_field_at_once(self, till: Till, merchant: Party) -> None:
        reply = await till.service.send(
            merchant, "POST", "/hosted-payments", {"amount": "plenty", "currency": "GBP", "customer_email": "nobody"}
        )
        assert (reply.status_code, code(reply)) == (422, "validation_error")
        missing = {"identifier", "details", "ipn_url", "success_url", "cancel_url", "customer_name"}
        assert set(details(reply)) == missing | {"amount", "customer_email"}
        assert details(reply)["amount"] == ["Input should be a valid number"]

    @pytest.mark.parametrize("amount", [0.29, 0, -5, 1000000, 10.001, "1e3", True, None, "10.00000000000000000001"])
    async def test_amounts_out_of_bounds(self, till: Till, merchant: Party, amount: Any) -> None:
        reply = await create(till, merchant, amount=amount)
        assert (reply.status_code, code(reply), set(details(reply))) == (422, "validation_error", {"amount"})

    @pytest.mark.parametrize(("currency", "least"), [("GBP", 0.30), ("EUR", 0.50), ("USD", 0.50)])
    async def test_the_least_and_the_greatest(self, till: Till, merchant: Party, currency: str, least: float) -> None:
        for identifier, amount in (("least", least), ("greatest", 999999.99)):
            assert (await create(till, merchant, identifier, amount=amount, currency=currency)).status_code == 201
        reply = await create(till, merchant, amount=round(least - 0.01, 2), currency=currency)
        assert details(reply) == {"amount": [f"must be at least {least:.2f} {currency}"]}

    async def test_a_currency_that_is_not_enabled(self, till: Till, merchant: Party) -> None:
        assert code(await create(till, merchant, currency="CHF")) == "currency_not_supported"
        assert code(await create(till, merchant, currency="pounds")) == "validation_error"

    @pytest.mark.parametrize("url", ["javascript:alert(1)", "ftp://shop.example", "https://", "https://a@b.example/"])
    async def test_addresses_that_are_none(self, till: Till, merchant: Party, url: str) -> None:
        for field in ("ipn_url", "success_url", "cancel_url"):
            reply = await create(till, merchant, **{field: url})
            assert (code(reply), list(details(reply))) == ("validation_error", [field])

    @pytest.mark.parametrize("seconds", [1799, 2592001])
    async def test_an_expiry_out_of_bounds(self, till: Till, merchant: Party, seconds: int) -> None:
        assert list(details(await create(till, merchant, expires_in=seconds))) == ["expires_in"]

    async def test_card_data_in_any_field(self, till: Till, merchant: Party) -> None:
        for fields in ({"card_number": OK}, {"details": f"pay with {OK}"}, {"metadata": {"cvc": "123"}}):
            assert code(await create(till, merchant, **fields)) == "validation_error"

    async def test_accounts_that_may_not_take_payments(self, till: Till) -> None:
        pending = await till.service.open_account(status="pending")
        assert code(await create(till, pending)) == "account_inactive"
        paused = await till.service.open_account()
        await till.service.ops("PATCH", f"/accounts/{paused.merchant_id}", {"payments_paused": True})
        assert code(await create(till, paused)) == "payments_paused"
        banned = await till.service.open_account(status="banned")
        assert code(await create(till, banned)) == "account_banned"


class TestTheApplicationFee:
    async def sent(self, till: Till, platform: Party, shop: Party, **fields: Any) -> httpx.Response:
        return await till.service.send(
            platform, "POST", "/hosted-payments", order(**fields), Service_Account=shop.account_id
        )

    async def test_it_is_echoed(self, till: Till, platform: Party, shop: Party) -> None:
        reply = await self.sent(till, platform, shop, connect_application_fee=1.5)
        assert reply.status_code == 201
        made = reply.json()["data"]
        assert (made["account_id"], made["connect_application_fee"]) == (shop.account_id, 1.5)

    @pytest.mark.parametrize("fee", [-1, 50, 1.001, "lots"])
    async def test_one_that_is_invalid(self, till: Till, platform: Party, shop: Party, fee: Any) -> None:
        reply = await self.sent(till, platform, shop, connect_application_fee=fee)
        assert (reply.status_code, code(reply)) == (422, "invalid_connect_application_fee")

    async def test_nobody_but_a_platform_may_set_it(self, till: Till, merchant: Party, shop: Party) -> None:
        for party in (merchant, shop):
            reply = await create(till, party, connect_application_fee=1)
            assert code(reply) == "invalid_connect_application_fee"

    async def test_the_platform_s_default(self, till: Till, platform: Party, shop: Party) -> None:
        await till.service.db.execute(
            "UPDATE account SET application_fee_defaults = $2 WHERE account_id = $1",
            shop.merchant_id,
            {"fixed": "0.10", "percent": "2"},
        )
        till.service.instance.callers.forget_all()
        made = (await self.sent(till, platform, shop)).json()["data"]
        assert made["connect_application_fee"] == 1.1  # 0.10 and 2 % of 49.99
        none = await self.sent(till, platform, shop, identifier="order-2", connect_application_fee=0)
        assert none.json()["data"]["connect_application_fee"] == 0
