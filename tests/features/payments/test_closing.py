"""Closing a checkout that was not paid, and what happens when the customer pays at the same moment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from decimal import Decimal

import httpx
import pytest
import pytest_asyncio

from bursar.db.embedded import Urls
from bursar.features.payments.service import learn
from tests.support.service import Party
from tests.support.till import DECLINED, OK, Till, running_till

pytestmark = pytest.mark.asyncio(loop_scope="module")


def code(reply: httpx.Response) -> str | None:
    body = reply.json()
    return None if body["success"] else str(body["error"]["code"])


@pytest_asyncio.fixture(loop_scope="module")
async def still(urls: Urls) -> AsyncIterator[Till]:
    """An instance whose worker runs only when it is told to."""
    async with running_till(urls, worker=False) as running:
        yield running


class TestCancel:
    async def test_a_pending_payment(self, till: Till, merchant: Party) -> None:
        payment = await till.create(merchant)
        reply = await till.cancel(merchant, payment)
        assert reply.status_code == 200
        shown = reply.json()["data"]["transaction"]
        assert shown["status"] == "cancelled"
        assert shown["cancelled_at"] is not None
        assert await till.events(merchant) == ["transaction.created", "transaction.cancelled"]
        assert await till.ipns(merchant) == []

    async def test_one_that_was_begun_at_the_processor(self, till: Till, merchant: Party) -> None:
        payment = await till.create(merchant)
        reference = await till.started(payment)
        assert (await till.cancel(merchant, payment)).json()["data"]["transaction"]["status"] == "cancelled"
        assert (await till.simulator.confirm(reference)).status == "cancelled"
        assert (await till.simulator.pay(reference, OK, key="late")).captured_minor == 0

    async def test_a_paid_one(self, till: Till, merchant: Party) -> None:
        payment = await till.create(merchant)
        await till.pay(payment)
        assert code(await till.cancel(merchant, payment)) == "not_cancelable"
        assert await till.status(merchant, payment) == "succeeded"

    async def test_a_cancelled_one(self, till: Till, merchant: Party) -> None:
        payment = await till.create(merchant)
        await till.cancel(merchant, payment)
        assert code(await till.cancel(merchant, payment)) == "not_cancelable"

    async def test_somebody_else_s(self, till: Till, merchant: Party) -> None:
        payment = await till.create(merchant)
        other = await till.service.open_account()
        assert code(await till.cancel(other, payment)) == "not_found"

    async def test_the_processor_fails(self, till: Till, merchant: Party) -> None:
        payment = await till.create(merchant)
        await till.started(payment)
        await till.fault("cancel", "error")
        reply = await till.cancel(merchant, payment)
        assert (reply.status_code, code(reply)) == (422, "cancel_failed")
        assert await till.status(merchant, payment) == "pending"
        assert await till.pay(payment) == {"status": "succeeded", "error": None}  # it can still be paid

    async def test_the_processor_s_answer_is_lost(self, till: Till, merchant: Party) -> None:
        payment = await till.create(merchant)
        await till.started(payment)
        await till.fault("cancel", "timeout")
        assert (await till.cancel(merchant, payment)).json()["data"]["transaction"]["status"] == "cancelled"

    async def test_the_bank_has_not_decided(self, till: Till, merchant: Party) -> None:
        """The reply says pending; once the bank has decided, so is the payment."""
        payment = await till.create(merchant)
        await till.fault("payment", "late_callback")
        await till.pay(payment)
        reply = await till.cancel(merchant, payment)
        assert (reply.status_code, reply.json()["data"]["transaction"]["status"]) == (200, "pending")
        await till.advance(minutes=5)
        assert await till.status(merchant, payment) == "succeeded"
        await till.books_agree()

    async def test_its_reference_is_not_known_yet(self, till: Till, merchant: Party) -> None:
        payment = await till.create(merchant)
        await till.service.db.execute("UPDATE payment SET started_at = created_at WHERE id = $1", payment["id"])
        assert code(await till.cancel(merchant, payment)) == "provider_reference_missing"

    async def test_a_checkout_that_is_being_closed_cannot_be_begun(self, till: Till, merchant: Party) -> None:
        payment = await till.create(merchant)
        await till.service.db.execute("UPDATE payment SET closing = 'cancel' WHERE id = $1", payment["id"])
        reply = await till.service.client.post(payment["checkout_url"] + "/start")
        assert reply.headers["location"].startswith("/pay/")
        assert (await till.ops_pay(payment["payment_reference"])).status_code == 409


class TestCancelAndPayAtOnce:
    async def test_the_customer_was_faster(self, still: Till) -> None:
        """Captured at the processor, and we have not heard of it: the payment has succeeded."""
        merchant = await still.service.open_account()
        payment = await still.create(merchant)
        await still.simulator.pay(await still.started(payment), OK, key="one")
        assert await still.status(merchant, payment) == "pending"
        assert code(await still.cancel(merchant, payment)) == "not_cancelable"
        assert await still.status(merchant, payment) == "succeeded"
        assert await still.events(merchant) == ["transaction.created", "transaction.succeeded"]
        await still.service.worker.run_due()  # the callback changes nothing
        assert await still.available(merchant) == Decimal("49.04")
        await still.books_agree()

    async def test_either_way_there_is_one_outcome(self, till: Till, merchant: Party) -> None:
        seen = set()
        for number in range(12):
            payment = await till.create(merchant, f"order-{number}")
            cancelled, paid = await asyncio.gather(
                till.cancel(merchant, payment), till.ops_pay(payment["payment_reference"])
            )
            await till.run_due()
            status = await till.status(merchant, payment)
            seen.add(status)
            if status == "succeeded":
                assert code(cancelled) in ("not_cancelable", "provider_reference_missing", "cancel_failed")
                assert paid.json()["data"]["status"] == "succeeded"
            else:
                assert status == "cancelled"
                assert cancelled.status_code == 200
                assert paid.status_code == 409 or paid.json()["data"]["status"] != "succeeded"
        paid_count = await till.service.db.fetchval(
            "SELECT count(*) FROM payment WHERE account_id = $1 AND status = 'succeeded'", merchant.merchant_id
        )
        assert await till.available(merchant) == Decimal("49.04") * paid_count
        assert seen <= {"succeeded", "cancelled"}
        await till.books_agree()


class TestExpiry:
    async def test_an_unpaid_checkout_expires(self, till: Till, merchant: Party) -> None:
        payment = await till.create(merchant, expires_in=1800)
        await till.advance(minutes=31)
        shown = await till.transaction(merchant, payment)
        assert (shown["status"], shown["remark"]) == ("cancelled", "checkout_expired")
        hosted = (await till.service.get(merchant, f"/hosted-payments/{payment['id']}")).json()["data"]
        assert hosted["status"] == "expired"
        assert await till.events(merchant) == ["transaction.created", "hosted_payment.expired"]
        assert await till.ipns(merchant) == []
        assert (await till.create(merchant))["id"] != payment["id"]

    async def test_one_that_was_begun_is_closed_at_the_processor(self, till: Till, merchant: Party) -> None:
        payment = await till.create(merchant, expires_in=1800)
        reference = await till.started(payment)
        await till.advance(minutes=31)
        assert await till.status(merchant, payment) == "cancelled"
        assert (await till.simulator.confirm(reference)).status == "cancelled"
        assert (await till.simulator.pay(reference, OK, key="late")).captured_minor == 0

    async def test_one_that_was_paid_at_the_last_moment(self, still: Till) -> None:
        merchant = await still.service.open_account()
        payment = await still.create(merchant, expires_in=1800)
        await still.simulator.pay(await still.started(payment), OK, key="one")
        await still.forget_callbacks()
        await still.service.worker.advance(1801)
        assert await still.status(merchant, payment) == "succeeded"
        assert await still.available(merchant) == Decimal("49.04")
        await still.books_agree()

    async def test_the_bank_decides_after_the_expiry(self, still: Till) -> None:
        merchant = await still.service.open_account()
        payment = await still.create(merchant, expires_in=1800)
        await still.service.worker.advance(1795)
        await still.fault("payment", "late_callback")
        await still.pay(payment)
        await still.service.worker.advance(10)
        assert await still.status(merchant, payment) == "pending"
        await still.service.worker.advance(120)
        assert await still.status(merchant, payment) == "succeeded"
        await still.books_agree()


class TestLateCapture:
    async def test_it_goes_back_and_touches_nothing(self, till: Till, merchant: Party) -> None:
        """The processor said cancelled, and captured all the same."""
        payment = await till.create(merchant)
        reference = await till.started(payment)
        await till.fault("cancel", "out_of_order")
        assert (await till.cancel(merchant, payment)).status_code == 200
        assert (await till.simulator.pay(reference, OK, key="late")).captured_minor == 4999
        await till.run_due()
        assert await till.status(merchant, payment) == "cancelled"
        assert await till.available(merchant) == 0
        assert (await till.simulator.confirm(reference)).refunded_minor == 4999
        case = await till.service.db.fetchrow(
            "SELECT kind, status FROM review_case WHERE account_id = $1", merchant.merchant_id
        )
        assert case is not None
        assert (case["kind"], case["status"]) == ("late_capture", "refunded")
        kinds = await till.service.db.fetch(
            "SELECT kind FROM journal WHERE account_id = $1 ORDER BY id", merchant.merchant_id
        )
        assert [row["kind"] for row in kinds] == ["late_capture", "late_capture_refund"]
        assert "transaction.succeeded" not in await till.events(merchant)
        await till.books_agree()


class TestNothingIsForgotten:
    @pytest.mark.parametrize("newest_first", [True, False])
    async def test_two_words_about_one_payment_at_once(self, still: Till, newest_first: bool) -> None:
        """The one that knows more counts, in whichever order they came."""
        merchant = await still.service.open_account()
        payment = await still.create(merchant)
        reference = await still.started(payment)
        said = [await still.simulator.pay(reference, card, key=card) for card in (DECLINED, OK)]
        await learn(still.service.db, still.service.settings, said[::-1] if newest_first else said)
        assert await still.status(merchant, payment) == "succeeded"
        assert await still.ipns(merchant) == ["transaction.failed", "transaction.succeeded"]
        await learn(still.service.db, still.service.settings, said[:1])  # the older one again
        assert await still.status(merchant, payment) == "succeeded"
        await still.books_agree()

    async def test_a_lost_callback_is_noticed(self, still: Till) -> None:
        merchant = await still.service.open_account()
        payment = await still.create(merchant)
        reference = await still.started(payment)
        await still.simulator.pay(reference, DECLINED, key="one")
        await still.simulator.pay(reference, OK, key="two")
        await still.forget_callbacks()
        await still.service.worker.advance(299)
        assert await still.status(merchant, payment) == "pending"
        await still.service.worker.advance(2)
        assert await still.status(merchant, payment) == "succeeded"
        assert await still.ipns(merchant) == ["transaction.failed", "transaction.succeeded"]

    async def test_a_start_whose_answer_was_never_written_down(self, still: Till) -> None:
        """Killed after the processor was called: the same call again finds the checkout, and what was paid there."""
        merchant = await still.service.open_account()
        payment = await still.create(merchant)
        reference = await still.started(payment)
        await still.service.db.execute("UPDATE payment SET processor_reference = NULL WHERE id = $1", payment["id"])
        await still.simulator.pay(reference, OK, key="one")
        await still.forget_callbacks()
        await still.service.worker.advance(301)
        shown = await still.transaction(merchant, payment)
        assert (shown["status"], shown["np_main_trx"]) == ("succeeded", reference)

    async def test_a_start_that_never_reached_the_processor(self, still: Till) -> None:
        merchant = await still.service.open_account()
        payment = await still.create(merchant, expires_in=1800)
        await still.service.db.execute(
            "UPDATE payment SET started_at = created_at, due_at = created_at WHERE id = $1", payment["id"]
        )
        await still.service.worker.run_due()
        assert (await still.transaction(merchant, payment))["np_main_trx"] is not None
        await still.service.worker.advance(1801)
        assert await still.status(merchant, payment) == "cancelled"

    async def test_the_processor_cannot_be_reached(self, still: Till) -> None:
        """Nothing is closed without its word."""
        merchant = await still.service.open_account()
        payment = await still.create(merchant, expires_in=1800)
        await still.started(payment)
        await still.fault("cancel", "error", 3)
        await still.service.worker.advance(1801)
        assert await still.status(merchant, payment) == "pending"
        await still.service.worker.advance(3600)
        assert await still.status(merchant, payment) == "cancelled"
