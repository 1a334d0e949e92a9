"""What any card processor must do for us. A processor is tested by a class that inherits these and brings a `rig`.

The rig speaks for the outside: `start` and `pay` as a customer would, `fault` orders misbehaviour, `advance` moves
the clock, `hear` has every due callback told and says what was heard.
"""

from __future__ import annotations

import asyncio
import random

import pytest

from bursar.processors.protocol import (
    AlreadyCaptured,
    Cancelled,
    InFlight,
    PayoutAccepted,
    PayoutRefused,
    Refunded,
    RefundRefused,
    Rejected,
    Unknown,
)
from tests.processors.running import ACCOUNT_ID, Rig, a_key

DECLINED = "4000000000000002"
CHALLENGED = "4000002760003184"
CHALLENGED_THEN_DECLINED = "4000008400001629"

# card, error code, decline code
FAILING = (
    (DECLINED, "card_declined", "generic_decline"),
    ("4000000000009995", "card_declined", "insufficient_funds"),
    ("4000000000000069", "expired_card", None),
    ("4000000000000127", "incorrect_cvc", None),
    ("4000000000000119", "processing_error", None),
)


class Starting:
    async def test_it_waits_for_the_customer(self, rig: Rig) -> None:
        started = await rig.start()
        state = await rig.processor.confirm(started.reference)
        assert (state.status, state.captured_minor, state.attempts) == ("requires_payment", 0, ())
        assert (state.amount_minor, state.currency, state.account_id) == (10_000, "GBP", ACCOUNT_ID)
        assert state.page_url == started.page_url

    async def test_the_same_key_is_the_same_payment(self, rig: Rig) -> None:
        first = await rig.start()
        answers = await asyncio.gather(*(rig.processor.start(rig.sent[0]) for _ in range(8)))
        assert set(answers) == {first}

    async def test_a_key_is_not_for_two_payments(self, rig: Rig) -> None:
        key = a_key()
        await rig.start(key=key)
        with pytest.raises(Rejected, match="key_reused"):
            await rig.start(amount_minor=20_000, key=key)

    async def test_an_unknown_reference_is_not_found(self, rig: Rig) -> None:
        for reference in ("sim_nothing", "../v1/faults", ""):
            with pytest.raises(Rejected, match="not_found"):
                await rig.processor.confirm(reference)


