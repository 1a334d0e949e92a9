"""The table of event types, the documentation written from it, and the pure rules of subscriptions and retries."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bursar.core.ids import event_id_at, new_event_id
from bursar.events import catalogue, reference, schedule, signing
from bursar.events.fanout import order_key

NAMED = """
transaction.created transaction.succeeded transaction.failed transaction.cancelled transaction.refunded
transaction.proof_requested transaction.proof_submitted transaction.proof_approved transaction.proof_rejected
hosted_payment.expired payment_link.paid balance.reserve_held balance.reserve_released payout.paid
disburse.payout.paid kyc.link_created kyc.requires_input kyc.verified kyc.rejected compliance.requested
compliance.submitted compliance.approved compliance.rejected compliance.overdue connected_account.created
connected_account.activated connected_account.review connected_account.banned connected_account.moved account.update
bank_account.created bank_account.disabled terminal.payment_succeeded terminal.payment_failed
terminal.payment_cancelled terminal.reader_online terminal.reader_offline support.ticket_created
support.ticket_replied support.ticket_resolved commerce.commission.updated commerce.collection.settled
webhook.disabled subscription.activated subscription.past_due subscription.cancelled subscription.invoice_paid
subscription.invoice_failed contract.sent contract.signed contract.completed contract.expired invoice.paid
invoice.partially_paid invoice.refunded store.order_paid store.order_shipped gym.membership_expired
gym.checkin_created
"""


class TestCatalogue:
    def test_every_decided_type_is_there(self) -> None:
        assert set(NAMED.split()) <= set(catalogue.CATALOGUE)
        assert catalogue.TYPES.isdisjoint(catalogue.ADDITIVE)

    def test_the_guide_has_the_table_as_it_is(self) -> None:
        text = reference.GUIDE.read_text()
        assert reference.rewritten(text) == text, "run `python -m bursar.events.reference`"

    @pytest.mark.parametrize(
        ("pattern", "fits"),
        [("*", True), ("kyc.*", True), ("disburse.payout.*", True), ("payout.paid", True), ("kyc.", False),
         ("kyc*", False), ("nothing.*", False), ("payout.unknown", False), ("*.*", False), ("", False)],
    )  # fmt: skip
    def test_what_can_be_subscribed_to(self, pattern: str, fits: bool) -> None:
        assert catalogue.is_subscribable(pattern) is fits

    def test_a_star_brings_no_additive_type(self) -> None:
        for name, event in catalogue.CATALOGUE.items():
            assert catalogue.wants(["*"], name, include_additive=False) is not event.additive
            assert catalogue.wants(["*"], name, include_additive=True)
            assert catalogue.wants([name], name, include_additive=False)

    def test_the_order_that_an_event_belongs_to(self) -> None:
        assert order_key(7, "transaction.failed", b'{"data":{"transaction":{"identifier":"A","id":1}}}') == "7:A"
        assert order_key(7, "payout.paid", b'{"data":{"payout":{"id":12}}}') == "7:payout:12"


class TestGuide:
    def test_the_snippet_verifies_a_delivery(self) -> None:
        snippet = re.search(r"```python verify\n(.*?)```", reference.GUIDE.read_text(), re.DOTALL)
        assert snippet is not None
        names: dict[str, object] = {}
        exec(snippet[1], names)
        verify = names["verify"]
        assert callable(verify)
        secret, body = "whsec_" + "x" * 32, b'{"id":"evt_1"}'
        headers = signing.webhook_headers([secret], "evt_1", "payout.paid", 1, 1, int(time.time()), body)
        assert verify(body, headers, secret)
        assert not verify(body + b" ", headers, secret)
        rotating = signing.webhook_headers(["whsec_new", secret], "evt_1", "payout.paid", 1, 1, int(time.time()), body)
        assert verify(body, rotating, secret)
        stale = signing.webhook_headers([secret], "evt_1", "payout.paid", 1, 1, int(time.time()) - 400, body)
        assert not verify(body, stale, secret)


class TestSchedule:
    def test_ten_attempts_in_three_days(self) -> None:
        assert schedule.ATTEMPTS == 10
        assert sum(schedule.DELAYS, timedelta()) == timedelta(hours=75, minutes=35, seconds=5)

    @given(step=st.integers(1, 9), code=st.one_of(st.none(), st.integers(100, 599)), after=st.integers(0, 10**9))
    def test_every_answer_has_its_verdict(self, step: int, code: int | None, after: int) -> None:
        verdict = schedule.judge(code, step, timedelta(seconds=after))
        if code is not None and 200 <= code < 300:
            assert verdict == schedule.SUCCEEDED
        elif code == 410:
            assert verdict.gone
            assert verdict.again_in is None
        else:
            assert verdict.again_in is not None
            asked = min(timedelta(seconds=after), timedelta(days=1))
            assert verdict.again_in >= max(schedule.DELAYS[step] * 0.9, asked)
            assert verdict.again_in <= max(schedule.DELAYS[step] * 1.1, asked)

    def test_the_tenth_failure_is_the_last(self) -> None:
        assert schedule.judge(500, 10) == schedule.Verdict("failed", exhausted=True)
        assert schedule.judge(None, 10, timedelta(hours=1)).exhausted

    def test_without_jitter_the_times_are_exact(self) -> None:
        delays = [schedule.judge(500, step, jitter=False).again_in for step in range(1, 10)]
        assert delays == list(schedule.DELAYS[1:])

    @pytest.mark.parametrize(
        ("text", "seconds"),
        [("120", 120), (" 5 ", 5), ("99999999999", 86_400), ("Wed, 01 Jan 2025 00:10:00 GMT", 600),
         ("Tue, 31 Dec 2024 00:00:00 GMT", 0), ("soon", None), ("-5", None), ("", None), ("1.5", None)],
    )  # fmt: skip
    def test_retry_after(self, text: str, seconds: int | None) -> None:
        found = schedule.parse_retry_after(text, datetime(2025, 1, 1, tzinfo=UTC))
        assert found == (None if seconds is None else timedelta(seconds=seconds))


def test_event_ids_sort_as_they_were_made() -> None:
    made = []
    for _ in range(50):
        made.append(new_event_id())
        time.sleep(0.00001)
    assert made == sorted(made)
    assert len({len(event_id) for event_id in made}) == 1
    assert event_id_at(time.time() - 1) < made[0] < event_id_at(time.time() + 1)
