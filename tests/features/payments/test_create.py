"""POST /hosted-payments: what it makes, what it refuses, one checkout per order."""

from __future__ import annotations

from typing import Any

from tests.support.service import Service


def order(identifier: str = "order-1", **fields: Any) -> dict[str, Any]:
    return {
        "identifier": identifier, "amount": 49.99, "currency": "GBP", "details": "Two books",
        "ipn_url": "http://127.0.0.1:9/ipn", "success_url": "http://shop.example/paid",
        "cancel_url": "http://shop.example/cancelled", "customer_name": "Ada Lovelace",
        "customer_email": "ada@example.com", **fields,
    }  # fmt: skip


async def test_it_makes_a_checkout(service: Service) -> None:
    merchant = await service.open_account()
    reply = await service.send(merchant, "POST", "/hosted-payments", order())
    assert reply.status_code == 201, reply.text
    print(reply.text)
    made = reply.json()["data"]
    read = await service.get(merchant, f"/hosted-payments/{made['payment_reference']}")
    assert read.json()["data"] == made
    again = await service.send(merchant, "POST", "/hosted-payments", order())
    assert again.status_code == 200, again.text
    other = await service.send(merchant, "POST", "/hosted-payments", order(amount=1))
    print(other.text)
    assert other.status_code == 409
    for path in ("/hosted-payments?identifier=order-1", "/transactions?q=ADA&from=2026-01-01", f"/transactions/{made['id']}"):
        listed = await service.get(merchant, path)
        print(listed.text)
    bad = await service.send(merchant, "POST", "/hosted-payments", order(amount=0.001, customer_email="x", ipn_url=None))
    print(bad.text)