class Paying:
    async def test_success_captures_once(self, rig: Rig) -> None:
        started = await rig.start()
        states = await asyncio.gather(*(rig.pay(started.reference) for _ in range(8)))
        assert {state.status for state in states} == {"succeeded"}
        state = await rig.processor.confirm(started.reference)
        assert (state.captured_minor, len(state.attempts)) == (10_000, 1)
        assert await rig.moved() == {"capture": 10_000}
        assert await rig.hear() == ["payment.succeeded"]

    @pytest.mark.parametrize(("card", "code", "decline_code"), FAILING)
    async def test_failures_use_our_words(self, rig: Rig, card: str, code: str, decline_code: str | None) -> None:
        started = await rig.start()
        state = await rig.pay(started.reference, card)
        assert state.status == "requires_payment"
        assert state.error is not None
        assert (state.error.code, state.error.decline_code) == (code, decline_code)
        assert await rig.hear() == ["payment.failed"]
        assert rig.heard[0].error == state.error
        assert rig.heard[0].part_reference == state.attempts[0].reference

    async def test_a_decline_leaves_it_open_for_another_card(self, rig: Rig) -> None:
        started = await rig.start()
        await rig.pay(started.reference, DECLINED)
        state = await rig.pay(started.reference)
        assert [attempt.status for attempt in state.attempts] == ["failed", "succeeded"]
        assert await rig.hear() == ["payment.failed", "payment.succeeded"]

    async def test_the_same_presentation_is_one_attempt(self, rig: Rig) -> None:
        started, key = await rig.start(), a_key()
        states = [await rig.pay(started.reference, DECLINED, key=key) for _ in range(3)]
        assert [len(state.attempts) for state in states] == [1, 1, 1]

    @pytest.mark.parametrize(
        ("card", "authenticate", "status", "code"),
        [
            (CHALLENGED, True, "succeeded", None),
            (CHALLENGED, False, "requires_payment", "authentication_failed"),
            (CHALLENGED_THEN_DECLINED, True, "requires_payment", "card_declined"),
        ],
    )
    async def test_a_challenge_is_answered(
        self, rig: Rig, card: str, authenticate: bool, status: str, code: str | None
    ) -> None:
        started = await rig.start()
        assert (await rig.pay(started.reference, card)).status == "requires_action"
        key = a_key()
        for _ in range(2):  # the answer, too, can be repeated
            state = await rig.pay(started.reference, card, authenticate=authenticate, key=key)
            assert (state.status, len(state.attempts)) == (status, 1)
            assert (state.error.code if state.error else None) == code

    async def test_another_card_gives_up_the_challenge(self, rig: Rig) -> None:
        started = await rig.start()
        await rig.pay(started.reference, CHALLENGED)
        state = await rig.pay(started.reference)
        assert [attempt.status for attempt in state.attempts] == ["failed", "succeeded"]

    async def test_success_is_final(self, rig: Rig) -> None:
        reference = await rig.paid()
        state = await rig.pay(reference, DECLINED)
        assert (state.status, len(state.attempts)) == ("succeeded", 1)

    async def test_hints_come_with_the_success(self, rig: Rig) -> None:
        at_once, disputed, doubted = [
            await rig.pay((await rig.start()).reference, card)
            for card in ("4000000000000077", "4000000000000259", "4100000000000019")
        ]
        assert {at_once.status, disputed.status, doubted.status} == {"succeeded"}
        assert [state.funds_available_at_once for state in (at_once, disputed, doubted)] == [True, False, False]
        assert [state.concern for state in (at_once, disputed, doubted)] == [None, "disputed", "proof_requested"]
        assert {"payment.disputed", "payment.proof_requested"} <= set(await rig.hear())

    async def test_other_numbers_are_refused(self, rig: Rig) -> None:
        started = await rig.start()
        with pytest.raises(Rejected, match="unknown_card"):
            await rig.pay(started.reference, "5555555555554444")
        assert (await rig.processor.confirm(started.reference)).attempts == ()


class Cancelling:
    async def test_nothing_can_be_captured_afterwards(self, rig: Rig) -> None:
        started = await rig.start()
        assert await rig.processor.cancel(started.reference) == Cancelled()
        assert await rig.processor.cancel(started.reference) == Cancelled()
        assert (await rig.pay(started.reference)).status == "cancelled"
        assert await rig.moved() == {}
        assert await rig.hear() == ["payment.cancelled"]

    async def test_success_wins_over_a_later_cancel(self, rig: Rig) -> None:
        assert await rig.processor.cancel(await rig.paid()) == AlreadyCaptured()

    async def test_a_challenge_can_be_cancelled(self, rig: Rig) -> None:
        started = await rig.start()
        await rig.pay(started.reference, CHALLENGED)
        assert await rig.processor.cancel(started.reference) == Cancelled()
        state = await rig.pay(started.reference, CHALLENGED, authenticate=True)
        assert (state.status, state.captured_minor) == ("cancelled", 0)

    async def test_customer_and_merchant_race(self, rig: Rig) -> None:
        """Whoever wins, both are told the same."""
        captured = 0
        for number in range(24):
            reference = (await rig.start()).reference
            pay, cancel = rig.pay(reference), rig.processor.cancel(reference)
            if number % 2:
                state, outcome = await asyncio.gather(pay, cancel)
            else:
                outcome, state = await asyncio.gather(cancel, pay)
            assert (state.status, outcome) in (("succeeded", AlreadyCaptured()), ("cancelled", Cancelled()))
            assert (await rig.processor.confirm(reference)).status == state.status
            captured += state.captured_minor
        assert (await rig.moved()).get("capture", 0) == captured


