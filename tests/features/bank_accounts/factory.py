"""Bank accounts as a merchant's developer would link them."""

from __future__ import annotations

from typing import Any

from tests.support.service import Party, Service

GB = {"account_name": "Harbour Coffee Ltd", "currency": "GBP", "sort_code": "20-00-00", "account_number": "55779911"}
DE = {"account_name": "Harbour Coffee Ltd", "currency": "EUR", "iban": "DE89 3704 0044 0532 0130 00"}


async def link(service: Service, party: Party | str, body: dict[str, Any] = GB, **headers: str) -> dict[str, Any]:
    reply = await service.send(party, "POST", "/bank-accounts", body, **headers)
    assert reply.status_code == 201, reply.text
    account: dict[str, Any] = reply.json()["data"]["bank_account"]
    return account
