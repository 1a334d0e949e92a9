"""GET /wallet-transactions: the public rows of the ledger."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from bursar.db.clock import instance_now
from bursar.ledger import journals
from bursar.ledger.post import post
from tests.support.service import Party, Service


@pytest.fixture
async def merchant(service: Service) -> Party:
    """An account with two payments, one settled, a reserve, a refund and a payout that came back."""
    merchant = await service.open_account()
    facts: dict[str, Any] = {"account_id": merchant.merchant_id, "currency": "GBP"}
    later = await instance_now(service.db) + timedelta(days=2)
    postings = await post(
        service.db,
        [
            journals.payment(
                **facts, transaction_id=1, amount=10_000, settles_at=later, processing_fee=170, note="Tea"
            ),
            journals.payment(**facts, transaction_id=2, amount=5_000, settles_at=later),
            journals.settlement(**facts, source="transaction:1"),
            journals.reserve(**facts, hold_id=1, transaction_id=2, amount=1_000),
            journals.refund(**facts, refund_id=1, transaction_id=1, amount=2_000),
            journals.payout(**facts, payout_id=1, amount=3_000),
            journals.payout_return(**facts, payout_id=1, amount=3_000),
        ],
    )
    assert {posting.outcome.value for posting in postings} == {"posted"}
    return merchant


async def listed(service: Service, party: Party, query: str = "") -> list[dict[str, Any]]:
    reply = await service.get(party, f"/wallet-transactions{query}")
    assert reply.status_code == 200, reply.text
    rows: list[dict[str, Any]] = reply.json()["data"]
    return rows


def briefly(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(row["type"], row["category"], row["amount"], row["status"]) for row in rows]


class TestList:
    async def test_shows_newest_first_with_the_running_balance(self, service: Service, merchant: Party) -> None:
        rows = await listed(service, merchant)
        assert briefly(rows) == [
            ("credit", "payout", 30.0, "posted"),
            ("debit", "payout", 30.0, "reversed"),
            ("debit", "refund", 20.0, "posted"),
            ("hold", "reserve", 10.0, "pending"),
            ("credit", "payment", 50.0, "pending"),
            ("debit", "fee", 1.7, "posted"),
            ("credit", "payment", 100.0, "posted"),
        ]
        for newer, older in pairwise(rows):
            assert newer["balance_before"] == older["balance_after"]
        assert rows[-1]["balance_before"] == 0.0
        assert all(row["amount"] > 0 for row in rows)

    async def test_has_the_documented_fields(self, service: Service, merchant: Party) -> None:
        row = (await listed(service, merchant, "?sort=id&per_page=1"))[0]
        assert row.pop("created_at").endswith("Z")
        id_ = row.pop("id")
        assert isinstance(id_, int)
        assert row.pop("txn_id").startswith("WTX-")
        assert row == {
            "currency": "GBP",
            "amount": 100.0,
            "type": "credit",
            "status": "posted",
            "notes": "Tea",
            "balance_before": 0.0,
            "balance_after": 100.0,
            "category": "payment",
            "related": {"type": "transaction", "id": 1},
        }

    async def test_pages_and_counts(self, service: Service, merchant: Party) -> None:
        reply = await service.get(merchant, "/wallet-transactions?page=2&per_page=3")
        assert reply.json()["meta"]["pagination"] == {"current_page": 2, "per_page": 3, "total": 7, "last_page": 3}
        assert len(reply.json()["data"]) == 3
        assert (await service.get(merchant, "/wallet-transactions?per_page=101")).status_code == 422

    async def test_filters(self, service: Service, merchant: Party) -> None:
        counts = {
            "type=credit": 3,
            "type=hold": 1,
            "category=payment": 2,
            "category=payout": 2,
            "currency=GBP": 7,
            "currency=EUR": 0,
            "status=pending": 2,
            "status=reversed": 1,
            "status=posted&type=credit": 2,
            "from=2020-01-01": 7,
            "to=2020-01-01": 0,
            "from=2020-01-01T00:00:00Z&to=2120-01-01T00:00:00Z": 7,
        }
        assert {query: len(await listed(service, merchant, f"?{query}")) for query in counts} == counts

    async def test_sorts_by_what_is_allowed(self, service: Service, merchant: Party) -> None:
        ids = [row["id"] for row in await listed(service, merchant, "?sort=id")]
        assert ids == sorted(ids)
        moments = [row["created_at"] for row in await listed(service, merchant, "?sort=-created_at")]
        assert moments == sorted(moments, reverse=True)
        assert len(ids) == len(moments) == 7
        for wrong in ("sort=note", "sort=amount", "type=gift", "status=lost", "currency=pounds", "from=yesterday"):
            reply = await service.get(merchant, f"/wallet-transactions?{wrong}")
            assert (reply.status_code, reply.json()["error"]["code"]) == (422, "validation_error")

    async def test_shows_an_account_its_own_rows_alone(self, service: Service, merchant: Party) -> None:
        other = await service.open_account()
        assert await listed(service, other) == []
        theirs = (await listed(service, merchant))[0]["id"]
        for id_ in (theirs, 999_999_999, "x", 0):
            assert (await service.get(other, f"/wallet-transactions/{id_}")).status_code == 404


class TestShow:
    async def test_is_the_row_of_the_list(self, service: Service, merchant: Party) -> None:
        for row in await listed(service, merchant):
            reply = await service.get(merchant, f"/wallet-transactions/{row['id']}")
            assert reply.json()["data"]["wallet_transaction"] == row

    async def test_settlements_have_no_row(self, service: Service, merchant: Party) -> None:
        hidden = await service.db.fetchval("SELECT id FROM wallet_entry WHERE kind = 'settlement'")
        assert (await service.get(merchant, f"/wallet-transactions/{hidden}")).status_code == 404