class Refunding:
    async def test_in_parts_up_to_what_was_captured(self, rig: Rig) -> None:
        reference = await rig.paid()
        assert isinstance(await rig.processor.refund(rig.refund_of(reference, 4_000)), Refunded)
        assert await rig.processor.refund(rig.refund_of(reference, 6_001)) == RefundRefused("exceeds_captured")
        assert isinstance(await rig.processor.refund(rig.refund_of(reference, 6_000)), Refunded)
        assert await rig.processor.refund(rig.refund_of(reference, 1)) == RefundRefused("exceeds_captured")
        assert (await rig.processor.confirm(reference)).refunded_minor == 10_000
        assert await rig.hear() == ["payment.succeeded", "refund.succeeded", "refund.succeeded"]

    async def test_the_same_key_is_the_same_refund(self, rig: Rig) -> None:
        refund = rig.refund_of(await rig.paid(), 2_500)
        answers = await asyncio.gather(*(rig.processor.refund(refund) for _ in range(8)))
        assert len(set(answers)) == 1
        assert (await rig.moved())["refund"] == -2_500
        with pytest.raises(Rejected, match="key_reused"):
            await rig.processor.refund(rig.refund_of(refund.payment_reference, 2_501, key=refund.key))

    async def test_a_refusal_stays_one(self, rig: Rig) -> None:
        """A key that was refused never acts, even when it could by now."""
        started = await rig.start()
        refund = rig.refund_of(started.reference, 100)
        assert await rig.processor.refund(refund) == RefundRefused("not_captured")
        await rig.pay(started.reference)
        assert await rig.processor.refund(refund) == RefundRefused("not_captured")

    async def test_the_currency_is_the_payments(self, rig: Rig) -> None:
        refund = rig.refund_of(await rig.paid(), 100, currency="EUR")
        assert await rig.processor.refund(refund) == RefundRefused("currency_mismatch")

    async def test_parallel_refunds_never_exceed_the_capture(self, rig: Rig) -> None:
        reference = await rig.paid()
        answers = await asyncio.gather(*(rig.processor.refund(rig.refund_of(reference, 3_000)) for _ in range(10)))
        assert sum(isinstance(answer, Refunded) for answer in answers) == 3
        assert (await rig.moved())["refund"] == -9_000


class PayingOut:
    async def test_it_arrives_in_time(self, rig: Rig) -> None:
        payout = await rig.payout_to()
        accepted = await rig.processor.payout(payout)
        assert isinstance(accepted, PayoutAccepted)
        assert await rig.processor.payout(payout) == accepted
        assert await rig.hear() == ["payout.in_transit"]
        await rig.advance(2 * 86_400)
        assert await rig.hear() == ["payout.in_transit", "payout.paid"]
        assert (await rig.processor.payout_state(accepted.reference)).status == "paid"
        assert await rig.moved() == {"payout": -5_000}

    @pytest.mark.parametrize(("number", "code"), [("00000001", "account_closed"), ("00000002", "no_account")])
    async def test_some_accounts_cannot_be_paid(self, rig: Rig, number: str, code: str) -> None:
        accepted = await rig.processor.payout(await rig.payout_to(number))
        assert isinstance(accepted, PayoutAccepted)
        await rig.advance(2 * 86_400)
        assert await rig.hear() == ["payout.in_transit", "payout.failed"]
        state = await rig.processor.payout_state(accepted.reference)
        assert (state.status, state.failure_code, rig.heard[-1].failure_code) == ("failed", code, code)
        assert sum((await rig.moved()).values()) == 0

    async def test_some_come_back(self, rig: Rig) -> None:
        await rig.processor.payout(await rig.payout_to("00000003"))
        await rig.advance(2 * 86_400)
        await rig.hear()
        await rig.advance(86_400)
        assert await rig.hear() == ["payout.in_transit", "payout.paid", "payout.returned"]
        assert sum((await rig.moved()).values()) == 0

    async def test_a_key_is_not_for_two_payouts(self, rig: Rig) -> None:
        first = await rig.payout_to()
        await rig.processor.payout(first)
        with pytest.raises(Rejected, match="key_reused"):
            await rig.processor.payout(await rig.payout_to(key=first.key, amount_minor=1))


