"""Connected accounts as a platform's developer would create them."""

from __future__ import annotations

import secrets
from typing import Any

import msgspec

from tests.support.service import Party, Service


def new_body(**changes: Any) -> dict[str, Any]:
    """A complete body; a change of `...` leaves the field out."""
    body: dict[str, Any] = {
        "business_company_name": "Harbour Coffee Ltd",
        "firstname": "Ada",
        "lastname": "Byron",
        "email": f"{secrets.token_hex(6)}@example.com",
        "country_code": "GB",
        "mobile_code": "+44",
        "mobile": "7700 900123",
        "business_type": "company",
        "nationality": "GB",
        "company_registration_number": "12345678",
        "representative_job_title": "Director",
        "rep_is_director": True,
        "rep_is_executive": False,
        "rep_is_owner": True,
        "rep_ownership_percent": 60,
        "company_declaration": True,
        "address": "1 Quay Street",
        "city": "Bristol",
        "postcode": "BS1 4DJ",
        "dob": "1985-12-10",
        "industry": "5814",
        "merchant_website_or_product_description": "Coffee, by the cup and by the bag.",
        "terms_accepted": True,
        "terms_accepted_at": "2026-01-05T09:30:00Z",
        "terms_ip": "203.0.113.7",
        "legal_name": "Ada Byron",
        **changes,
    }
    return {name: value for name, value in body.items() if value is not ...}


async def connect(service: Service, platform: Party, **changes: Any) -> dict[str, Any]:
    """A new connected account of the platform, as the reply showed it."""
    reply = await service.send(platform, "POST", "/connected-accounts", new_body(**changes))
    assert reply.status_code == 201, reply.text
    account: dict[str, Any] = reply.json()["data"]["account"]
    return account


async def events_of(service: Service, account: dict[str, Any], type_: str | None = None) -> list[Any]:
    """The bodies of an account's events so far, oldest first."""
    number = int(account["id"].rpartition("_")[2])
    rows = await service.db.fetch("SELECT type, body FROM event WHERE account_id = $1 ORDER BY id", number)
    return [msgspec.json.decode(row["body"]) for row in rows if type_ in (None, row["type"])]
