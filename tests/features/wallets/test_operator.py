"""The operator's adjustments and audit."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from bursar.db.embedded import Urls
from tests.ledger.books import as_owner
from tests.support.service import Party, Service


@pytest.fixture
async def merchant(service: Service) -> Party:
    return await service.open_account()


async def adjust(service: Service, merchant: Party, amount: Any, **more: Any) -> httpx.Response:
    body = {"currency": "GBP", "amount": amount, "bucket": "available", "note": "A correction", **more}
    return await service.ops("POST", f"/accounts/{merchant.merchant_id}/wallet-adjustments", body)


class TestAdjustments:
    async def test_answer_with_the_wallet(self, service: Service, merchant: Party) -> None:
        reply = await adjust(service, merchant, 100.25)
        assert reply.status_code == 201, reply.text
        wallet = reply.json()["data"]
        assert (wallet["available"], wallet["standard_available"], wallet["pending_funds"]) == (100.25, 100.25, 0.0)
        pending = (await adjust(service, merchant, 10, bucket="pending")).json()["data"]
        assert (pending["available"], pending["standard_available"], pending["pending_funds"]) == (110.25, 100.25, 10.0)

    async def test_may_take_away_more_than_there_is(self, service: Service, merchant: Party) -> None:
        wallet = (await adjust(service, merchant, -5.5)).json()["data"]
        assert (wallet["available"], wallet["standard_available"]) == (-5.5, -5.5)

    async def test_are_rows_of_the_wallet_and_of_the_audit_trail(self, service: Service, merchant: Party) -> None:
        await adjust(service, merchant, -5.5)
        row = (await service.get(merchant, "/wallet-transactions")).json()["data"][0]
        assert (row["type"], row["category"], row["amount"]) == ("debit", "adjustment", 5.5)
        assert (row["notes"], row["related"]["type"]) == ("A correction", "adjustment")
        trail = (await service.ops("GET", f"/audit/log?merchant={merchant.merchant_id}")).json()["data"]
        assert trail[0]["after"]["amount"] == "-5.5" or float(trail[0]["after"]["amount"]) == -5.5

    async def test_happen_once_under_one_key(self, service: Service, merchant: Party) -> None:
        path = f"/accounts/{merchant.merchant_id}/wallet-adjustments"
        body = {"currency": "GBP", "amount": 1, "note": "once"}
        first = await service.ops("POST", path, body, **{"Idempotency-Key": "adjust-1"})
        again = await service.ops("POST", path, body, **{"Idempotency-Key": "adjust-1"})
        assert (again.status_code, again.content) == (201, first.content)

    async def test_refuse_what_makes_no_sense(self, service: Service, merchant: Party) -> None:
        for change, code in (
            ({"amount": 0}, "validation_error"),
            ({"amount": 1.001}, "validation_error"),
            ({"amount": "1e3"}, "validation_error"),
            ({"amount": 10**30}, "validation_error"),
            ({"currency": "XXX"}, "currency_not_supported"),
            ({"bucket": "reserve"}, "validation_error"),
            ({"unknown": 1}, "validation_error"),
        ):
            reply = await adjust(service, merchant, **{"amount": 1, **change})
            assert (reply.status_code, reply.json()["error"]["code"]) == (422, code), change

    async def test_need_an_account(self, service: Service) -> None:
        reply = await service.ops("POST", "/accounts/999999/wallet-adjustments", {"currency": "GBP", "amount": 1})
        assert reply.status_code == 404


class TestAudit:
    async def test_proves_a_sound_ledger_and_gives_its_head(self, service: Service, merchant: Party) -> None:
        await adjust(service, merchant, 100)
        reply = await service.ops("POST", "/audit/verify", {})
        assert reply.status_code == 200, reply.text
        report = reply.json()["data"]
        assert report["ok"] is True
        assert len(report["head"]) == 64
        assert {tuple(check) for check in report["checks"]} == {("name", "ok", "detail")}
        anchored = await service.ops("POST", "/audit/verify", {"anchor": report["head"]})
        assert anchored.json()["data"]["ok"] is True
        other = await service.ops("POST", "/audit/verify", {"anchor": "0" * 64})
        assert other.json()["data"]["ok"] is False

    async def test_says_where_a_row_was_changed(self, service: Service, merchant: Party, urls: Urls) -> None:
        await adjust(service, merchant, 100)
        await as_owner(urls, "UPDATE wallet SET main = main + 1")
        report = (await service.ops("POST", "/audit/verify")).json()["data"]
        assert report["ok"] is False
        wrong = {check["name"]: check["detail"] for check in report["checks"] if not check["ok"]}
        assert f"account {merchant.merchant_id}" in wrong["wallets_match_entries"]