class Misbehaving:
    """Each fault, and that the truth comes out."""

    async def test_a_start_without_an_answer(self, rig: Rig) -> None:
        await rig.fault("start", "timeout")
        with pytest.raises(Unknown):
            await rig.start()
        started = await rig.processor.start(rig.sent[0])
        assert (await rig.pay(started.reference)).status == "succeeded"

    async def test_a_charge_without_an_answer(self, rig: Rig) -> None:
        started, key = await rig.start(), a_key()
        await rig.fault("payment", "timeout")
        with pytest.raises(Unknown):
            await rig.pay(started.reference, key=key)
        assert (await rig.processor.confirm(started.reference)).status == "succeeded"
        assert (await rig.pay(started.reference, key=key)).status == "succeeded"
        assert await rig.moved() == {"capture": 10_000}

    async def test_a_refund_without_an_answer(self, rig: Rig) -> None:
        refund = rig.refund_of(await rig.paid(), 1_000)
        await rig.fault("refund", "timeout")
        with pytest.raises(Unknown):
            await rig.processor.refund(refund)
        assert isinstance(await rig.processor.refund(refund), Refunded)
        assert (await rig.moved())["refund"] == -1_000

    async def test_a_cancel_without_an_answer(self, rig: Rig) -> None:
        started = await rig.start()
        await rig.fault("cancel", "timeout")
        with pytest.raises(Unknown):
            await rig.processor.cancel(started.reference)
        assert await rig.processor.cancel(started.reference) == Cancelled()

    async def test_a_payout_without_an_answer(self, rig: Rig) -> None:
        payout = await rig.payout_to()
        await rig.fault("payout", "timeout")
        with pytest.raises(Unknown):
            await rig.processor.payout(payout)
        assert isinstance(await rig.processor.payout(payout), PayoutAccepted)
        assert await rig.moved() == {"payout": -5_000}

    async def test_errors_leave_nothing_behind(self, rig: Rig) -> None:
        """Where a call can be repeated it is unknown at first; where it cannot, it is a refusal for good."""
        await rig.fault("start", "error")
        with pytest.raises(Unknown):
            await rig.start()
        reference = (await rig.processor.start(rig.sent[0])).reference
        await rig.fault("cancel", "error")
        with pytest.raises(Unknown):
            await rig.processor.cancel(reference)
        await rig.fault("payment", "error")
        failed = await rig.pay(reference)
        assert failed.error is not None
        assert (failed.status, failed.error.code) == ("requires_payment", "processing_error")
        assert (await rig.pay(reference)).status == "succeeded"
        await rig.fault("refund", "error")
        refund = rig.refund_of(reference, 500)
        for _ in range(2):
            assert await rig.processor.refund(refund) == RefundRefused("processing_error")
        assert isinstance(await rig.processor.refund(rig.refund_of(reference, 500)), Refunded)
        await rig.fault("payout", "error")
        payout = await rig.payout_to()
        for _ in range(2):
            assert await rig.processor.payout(payout) == PayoutRefused("could_not_process")
        assert await rig.moved() == {"capture": 10_000, "refund": -500}

    async def test_a_fault_hits_as_often_as_ordered(self, rig: Rig) -> None:
        started, keys = await rig.start(), [a_key() for _ in range(3)]
        await rig.fault("payment", "error", 2)
        states = [await rig.pay(started.reference, key=key) for key in keys]
        assert [state.status for state in states] == ["requires_payment", "requires_payment", "succeeded"]

    async def test_duplicate_callbacks(self, rig: Rig) -> None:
        await rig.fault("payment", "duplicate_callback")
        await rig.paid()
        kinds = await rig.hear()
        assert 2 <= len(kinds) <= 6
        assert len({callback.event_id for callback in rig.heard}) == 1
        assert await rig.db.fetchval("SELECT count(*) FROM processor_inbox") == 1

    async def test_a_late_outcome(self, rig: Rig) -> None:
        started = await rig.start()
        await rig.fault("payment", "late_callback")
        assert (await rig.pay(started.reference)).status == "processing"
        assert (await rig.pay(started.reference)).status == "processing"
        assert await rig.processor.cancel(started.reference) == InFlight()
        assert await rig.hear() == []
        await rig.advance(31)
        assert (await rig.processor.confirm(started.reference)).status == "succeeded"
        assert await rig.hear() == ["payment.succeeded"]

    async def test_late_news_of_a_refund(self, rig: Rig) -> None:
        reference = await rig.paid()
        await rig.fault("refund", "late_callback")
        assert isinstance(await rig.processor.refund(rig.refund_of(reference, 1)), Refunded)
        assert await rig.hear() == ["payment.succeeded"]
        await rig.advance(31)
        assert await rig.hear() == ["payment.succeeded", "refund.succeeded"]

    async def test_failure_heard_after_success(self, rig: Rig) -> None:
        started = await rig.start()
        await rig.fault("payment", "out_of_order")
        await rig.pay(started.reference, DECLINED)
        assert await rig.hear() == []
        await rig.pay(started.reference)
        assert await rig.hear() == ["payment.succeeded", "payment.failed"]

    async def test_what_is_overtaken_comes_in_the_end(self, rig: Rig) -> None:
        await rig.fault("payment", "out_of_order")
        await rig.paid()
        assert await rig.hear() == []
        await rig.advance(31)
        assert await rig.hear() == ["payment.succeeded"]

    async def test_a_capture_after_the_cancel_was_confirmed(self, rig: Rig) -> None:
        started = await rig.start()
        await rig.fault("payment", "late_callback")
        await rig.pay(started.reference)
        await rig.fault("cancel", "out_of_order")
        assert await rig.processor.cancel(started.reference) == Cancelled()
        await rig.advance(31)
        assert await rig.hear() == ["payment.succeeded"]
        assert (await rig.processor.confirm(started.reference)).status == "succeeded"

    async def test_a_shop_that_does_not_answer_is_told_again(self, rig: Rig) -> None:
        rig.deaf = True
        await rig.paid()
        assert await rig.hear() == []
        rig.deaf = False
        await rig.advance(10)
        assert await rig.hear() == ["payment.succeeded"]


