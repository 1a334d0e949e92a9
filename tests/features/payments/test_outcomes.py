"""From a card to the books: what each outcome does to the payment, the wallets, the events and the notifications."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from bursar.features.payments import callbacks
from bursar.processors import inbox
from tests.support.service import Party
from tests.support.till import (
    AT_ONCE,
    DECLINED,
    NO_MONEY,
    OK,
    PROOF,
    THREE_D,
    THREE_D_DECLINED,
    Till,
    order,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

D = Decimal


async def hosted(till: Till, merchant: Party, payment: dict[str, Any]) -> dict[str, Any]:
    data: dict[str, Any] = (await till.service.get(merchant, f"/hosted-payments/{payment['id']}")).json()["data"]
    return data


class TestPaid:
    async def test_gross_fee_and_net(self, till: Till, merchant: Party) -> None:
        payment = await till.create(merchant)
        assert await till.pay(payment) == {"status": "succeeded", "error": None}
        shown = await till.transaction(merchant, payment)
        assert shown["status"] == "succeeded"
        assert (shown["amount"], shown["fee_amount"], shown["net_amount"]) == (49.99, 0.95, 49.04)
        assert shown["np_main_trx"].startswith("sim_")
        assert shown["refundable_amount"] == 49.99
        assert await till.wallet(merchant) == {"main": 0, "pending": D("49.04"), "reserve": 0}
        assert await till.events(merchant) == ["transaction.created", "transaction.succeeded"]
        assert await till.ipns(merchant) == ["transaction.succeeded"]
        await till.books_agree()

    async def test_the_notification_carries_the_event_s_id(self, till: Till, merchant: Party) -> None:
        await till.pay(await till.create(merchant))
        row = await till.service.db.fetchrow(
            """
            SELECT ipn.fields, ipn.amount, ipn.key_account_id, event.event_id = ipn.event_id AS same
            FROM ipn
            JOIN event ON event.account_id = ipn.account_id AND event.type = 'transaction.succeeded'
            WHERE ipn.account_id = $1
            """,
            merchant.merchant_id,
        )
        assert row is not None
        assert row["same"]
        assert (row["amount"], row["key_account_id"]) == ("49.99", merchant.merchant_id)
        fields = dict(map(tuple, row["fields"]))
        assert fields["status"] == "success"
        assert (fields["identifier"], fields["data[payment_type]"]) == ("order-1", "hosted")
        assert fields["data[account_holder]"] == "Test Customer"

    async def test_funds_settle_on_the_second_business_day(self, till: Till, merchant: Party) -> None:
        await till.pay(await till.create(merchant))
        await till.advance(days=7)
        assert await till.wallet(merchant) == {"main": D("49.04"), "pending": 0, "reserve": 0}

    async def test_funds_available_at_once(self, till: Till, merchant: Party) -> None:
        await till.pay(await till.create(merchant), AT_ONCE)
        assert await till.wallet(merchant) == {"main": D("49.04"), "pending": 0, "reserve": 0}

    async def test_a_price_of_its_own(self, till: Till, merchant: Party) -> None:
        await till.service.ops(
            "PATCH", f"/accounts/{merchant.merchant_id}",
            {"merchant_pricing": {"api_fixed_fee": 0.5, "api_percent_fee": 1}},
        )  # fmt: skip
        payment = await till.create(merchant, amount=100)
        await till.pay(payment)
        assert (await till.transaction(merchant, payment))["fee_amount"] == 1.5

    async def test_each_currency_has_its_wallet(self, till: Till, merchant: Party) -> None:
        for currency in ("GBP", "EUR", "USD"):
            await till.pay(await till.create(merchant, f"order-{currency}", currency=currency, amount=10))
            assert await till.available(merchant, currency) == D("9.65")


class TestConnected:
    async def test_the_platform_gets_its_fee(self, till: Till, platform: Party, shop: Party) -> None:
        reply = await till.service.send(
            platform, "POST", "/hosted-payments", order(connect_application_fee=5), Service_Account=shop.account_id
        )
        payment = reply.json()["data"]
        await till.pay(payment)
        assert await till.available(shop) == D("44.04")  # 49.99, less 0.95 and 5.00
        assert await till.available(platform) == D("5.00")
        shown = await till.service.get(platform, f"/transactions/{payment['id']}", Service_Account=shop.account_id)
        assert shown.json()["data"]["transaction"]["net_amount"] == 44.04
        row = await till.service.db.fetchrow("SELECT key_account_id FROM ipn WHERE account_id = $1", shop.merchant_id)
        assert row is not None
        assert row["key_account_id"] == platform.merchant_id  # whose key created it

    async def test_a_platform_that_pays_the_processing(self, till: Till, platform: Party) -> None:
        shop = await till.service.open_account(platform=platform.account_id, fee_payer="platform")
        payment = await till.create(shop)
        await till.pay(payment)
        assert await till.available(shop) == D("49.99")
        assert await till.available(platform) == D("-0.95")
        assert (await till.transaction(shop, payment))["fee_amount"] == 0


class TestDeclined:
    @pytest.mark.parametrize(
        ("card", "code", "decline"),
        [
            (DECLINED, "card_declined", "generic_decline"),
            (NO_MONEY, "card_declined", "insufficient_funds"),
            ("4000000000000069", "expired_card", None),
            ("4000000000000127", "incorrect_cvc", None),
            ("4000000000000119", "processing_error", None),
        ],
    )
    async def test_the_order_stays_open(
        self, till: Till, merchant: Party, card: str, code: str, decline: str | None
    ) -> None:
        payment = await till.create(merchant)
        answer = await till.pay(payment, card)
        assert (answer["status"], answer["error"]["code"]) == ("failed", code)
        shown = await hosted(till, merchant, payment)
        assert shown["status"] == "pending"
        [attempt] = shown["attempts"]
        assert (attempt["n"], attempt["status"], attempt["error"]["code"]) == (1, "failed", code)
        assert attempt["error"].get("decline_code") == decline
        assert await till.events(merchant) == ["transaction.created", "transaction.failed"]
        assert await till.ipns(merchant) == ["transaction.failed"]
        assert await till.available(merchant) == 0

    async def test_what_is_told_of_it(self, till: Till, merchant: Party) -> None:
        payment = await till.create(merchant)
        await till.pay(payment, NO_MONEY)
        listed = (await till.service.get(merchant, "/events?type=transaction.failed")).json()["data"]
        told = listed[0]["data"]["transaction"]
        assert (told["identifier"], told["status"], told["amount"]) == ("order-1", "failed", 49.99)
        assert told["attempt"]["error"]["decline_code"] == "insufficient_funds"
        fields = dict(map(tuple, await till.service.db.fetchval(
            "SELECT fields FROM ipn WHERE account_id = $1", merchant.merchant_id)))  # fmt: skip
        assert fields["status"] == "failed"
        assert fields["error[code]"] == fields["data[error][code]"] == "card_declined"

    async def test_a_success_after_failures_counts(self, till: Till, merchant: Party) -> None:
        payment = await till.create(merchant)
        for card in (DECLINED, NO_MONEY, OK):
            await till.pay(payment, card)
        shown = await hosted(till, merchant, payment)
        assert shown["status"] == "succeeded"
        assert [attempt["status"] for attempt in shown["attempts"]] == ["failed", "failed", "succeeded"]
        told = ["transaction.created", "transaction.failed", "transaction.failed", "transaction.succeeded"]
        assert await till.events(merchant) == told
        assert await till.ipns(merchant) == told[1:]
        await till.books_agree()

    async def test_ten_attempts_close_it(self, till: Till, merchant: Party) -> None:
        payment = await till.create(merchant)
        for _ in range(10):
            await till.pay(payment, DECLINED)
        await till.run_due()
        shown = await till.transaction(merchant, payment)
        assert (shown["status"], shown["remark"]) == ("failed", "attempts_exhausted")
        reply = await till.ops_pay(payment["payment_reference"])
        assert (reply.status_code, reply.json()["error"]["code"]) == (409, "checkout_closed")
        assert (await till.create(merchant))["id"] != payment["id"]  # the order may be tried anew


class TestThreeDSecure:
    async def test_passed(self, till: Till, merchant: Party) -> None:
        payment = await till.create(merchant)
        assert await till.pay(payment, THREE_D) == {"status": "requires_action", "error": None}
        assert await till.status(merchant, payment) == "pending"
        assert await till.pay(payment, THREE_D, authenticate=True) == {"status": "succeeded", "error": None}
        assert await till.status(merchant, payment) == "succeeded"

    async def test_not_passed(self, till: Till, merchant: Party) -> None:
        payment = await till.create(merchant)
        await till.pay(payment, THREE_D)
        answer = await till.pay(payment, THREE_D, authenticate=False)
        assert (answer["status"], answer["error"]["code"]) == ("failed", "authentication_failed")

    async def test_passed_and_then_declined(self, till: Till, merchant: Party) -> None:
        payment = await till.create(merchant)
        await till.pay(payment, THREE_D_DECLINED)
        answer = await till.pay(payment, THREE_D_DECLINED, authenticate=True)
        assert (answer["status"], answer["error"]["code"]) == ("failed", "card_declined")


class TestTheProcessorMisbehaves:
    async def test_its_answer_is_lost(self, till: Till, merchant: Party) -> None:
        payment = await till.create(merchant)
        await till.fault("payment", "timeout")
        assert await till.pay(payment) == {"status": "succeeded", "error": None}
        await till.run_due()
        await self.paid_once(till, merchant, payment)

    async def test_it_tells_twice(self, till: Till, merchant: Party) -> None:
        payment = await till.create(merchant)
        await till.fault("payment", "duplicate_callback")
        await till.pay(payment)
        await till.run_due()
        await self.paid_once(till, merchant, payment)

    async def test_it_tells_late(self, till: Till, merchant: Party) -> None:
        payment = await till.create(merchant)
        await till.fault("payment", "late_callback")
        assert await till.pay(payment) == {"status": "processing", "error": None}
        assert await till.status(merchant, payment) == "pending"
        await till.advance(seconds=60)
        await self.paid_once(till, merchant, payment)

    async def test_it_tells_of_many_at_once(self, till: Till, merchant: Party, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(inbox, "BATCH", 2)  # so that there are more than all lanes take at once
        payments = [await till.create(merchant, f"order-{n}") for n in range(2 * callbacks.LANES + 3)]
        await till.fault("payment", "late_callback", len(payments))
        for payment in payments:
            assert await till.pay(payment) == {"status": "processing", "error": None}
        await till.advance(seconds=60)
        assert {await till.status(merchant, payment) for payment in payments} == {"succeeded"}
        assert (await till.events(merchant)).count("transaction.succeeded") == len(payments)
        assert await till.ipns(merchant) == ["transaction.succeeded"] * len(payments)
        assert await till.available(merchant) == D("49.04") * len(payments)
        await till.books_agree()

    async def test_it_tells_of_an_older_failure_after_the_success(self, till: Till, merchant: Party) -> None:
        payment = await till.create(merchant)
        await till.fault("payment", "out_of_order")
        await till.pay(payment, DECLINED)
        await till.pay(payment, OK)
        await till.advance(seconds=120)
        assert await till.status(merchant, payment) == "succeeded"
        assert (await till.events(merchant)).count("transaction.succeeded") == 1
        assert await till.available(merchant) == D("49.04")

    async def test_only_the_processor_tells(self, till: Till, merchant: Party) -> None:
        """The customer pays and closes the browser."""
        payment = await till.create(merchant)
        await till.simulator.pay(await till.started(payment), DECLINED, key="one")
        await till.simulator.pay(await till.started(payment), OK, key="two")
        await till.run_due()
        shown = await hosted(till, merchant, payment)
        assert shown["status"] == "succeeded"
        assert [attempt["status"] for attempt in shown["attempts"]] == ["failed", "succeeded"]
        await till.books_agree()

    async def paid_once(self, till: Till, merchant: Party, payment: dict[str, Any]) -> None:
        assert await till.status(merchant, payment) == "succeeded"
        assert await till.events(merchant) == ["transaction.created", "transaction.succeeded"]
        assert await till.ipns(merchant) == ["transaction.succeeded"]
        assert await till.available(merchant) == D("49.04")
        await till.books_agree()


class TestQuarantine:
    @pytest.mark.parametrize(
        ("column", "value", "reason"),
        [
            ("amount_minor", 1, "amount"),
            ("currency", "EUR", "currency"),
            ("merchant_reference", "PAY-X", "unknown_payment"),
        ],
    )
    async def test_what_contradicts_us_is_not_believed(
        self, till: Till, merchant: Party, column: str, value: Any, reason: str
    ) -> None:
        payment = await till.create(merchant)
        reference = await till.started(payment)
        owner = await till.owner()
        try:
            await owner.execute(f"UPDATE simulator.payment SET {column} = $2 WHERE reference = $1", reference, value)
        finally:
            await owner.close()
        await till.simulator.pay(reference, OK, key="one")
        await till.run_due()
        assert await till.status(merchant, payment) == "pending"
        assert await till.available(merchant) == 0
        row = await till.service.db.fetchrow(
            "SELECT state, reason FROM processor_inbox WHERE account_id = $1", merchant.merchant_id
        )
        assert row is not None
        assert (row["state"], row["reason"]) == ("quarantined", reason)


class TestRisk:
    async def test_the_processor_wants_proof(self, till: Till, merchant: Party) -> None:
        payment = await till.create(merchant)
        await till.pay(payment, PROOF)
        shown = await till.transaction(merchant, payment)
        assert (shown["status"], shown["proof_status"]) == ("succeeded", "requested")
        assert (shown["is_reserve"], shown["reserve_amount"]) == (True, 49.04)
        assert await till.wallet(merchant) == {"main": 0, "pending": 0, "reserve": D("49.04")}
        told = ["transaction.succeeded", "transaction.proof_requested", "balance.reserve_held"]
        assert (await till.events(merchant))[1:] == told


class TestPlayingTheCustomer:
    async def test_only_test_cards(self, till: Till, merchant: Party) -> None:
        payment = await till.create(merchant)
        for card in ("4111111111111111", "", "card"):
            reply = await till.ops_pay(payment["payment_reference"], card)
            assert (reply.status_code, reply.json()["error"]["code"]) == (422, "validation_error")
            assert "4111111111111111" not in reply.text

    async def test_only_checkouts(self, till: Till) -> None:
        for reference in ("PAY-0031N1Z", "nothing", "LNK-0000000"):
            assert (await till.ops_pay(reference)).status_code == 404

    async def test_the_number_goes_nowhere(self, till: Till, merchant: Party) -> None:
        payment = await till.create(merchant)
        await till.pay(payment, OK)
        for table in ("operation", "operator_audit", "idempotency_key", "simulator.attempt", "event", "ipn"):
            assert not await till.service.db.fetchval(
                f"SELECT EXISTS (SELECT FROM {table} AS t WHERE t::text LIKE '%{OK}%')"
            )

    async def test_only_faults_there_are(self, till: Till) -> None:
        for body in ({"operation": "weather", "kind": "error"}, {"operation": "refund", "kind": "rain"}, {"count": 0}):
            reply = await till.service.ops("POST", "/simulator/faults", body)
            assert (reply.status_code, reply.json()["error"]["code"]) == (422, "validation_error")

    async def test_a_paid_checkout(self, till: Till, merchant: Party) -> None:
        payment = await till.create(merchant)
        await till.pay(payment)
        assert (await till.ops_pay(payment["payment_reference"])).status_code == 409
