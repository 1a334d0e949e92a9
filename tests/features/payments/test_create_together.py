"""Creates that wait together are written in one statement; with group commit off each is alone. The same answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from tests.support.service import Party, Service, new_key, running_service
from tests.support.till import Till, order

pytestmark = pytest.mark.asyncio(loop_scope="module")

COUNTED = """
SELECT (SELECT count(*) FROM payment WHERE account_id = $1),
       (SELECT count(*) FROM payment_link WHERE account_id = $1),
       (SELECT count(*) FROM event WHERE account_id = $1 AND type = 'transaction.created'),
       (SELECT count(*) FROM idempotency_key WHERE account_id = $1)
"""
LINK = {"amount": 12.5, "currency": "GBP", "details": "A donation", "ipn_url": "http://127.0.0.1:9/ipn"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def alone(till: Till) -> AsyncIterator[Service]:
    async with running_service(till.service.urls, like=till.service, worker=False, group_commit=False) as running:
        yield running


@pytest.fixture(params=["together", "alone"])
def either(request: pytest.FixtureRequest, till: Till, alone: Service) -> Service:
    return till.service if request.param == "together" else alone


async def create(service: Service, party: Party, identifier: str, key: str, **fields: object) -> httpx.Response:
    return await service.send(party, "POST", "/hosted-payments", order(identifier, **fields), key=key)


async def counted(service: Service, party: Party) -> tuple[int, ...]:
    row = await service.db.fetchrow(COUNTED, party.merchant_id)
    assert row is not None
    return tuple(row)


async def test_all_new(either: Service, merchant: Party) -> None:
    replies = await asyncio.gather(*(create(either, merchant, f"order-{n}", new_key()) for n in range(40)))
    assert [reply.status_code for reply in replies] == [201] * 40
    assert len({reply.json()["data"]["id"] for reply in replies}) == 40
    assert await counted(either, merchant) == (40, 0, 40, 40)


async def test_known_keys_and_taken_orders_among_new_ones(either: Service, merchant: Party) -> None:
    keys = [new_key() for _ in range(6)]
    first = [await create(either, merchant, f"known-{n}", key) for n, key in enumerate(keys)]
    replayed = [create(either, merchant, f"known-{n}", key) for n, key in enumerate(keys)]
    reused = [create(either, merchant, f"known-{n}", new_key()) for n in range(6)]
    refused = [create(either, merchant, f"known-{n}", new_key(), amount=1) for n in range(6)]
    fresh = [create(either, merchant, f"fresh-{n}", new_key()) for n in range(6)]
    mixed = [one for four in zip(replayed, reused, refused, fresh, strict=True) for one in four]
    replies = await asyncio.gather(*mixed)
    assert [reply.status_code for reply in replies] == [201, 200, 409, 201] * 6
    assert [reply.content for reply in replies[0::4]] == [reply.content for reply in first]
    assert all(reply.headers["Idempotency-Replayed"] == "true" for reply in replies[0::4])
    assert all(reply.json()["data"]["reused"] for reply in replies[1::4])
    assert await counted(either, merchant) == (12, 0, 12, 18), "the refused ones left no key behind"


async def test_the_same_order_twice_in_one_batch(either: Service, merchant: Party) -> None:
    orders = [f"order-{n // 2}" for n in range(24)]
    replies = await asyncio.gather(*(create(either, merchant, name, new_key()) for name in orders))
    assert sorted(reply.status_code for reply in replies) == [200] * 12 + [201] * 12
    assert await counted(either, merchant) == (12, 0, 12, 24)


async def test_a_key_whose_time_is_over_is_taken_again(either: Service, merchant: Party) -> None:
    key = new_key()
    await create(either, merchant, "order-1", key)
    await either.db.execute(
        "UPDATE idempotency_key SET expires_at = instance_now() WHERE account_id = $1", merchant.merchant_id
    )
    reply = await create(either, merchant, "order-2", key)
    assert (reply.status_code, reply.json()["data"]["identifier"]) == (201, "order-2")
    assert (await create(either, merchant, "order-2", key)).content == reply.content


async def test_links(either: Service, merchant: Party) -> None:
    keys = [new_key() for _ in range(10)]
    both = [either.send(merchant, "POST", "/payment-links", LINK, key=key) for key in (*keys, *keys)]
    replies = await asyncio.gather(*both)
    made = {reply.json()["data"]["payment_link"]["id"] for reply in replies}
    assert ({reply.status_code for reply in replies}, len(made)) == ({201}, 10)
    assert await counted(either, merchant) == (0, 10, 0, 10)
