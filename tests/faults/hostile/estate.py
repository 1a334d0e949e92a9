"""An account with one of everything that an account can have, all of it marked with a word that nobody else uses."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from bursar.http.body import Upload
from tests.faults.hostile.forms import form
from tests.features.uploads.corpus import image
from tests.support.house import House
from tests.support.service import Party
from tests.support.till import OK, order
from tests.support.wire import Reply


@dataclass
class Estate:
    """`ids` are by the path segment before them: `ids["transactions"]` is the id in /transactions/{id}."""

    party: Party
    marker: str
    ids: dict[str, str]

    def fill(self, template: str, **others: str) -> str:
        """The path with this account's ids."""
        parts = template.split("/")
        for place, part in enumerate(parts):
            if part.startswith("{"):
                parts[place] = str({**self.ids, **others}[parts[place - 1]])
        return "/".join(parts)

    @property
    def foreign_words(self) -> list[str]:
        """What must never be in somebody else's reply. Ids that are plain numbers could be there by chance."""
        party = self.party
        keys = [party.account_id, party.public_key, party.client_key, party.secret_key, party.test_secret_key]
        return [self.marker, *keys, *(value for value in self.ids.values() if not re.fullmatch(r"[0-9]+", value))]


class _Furnisher:
    def __init__(self, serving: House, party: Party, marker: str) -> None:
        self.serving, self.party, self.marker = serving, party, marker
        self.ids: dict[str, str] = {"connected-accounts": party.account_id, "accounts": str(party.merchant_id)}

    async def send(self, path: str, body: Any, **headers: str) -> Any:
        return _data(await self.serving.send(self.party, "POST", path, body, **headers))

    async def ops(self, path: str, body: Any) -> Any:
        return _data(await self.serving.ops("POST", path, body))

    async def first(self, path: str) -> Any:
        return _data(await self.serving.get(self.party, path))[0]

    async def payments(self) -> None:
        fields = {"details": self.marker, "customer_name": self.marker, "identifier": f"o-{self.marker}"}
        payment = await self.send("/hosted-payments", order(**fields, customer_email=f"{self.marker}@example.com"))
        self.ids["hosted-payments"] = self.ids["transactions"] = str(payment["id"])
        self.ids["checkouts"] = payment["payment_reference"]
        await self.ops(f"/simulator/checkouts/{payment['payment_reference']}/pay", {"card": OK})
        await self.ops(f"/transactions/{payment['id']}/proof-requests", {"reason": self.marker})
        link = await self.send("/payment-links", {"amount": 25, "currency": "GBP", "details": self.marker})
        self.ids["payment-links"] = str(link["payment_link"]["id"])
        note = {"currency": "GBP", "amount": 100, "bucket": "available", "note": self.marker}
        await self.ops(f"/accounts/{self.party.merchant_id}/wallet-adjustments", note)
        self.ids["wallet-transactions"] = str((await self.first("/wallet-transactions"))["id"])

    async def onboarding(self) -> None:
        link = await self.send(
            "/identity/verification-links", {"purpose": "reverification", "person_reference": self.marker}
        )
        self.ids["verification-links"] = str(link["verification_link"]["id"])
        field = {"key": "website", "label": self.marker, "type": "text", "required": True}
        asked = {
            "merchant": str(self.party.merchant_id),
            "type": "information",
            "title": self.marker,
            "fields": [field],
        }
        made = await self.ops("/compliance-requests", asked)
        self.ids["requests"] = self.ids["compliance-requests"] = str(made["compliance_request"]["id"])
        bank = {"account_name": self.marker, "currency": "GBP", "sort_code": "20-00-00", "account_number": "55779911"}
        self.ids["bank-accounts"] = str((await self.send("/bank-accounts", bank))["bank_account"]["id"])

    async def support(self) -> None:
        picture = Upload(f"{self.marker}.png", image("PNG", (8, 8)), "image/png")
        body, kind = form({"subject": self.marker, "body": self.marker}, [("attachments", picture)])
        ticket = (await self.send("/support/tickets", body, **{"Content-Type": kind}))["ticket"]
        self.ids["tickets"] = self.ids["support-tickets"] = str(ticket["id"])
        self.ids["uploads"] = str(ticket["messages"][0]["attachments"][0]["id"])

    async def webhooks(self) -> None:
        hook = {"url": f"http://127.0.0.1:9/{self.marker}", "events": ["*"], "description": self.marker}
        made = await self.send("/webhooks", hook)
        self.ids["webhooks"] = str(made["webhook"]["id"])
        await self.send(f"/webhooks/{self.ids['webhooks']}/test", {})
        self.ids["events"] = (await self.first("/events"))["id"]
        window = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"}
        replay = await self.send(f"/webhooks/{self.ids['webhooks']}/replay", window)
        self.ids["replays"] = str(replay["replay"]["id"])
        await self.ops("/jobs/run", {})
        self.ids["webhook-deliveries"] = str((await self.first("/webhook-deliveries"))["id"])

    async def keys(self) -> None:
        made = await self.ops(f"/accounts/{self.party.merchant_id}/keys", {"kind": "secret", "scopes": []})
        found = _data(await self.serving.get(self.party, "/api-keys"))
        self.ids["api-keys"] = self.ids["keys"] = str(made.get("id") or found[-1]["id"])


def _data(reply: Reply) -> Any:
    assert reply.status < 300, reply
    return reply.data


async def furnish(serving: House, party: Party, marker: str) -> Estate:
    furnisher = _Furnisher(serving, party, marker)
    await furnisher.webhooks()
    await furnisher.payments()
    await furnisher.onboarding()
    await furnisher.support()
    await furnisher.keys()
    return Estate(party, marker, furnisher.ids)