class KeepingBooks:
    async def test_the_statement_is_the_sum_of_all_payments(self, rig: Rig) -> None:
        """A day at random: cards good and bad, cancels and refunds, with faults now and then."""
        dice = random.Random(20)
        references = [(await rig.start(amount_minor=dice.randint(1, 50_000))).reference for _ in range(12)]
        for _ in range(60):
            if dice.random() < 0.2:
                kind = dice.choice(["error", "duplicate_callback", "out_of_order", "late_callback"])
                await rig.fault(dice.choice(["payment", "refund"]), kind)
            reference = dice.choice(references)
            step = dice.random()
            if step < 0.5:
                card = dice.choice(["4242424242424242", DECLINED, CHALLENGED])
                await rig.pay(reference, card, authenticate=dice.choice([True, False, None]))
            elif step < 0.6:
                await rig.processor.cancel(reference)
            elif step < 0.9:
                await rig.processor.refund(rig.refund_of(reference, dice.randint(1, 20_000)))
            else:
                await rig.advance(40)
        await rig.advance(3600)
        await rig.hear()
        states = [await rig.processor.confirm(reference) for reference in references]
        moved = await rig.moved()
        assert moved.get("capture", 0) == sum(state.captured_minor for state in states) > 0
        assert moved.get("refund", 0) == -sum(state.refunded_minor for state in states) < 0
        assert all(state.refunded_minor <= state.captured_minor <= state.amount_minor for state in states)
        told = {callback.reference for callback in rig.heard if callback.kind == "payment.succeeded"}
        assert told == {state.reference for state in states if state.status == "succeeded"}
