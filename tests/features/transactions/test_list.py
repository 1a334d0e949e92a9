"""GET /transactions: pages, filters, search, order."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from bursar.core.calendar import london_day
from bursar.db.listing import page
from bursar.features.payments import queries as payments
from tests.support.service import Party
from tests.support.till import Till

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def listed(till: Till, party: Party, query: str = "") -> dict[str, Any]:
    reply = await till.service.get(party, f"/transactions{query}")
    assert reply.status_code == 200, reply.text
    data: dict[str, Any] = reply.json()
    return data


async def identifiers(till: Till, party: Party, query: str = "") -> list[str]:
    return [row["identifier"] for row in (await listed(till, party, query))["data"]]


async def some(till: Till, merchant: Party, count: int = 5) -> None:
    for number in range(1, count + 1):
        await till.create(merchant, f"order-{number}", amount=10 - number)


async def test_newest_first_in_pages(till: Till, merchant: Party) -> None:
    await some(till, merchant)
    assert await identifiers(till, merchant) == [f"order-{number}" for number in (5, 4, 3, 2, 1)]
    page = await listed(till, merchant, "?per_page=2&page=2")
    assert [row["identifier"] for row in page["data"]] == ["order-3", "order-2"]
    assert page["meta"]["pagination"] == {"current_page": 2, "per_page": 2, "total": 5, "last_page": 3}
    assert await identifiers(till, merchant, "?per_page=2&page=9") == []


async def test_sorted(till: Till, merchant: Party) -> None:
    await some(till, merchant)
    assert await identifiers(till, merchant, "?sort=id") == [f"order-{number}" for number in (1, 2, 3, 4, 5)]
    assert await identifiers(till, merchant, "?sort=created_at&per_page=1") == ["order-1"]
    await till.cancel(merchant, (await listed(till, merchant, "?q=order-4"))["data"][0])
    assert await identifiers(till, merchant, "?sort=status&per_page=2") == ["order-4", "order-1"]
    for refused in ("secret", "amount"):
        reply = await till.service.get(merchant, f"/transactions?sort={refused}")
        assert list(reply.json()["error"]["details"]) == ["sort"]


async def test_by_status(till: Till, merchant: Party) -> None:
    await some(till, merchant, 3)
    rows = (await listed(till, merchant))["data"]
    await till.ops_pay(rows[0]["reference"])
    await till.cancel(merchant, rows[1])
    assert await identifiers(till, merchant, "?status=succeeded") == ["order-3"]
    assert await identifiers(till, merchant, "?status=cancelled") == ["order-2"]
    assert (await till.service.get(merchant, "/transactions?status=lost")).status_code == 422


@pytest.mark.parametrize("query", ["q=LOVELACE", "search=ada@", "q=order-2", "q=a_a", "q=100%25"])
async def test_searched(till: Till, merchant: Party, query: str) -> None:
    await till.create(merchant, "order-1", customer_name="Grace Hopper", customer_email="grace@example.com")
    await till.create(merchant, "order-2")
    expected = [] if query in ("q=a_a", "q=100%25") else ["order-2"]
    assert await identifiers(till, merchant, f"?{query}") == expected


async def test_by_reference(till: Till, merchant: Party) -> None:
    payment = await till.create(merchant)
    assert await identifiers(till, merchant, f"?q={payment['payment_reference'].lower()}") == ["order-1"]


async def test_by_what_names_an_old_one(till: Till, merchant: Party) -> None:
    payment = await till.create(merchant, "order-1", customer_email="Grace@example.com")
    newer = replace(payments.TRANSACTIONS, search_newest=0)  # as if ten thousand others had come since
    for q in (payment["payment_reference"], "order-1", "grace@EXAMPLE.com", "order-", "grace@"):
        rows, _ = await page(till.service.db, newer, (merchant.merchant_id,), number=1, size=25, sort="-id", q=q)
        assert len(rows) == (0 if q in ("order-", "grace@") else 1), q


async def test_by_time(till: Till, merchant: Party) -> None:
    payment = await till.create(merchant, "before")
    await till.advance(days=3)
    later = await till.create(merchant, "after")
    first, last = (london_day(datetime.fromisoformat(one["created_at"])) for one in (payment, later))
    assert await identifiers(till, merchant, f"?from={last}") == ["after"]
    assert await identifiers(till, merchant, f"?from={first}&to={last}") == ["after", "before"]
    assert await identifiers(till, merchant, f"?to={first}") == ["before"]
    moment = payment["created_at"].replace("Z", "%2B00:00")
    assert await identifiers(till, merchant, f"?from={moment}&to={moment}") == ["before"]
    for query in ("from=yesterday", "to=2026-13-01", "from=2026-01-01T00:00:00"):
        assert (await till.service.get(merchant, f"/transactions?{query}")).status_code == 422


async def test_only_the_account_s_own(till: Till, platform: Party, shop: Party) -> None:
    await till.create(shop)
    assert await identifiers(till, platform) == []
    reply = await till.service.get(platform, "/transactions", Service_Account=shop.account_id)
    assert [row["identifier"] for row in reply.json()["data"]] == ["order-1"]


async def test_a_restricted_key(till: Till, merchant: Party) -> None:
    await till.create(merchant)
    made = await till.service.ops(
        "POST", f"/accounts/{merchant.merchant_id}/keys", {"kind": "restricted", "scopes": ["transactions:read"]}
    )
    key = made.json()["data"]["key"]
    assert (await till.service.get(key, "/transactions")).status_code == 200
    reply = await till.service.get(key, "/hosted-payments")
    assert reply.json()["error"]["details"] == {"required_scope": "payments:read"}
