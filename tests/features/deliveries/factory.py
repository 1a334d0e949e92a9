"""Events that people are told of, as the features emit them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from bursar.db.pool import Database
from bursar.events import outbox
from bursar.events.catalogue import MAIL_TO
from bursar.events.outbox import new_event
from tests.events.factories import CAUSE
from tests.support.service import Party

TRANSACTION = {
    "id": 100001, "reference": "PAY-1", "identifier": "order-1", "status": "succeeded", "amount": Decimal("10.50"),
    "currency": "GBP", "details": "Two books", "customer_name": "Ada", "customer_email": "ada@example.com",
    "paid_at": "2025-07-01T12:00:00Z",
}  # fmt: skip
REFUND = {"id": 1001, "reference": "RFD-1001", "amount": 4, "currency": "GBP", "status": "succeeded"}
PAYOUT = {"id": 7, "status": "paid", "amount": 1250, "currency": "GBP", "reference": "July", "failure_code": None}
DISPUTE = {
    "case_id": "DISPUTE-1001", "transaction_reference": "PAY-1", "reason": "product_not_received",
    "status": "needs_response", "amount": Decimal("10.5"), "currency": "GBP",
    "response_deadline": "2025-12-01T00:00:00Z",
}  # fmt: skip
LINK = {"id": 1, "url": "https://pay.example/verify/1", "expires_at": "2025-07-02T12:00:00Z"}
WEBHOOK = {"id": 1001, "url": "https://shop.example/hook", "disabled_reason": "gone"}

DATA: dict[str, dict[str, Any]] = {
    "transaction.succeeded": {"transaction": TRANSACTION},
    "transaction.refunded": {"transaction": TRANSACTION, "refund": REFUND},
    **{type_: {"payout": PAYOUT} for type_ in MAIL_TO if "payout" in type_},
    "payout.failed": {"payout": {**PAYOUT, "status": "failed", "failure_code": "account_closed"}},
    **{type_: {"dispute": DISPUTE} for type_ in MAIL_TO if type_.startswith("dispute.")},
    "kyc.link_created": {"verification_link": LINK},
    "webhook.disabled": {"webhook": WEBHOOK},
}


async def emit(db: Database, party: Party, type_: str = "payout.paid", count: int = 1) -> None:
    """As the feature would tell of it, and no more than that."""
    now = await db.fetchval("SELECT instance_now()")
    account = (party.merchant_id, party.account_id)
    events = [new_event(type_, DATA[type_], account=account, platform=None, now=now, cause=CAUSE) for _ in range(count)]
    await outbox.write(db, events)
