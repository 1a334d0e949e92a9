"""GET /balances, its alias, and the identities between what they show."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from bursar.core.calendar import settlement_date
from bursar.db.clock import instance_now
from bursar.ledger import journals
from bursar.ledger.post import post
from tests.support.service import Party, Service


async def balances(service: Service, party: Party, **headers: str) -> dict[str, Any]:
    reply = await service.get(party, "/balances", **headers)
    assert reply.status_code == 200, reply.text
    data: dict[str, Any] = reply.json()["data"]
    return data


class TestBalances:
    async def test_of_a_new_account_are_zero_in_its_own_currency(self, service: Service) -> None:
        merchant = await service.open_account(currency="EUR")
        data = await balances(service, merchant)
        wallet = data["wallets"][0]
        assert data["account_id"] == merchant.account_id
        assert len(data["wallets"]) == 1
        assert wallet.pop("updated_at").endswith("Z")
        assert wallet == {
            "id": 0,
            "account_id": merchant.account_id,
            "currency": {"id": 978, "code": "EUR", "symbol": "€"},
            "available": 0.0,
            "pending_funds": 0.0,
            "standard_available": 0.0,
            "instant_available": 0.0,
            "reserve_balance": 0.0,
            "business_balance": 0.0,
        }
        assert data["card"] == {
            "active": 0, "blocked": 0, "pending_authorisations": 0, "spent_30d": 0.0, "currency": "EUR",
        }  # fmt: skip
        assert data["issuing"] == {
            "enabled": False, "status": "not_enabled", "available": 0.0, "pending": 0.0, "currency": "EUR",
            "updated_at": None,
        }  # fmt: skip

    async def test_add_up(self, service: Service) -> None:
        merchant = await service.open_account()
        facts: dict[str, Any] = {"account_id": merchant.merchant_id, "currency": "GBP"}
        now = await instance_now(service.db)
        await post(
            service.db,
            [
                journals.adjustment(**facts, adjustment_id=1, amount=5_000),
                journals.payment(**facts, transaction_id=1, amount=2_500, settles_at=now + timedelta(days=2)),
                journals.reserve(**facts, hold_id=1, transaction_id=1, amount=1_000),
                journals.payment(
                    account_id=merchant.merchant_id, currency="USD", transaction_id=2, amount=1, settles_at=None
                ),
            ],
        )
        pounds, dollars = (await balances(service, merchant))["wallets"]
        assert pounds["id"] > 0
        assert pounds["available"] == 65.0
        assert pounds["available"] == pounds["standard_available"] + pounds["pending_funds"]
        assert (pounds["pending_funds"], pounds["standard_available"]) == (15.0, 50.0)
        assert pounds["reserve_balance"] == 10.0
        assert pounds["instant_available"] == 0.0  # off unless the account turns it on
        assert (dollars["currency"]["code"], dollars["available"]) == ("USD", 0.01)

    async def test_have_two_decimals_on_the_wire(self, service: Service) -> None:
        merchant = await service.open_account()
        reply = await service.get(merchant, "/balances")
        assert b'"available":0.00,' in reply.content

    async def test_alias_points_to_its_successor(self, service: Service) -> None:
        merchant = await service.open_account()
        reply = await service.get(merchant, "/balance")
        assert reply.json()["data"] == await balances(service, merchant)
        assert reply.headers["Deprecation"].startswith("@")
        assert 'rel="successor-version"' in reply.headers["Link"]
        assert "/balances" in reply.headers["Link"]

    async def test_of_a_connected_account_are_read_by_its_platform(self, service: Service) -> None:
        platform = await service.open_account("platform")
        shop = await service.open_account(platform=platform.merchant_id)
        stranger = await service.open_account()
        await service.ops(
            "POST", f"/accounts/{shop.merchant_id}/wallet-adjustments", {"currency": "GBP", "amount": 7, "note": "x"}
        )
        data = await balances(service, platform, Service_Account=shop.account_id)
        assert (data["account_id"], data["wallets"][0]["available"]) == (shop.account_id, 7.0)
        foreign = await service.get(platform, "/balances", Service_Account=stranger.account_id)
        assert foreign.status_code == 404

    async def test_need_a_key_with_their_scope(self, service: Service) -> None:
        merchant = await service.open_account()
        path = f"/accounts/{merchant.merchant_id}/keys"
        for scopes, status in ((["balances:read"], 200), (["payouts:read"], 403)):
            key = (await service.ops("POST", path, {"kind": "restricted", "scopes": scopes})).json()["data"]
            assert (await service.get(key["key"], "/balances")).status_code == status
            assert (await service.get(key["key"], "/wallet-transactions")).status_code == status


class TestSettlement:
    async def test_happens_on_the_second_business_day(self, service: Service) -> None:
        merchant = await service.open_account()
        now = await instance_now(service.db)
        due = settlement_date(now)
        journal = journals.payment(
            account_id=merchant.merchant_id, transaction_id=1, currency="GBP", amount=900, settles_at=due
        )
        await post(service.db, [journal])

        async def advance(seconds: float) -> tuple[float, float]:
            reply = await service.ops("POST", "/clock/advance", {"seconds": int(seconds)})
            assert reply.status_code == 200, reply.text
            wallet = (await balances(service, merchant))["wallets"][0]
            return wallet["standard_available"], wallet["pending_funds"]

        assert await advance((due - now).total_seconds() - 300) == (0.0, 9.0)
        assert await advance(600) == (9.0, 0.0)
