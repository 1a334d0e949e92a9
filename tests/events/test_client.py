"""The helpers that integrators use, against real deliveries and against forgers."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from bursar.client import OrderGuard, Step, VerificationFailed, verify_ipn, verify_webhook
from bursar.events import signing

SECRET = "whsec_" + "a" * 32
KEY = "sk_live_" + "b" * 38
BODY = (
    b'{"id":"evt_1","type":"transaction.succeeded","account_id":"acc_1",'
    b'"data":{"transaction":{"identifier":"order-1","status":"succeeded","amount":10.50,"currency":"GBP"}}}'
)
FIELDS = [
    ("status", "success"),
    ("identifier", "order-1"),
    ("data[status]", "success"),
    ("data[amount]", "10.50"),
    ("data[currency][code]", "GBP"),
]


def webhook(secrets: list[str], body: bytes = BODY, stamp: int | None = None) -> dict[str, str]:
    return signing.webhook_headers(secrets, "evt_1", "transaction.succeeded", 1, 1, stamp or int(time.time()), body)


class TestWebhooks:
    def test_a_genuine_one(self) -> None:
        event = verify_webhook(BODY, webhook([SECRET]), SECRET)
        assert (event.id, event.type, event.order, event.outcome) == (
            "evt_1", "transaction.succeeded", "order-1", "success",
        )  # fmt: skip
        assert event.data["transaction"]["amount"] == Decimal("10.50")

    def test_during_rotation_either_secret_will_do(self) -> None:
        other = "whsec_" + "c" * 32
        assert verify_webhook(BODY, webhook([other, SECRET]), SECRET)
        assert verify_webhook(BODY, webhook([SECRET]), [other, SECRET])

    @pytest.mark.parametrize(
        "change",
        [
            {"X-Service-Signature": "0" * 64},
            {"X-Service-Signature": ""},
            {"X-Service-Timestamp": "1"},
            {"X-Service-Timestamp": "yesterday"},
            {"X-Service-Event-Id": "evt_2"},
        ],
    )
    def test_anything_changed_is_refused(self, change: dict[str, str]) -> None:
        with pytest.raises(VerificationFailed):
            verify_webhook(BODY, webhook([SECRET]) | change, SECRET)

    def test_another_body_secret_or_time_is_refused(self) -> None:
        now = int(time.time())
        with pytest.raises(VerificationFailed):
            verify_webhook(BODY, webhook([SECRET], stamp=now) | {"X-Service-Timestamp": str(now + 1)}, SECRET)
        with pytest.raises(VerificationFailed):
            verify_webhook(BODY + b" ", webhook([SECRET]), SECRET)
        with pytest.raises(VerificationFailed):
            verify_webhook(BODY, webhook([SECRET]), "whsec_" + "d" * 32)
        old = webhook([SECRET], stamp=int(time.time()) - 301)
        with pytest.raises(VerificationFailed):
            verify_webhook(BODY, old, SECRET)
        assert verify_webhook(BODY, old, SECRET, tolerance_s=600)
        with pytest.raises(VerificationFailed):
            verify_webhook(b"[]", webhook([SECRET], b"[]"), SECRET)


def notification(
    fields: list[tuple[str, str]] | None = None, keys: list[str] | None = None
) -> tuple[bytes, dict[str, str]]:
    body = signing.ipn_body(fields or FIELDS, keys or [KEY], "10.50", "order-1")
    return body, signing.ipn_headers(keys or [KEY], "evt_9", "transaction.succeeded", 1, 1, int(time.time()), body)


class TestIpns:
    def test_the_payment_decides_not_the_notification(self) -> None:
        asked: list[str] = []

        def read(status: str) -> Any:
            def look(identifier: str) -> Mapping[str, Any]:
                asked.append(identifier)
                return {"status": status, "amount": Decimal("10.50"), "currency": "GBP"}

            return look

        body, headers = notification()
        assert verify_ipn(body, headers, KEY, read("succeeded")).paid
        assert not verify_ipn(body, headers, KEY, read("pending")).paid
        assert asked == ["order-1", "order-1"]
        other = verify_ipn(body, headers, KEY, lambda _: {"status": "succeeded", "amount": 1, "currency": "GBP"})
        assert not other.paid, "another amount was paid"

    def test_a_status_turned_round_is_refused(self) -> None:
        """The form's own signature does not cover the status; that of the whole body does."""
        failed = [("status", "failed"), *FIELDS[1:]]
        body, headers = notification(failed)
        forged = body.replace(b"status=failed", b"status=success")
        with pytest.raises(VerificationFailed):
            verify_ipn(forged, headers, KEY, lambda _: {})

    def test_without_the_full_signature_nothing_is_believed(self) -> None:
        body, headers = notification()
        del headers["X-Service-Signature"]
        with pytest.raises(VerificationFailed):
            verify_ipn(body, headers, KEY, lambda _: {})

    def test_a_rotated_key(self) -> None:
        new = "sk_live_" + "n" * 38
        body, headers = notification(keys=[new, KEY])
        read = {"status": "succeeded", "amount": "10.50", "currency": "GBP"}
        assert verify_ipn(body, headers, KEY, lambda _: read).paid
        assert verify_ipn(body, headers, new, lambda _: read).paid


class TestGuard:
    def test_the_listener_rules(self, tmp_path: Path) -> None:
        guard = OrderGuard(tmp_path / "orders.db")
        assert guard.apply("A", "evt_1", "failed") is Step.RECORD
        assert guard.apply("A", "evt_1", "failed") is Step.IGNORE
        assert guard.apply("A", "evt_2", "success") is Step.FULFIL
        assert guard.apply("A", "evt_2", "success") is Step.IGNORE
        assert guard.apply("A", "evt_3", "failed") is Step.IGNORE, "a paid order stays paid"
        assert guard.apply("A", "evt_4", "success") is Step.IGNORE, "the other channel tells the same"
        assert guard.apply(None, "evt_5", None) is Step.IGNORE
        assert guard.is_paid("A")
        assert not guard.is_paid("B")

    def test_many_copies_at_once_in_any_order_fulfil_once(self, tmp_path: Path) -> None:
        guard = OrderGuard(tmp_path / "orders.db")
        updates = [(f"order-{n}", f"evt_{n}_{kind}", kind) for n in range(10) for kind in ("failed", "success")] * 4
        random.shuffle(updates)
        steps: list[tuple[str, Step]] = []

        def work(part: list[tuple[str, str, str]]) -> None:
            steps.extend((order, guard.apply(order, event_id, outcome)) for order, event_id, outcome in part)

        threads = [threading.Thread(target=work, args=(updates[n::4],)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        fulfilled = [order for order, step in steps if step is Step.FULFIL]
        assert sorted(fulfilled) == sorted(f"order-{n}" for n in range(10))
