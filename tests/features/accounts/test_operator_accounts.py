"""The operator opens, finds and changes accounts, and adds teams and partners."""

from __future__ import annotations

import asyncio
import re
import secrets
from typing import Any

import httpx
import pytest

from tests.support.service import Party, Service

pytestmark = pytest.mark.asyncio(loop_scope="module")


def _new(**fields: Any) -> dict[str, Any]:
    return {"kind": "merchant", "name": "A shop", "email": f"{secrets.token_hex(5)}@example.com", **fields}


def _code(reply: httpx.Response) -> tuple[int, str]:
    return reply.status_code, reply.json()["error"]["code"]


async def _events(bursar: Service, number: int) -> list[str]:
    rows = await bursar.db.fetch("SELECT type FROM event WHERE account_id = $1 ORDER BY id", number)
    return [row["type"] for row in rows]


class TestOpen:
    async def test_shows_the_keys_this_once(self, bursar: Service) -> None:
        reply = await bursar.ops("POST", "/accounts", _new())
        bundle = reply.json()["data"]
        assert reply.status_code == 201
        assert set(bundle) == {
            "account_id", "merchant_id", "kind", "secret_key", "test_secret_key", "public_key", "client_key"
        }  # fmt: skip
        assert re.fullmatch(rf"acc[0-9a-z]{{16}}_{bundle['merchant_id']}", bundle["account_id"])
        for name, prefix in (
            ("secret_key", "sk_live_"), ("test_secret_key", "sk_test_"), ("public_key", "pk_live_"),
            ("client_key", "ck_live_"),
        ):  # fmt: skip
            assert re.fullmatch(prefix + "[0-9A-Za-z]{38}", bundle[name])
        shown = (await bursar.ops("GET", f"/accounts/{bundle['merchant_id']}")).text
        assert bundle["secret_key"] not in shown
        assert bundle["test_secret_key"] not in shown

    async def test_defaults(self, bursar: Service) -> None:
        merchant = await bursar.open_account()
        account = (await bursar.ops("GET", f"/accounts/{merchant.account_id}")).json()["data"]
        expected = {
            "status": "active", "kyc_status": "verified", "country_code": "GB", "currency": "GBP", "platform": None,
            "fee_payer": "connected_account", "connect_enabled": False, "partner_enabled": False,
        }  # fmt: skip
        assert {name: account[name] for name in expected} == expected
        platform = await bursar.open_account("platform")
        assert (await bursar.ops("GET", f"/accounts/{platform.merchant_id}")).json()["data"]["connect_enabled"] is True

    async def test_under_a_platform_by_either_id(self, bursar: Service) -> None:
        platform = await bursar.open_account("platform")
        for owner in (platform.account_id, platform.merchant_id, str(platform.merchant_id)):
            shop = await bursar.open_account(platform=owner)
            assert (await bursar.get(platform, "/account", Service_Account=shop.account_id)).status_code == 200
            assert await _events(bursar, shop.merchant_id) == ["connected_account.created"]

    async def test_a_connected_e_mail_address_is_used_once(self, bursar: Service) -> None:
        platform = await bursar.open_account("platform")
        body = _new(platform=platform.merchant_id)
        replies = await asyncio.gather(*(bursar.ops("POST", "/accounts", body) for _ in range(5)))
        assert sorted(reply.status_code for reply in replies) == [201, 409, 409, 409, 409]
        reply = await bursar.ops("POST", "/accounts", {**body, "email": body["email"].upper()})
        assert _code(reply) == (409, "connected_account_duplicate")

    @pytest.mark.parametrize(
        ("fields", "bad"),
        [
            ({"kind": "shop"}, "kind"),
            ({"name": ""}, "name"),
            ({"name": "x" * 256}, "name"),
            ({"email": "nobody"}, "email"),
            ({"country_code": "gb"}, "country_code"),
            ({"currency": "gbp"}, "currency"),
            ({"status": "odd"}, "status"),
            ({"platform": 999999}, "platform"),
            ({"platform": "nonsense"}, "platform"),
            ({"platform": "1"}, "platform"),
            ({"partner_enabled": 1}, "partner_enabled"),
        ],
    )
    async def test_refuses(self, bursar: Service, fields: dict[str, Any], bad: str) -> None:
        reply = await bursar.ops("POST", "/accounts", _new(**fields))
        assert _code(reply) == (422, "validation_error")
        assert any(name.startswith(bad) for name in reply.json()["error"]["details"])

    async def test_only_merchants_are_connected_and_only_to_platforms(self, bursar: Service) -> None:
        merchant, platform = await bursar.open_account(), await bursar.open_account("platform")
        for body in (_new(platform=merchant.merchant_id), _new(kind="platform", platform=platform.merchant_id)):
            assert _code(await bursar.ops("POST", "/accounts", body)) == (422, "validation_error")

    async def test_a_currency_that_is_not_enabled(self, bursar: Service) -> None:
        assert _code(await bursar.ops("POST", "/accounts", _new(currency="JPY"))) == (422, "currency_not_supported")


class TestFind:
    async def test_by_either_id(self, bursar: Service) -> None:
        merchant = await bursar.open_account()
        for named in (merchant.account_id, merchant.merchant_id):
            data = (await bursar.ops("GET", f"/accounts/{named}")).json()["data"]
            assert data["account_id"] == merchant.account_id

    async def test_the_sandbox_s_accounts_are_nobody_s(self, bursar: Service) -> None:
        for named in ("1", "3", "accsandb0xc0nnected_3", "999999", "x", f"acc{'0' * 16}_1001"):
            assert _code(await bursar.ops("GET", f"/accounts/{named}")) == (404, "account_not_found")

    async def test_by_words_kind_status_and_platform(self, bursar: Service) -> None:
        word = secrets.token_hex(6)
        platform = await bursar.open_account("platform", name=f"100% {word}_A")
        shop = await bursar.open_account(name=f"100% {word}_B", platform=platform.merchant_id, status="pending")
        for query, found in (
            (f"q={word}", 2),
            (f"q={word.upper()}", 2),
            (f"q=100%25+{word}", 2),
            (f"q={word}_", 2),
            (f"q={word}%25", 0),
            (f"q={word}xA", 0),
            (f"q={word}&kind=platform", 1),
            (f"q={word}&status=pending", 1),
            (f"q={word}&platform={platform.merchant_id}", 1),
            (f"q={shop.account_id}", 1),
        ):
            reply = await bursar.ops("GET", f"/accounts?{query}")
            assert reply.json()["meta"]["pagination"]["total"] == found, query

    async def test_sorted_and_paged(self, bursar: Service) -> None:
        word = secrets.token_hex(6)
        numbers = [(await bursar.open_account(name=f"{word} {n % 2}")).merchant_id for n in range(5)]
        seen = []
        for page in (1, 2, 3):
            reply = await bursar.ops("GET", f"/accounts?q={word}&sort=name&per_page=2&page={page}")
            seen += [account["merchant_id"] for account in reply.json()["data"]]
            assert reply.json()["meta"]["pagination"] == {
                "current_page": page, "per_page": 2, "total": 5, "last_page": 3
            }  # fmt: skip
        assert seen == [*numbers[0::2], *numbers[1::2]], "by name, then by number"
        beyond = (await bursar.ops("GET", f"/accounts?q={word}&per_page=2&page=9")).json()
        assert (beyond["data"], beyond["meta"]["pagination"]["total"]) == ([], 5)

    async def test_an_unknown_sort(self, bursar: Service) -> None:
        reply = await bursar.ops("GET", "/accounts?sort=email;drop")
        assert _code(reply) == (422, "validation_error")
        assert "sort" in reply.json()["error"]["details"]


class TestChange:
    async def _change(self, bursar: Service, party: Party, **fields: Any) -> httpx.Response:
        return await bursar.ops("PATCH", f"/accounts/{party.merchant_id}", fields)

    async def test_each_field(self, bursar: Service) -> None:
        merchant = await bursar.open_account()
        fields: dict[str, Any] = {
            "kyc_status": "rejected", "connect_status": "paused", "connect_enabled": True, "payments_paused": True,
            "payouts_paused": True, "partner_enabled": True,
        }  # fmt: skip
        data = (await self._change(bursar, merchant, **fields)).json()["data"]
        assert {name: data[name] for name in fields} == fields

    async def test_prices_are_exact_and_merged(self, bursar: Service) -> None:
        merchant = await bursar.open_account()
        await self._change(bursar, merchant, merchant_pricing={"api_fixed_fee": "0.10"})
        data = (await self._change(bursar, merchant, merchant_pricing={"api_percent_fee": 1.25})).json()["data"]
        pricing = data["merchant_pricing"]
        assert (pricing["api_fixed_fee"], pricing["api_percent_fee"], pricing["status"]) == (0.10, 1.25, "custom")
        assert pricing["card_percent_fee"] == 1.40

    async def test_refuses(self, bursar: Service) -> None:
        merchant = await bursar.open_account()
        for fields in (
            {"status": "odd"}, {"merchant_pricing": {"odd": 1}}, {"merchant_pricing": {"api_fixed_fee": -1}},
            {"capabilities": {"fly": "active"}}, {"capabilities": {"payments": "odd"}}, {"payments_paused": "yes"},
            {"odd": 1},
        ):  # fmt: skip
            assert _code(await self._change(bursar, merchant, **fields)) == (422, "validation_error")

    async def test_tells_of_it_only_when_something_changed(self, bursar: Service) -> None:
        platform = await bursar.open_account("platform")
        shop = await bursar.open_account(platform=platform.merchant_id)
        await self._change(bursar, shop, status="review")
        await self._change(bursar, shop, status="review")
        await self._change(bursar, shop)
        assert await _events(bursar, shop.merchant_id) == [
            "connected_account.created", "account.update", "connected_account.review"
        ]  # fmt: skip

    async def test_of_nobody(self, bursar: Service) -> None:
        assert _code(await bursar.ops("PATCH", "/accounts/999999", {})) == (404, "account_not_found")


class TestTeamAndPartners:
    async def test_a_person_is_in_a_team_once(self, bursar: Service) -> None:
        merchant = await bursar.open_account()
        body = {"name": "Ada", "email": "Ada@example.com"}
        reply = await bursar.ops("POST", f"/accounts/{merchant.merchant_id}/team", body)
        assert (reply.status_code, reply.json()["data"]["name"]) == (201, "Ada")
        again = await bursar.ops("POST", f"/accounts/{merchant.merchant_id}/team", {**body, "email": "ada@example.com"})
        assert _code(again) == (409, "duplicate_resource")

    async def test_a_partner_is_a_platform_of_its_own(self, bursar: Service) -> None:
        parent = await bursar.open_account("platform", partner_enabled=True)
        body = {"name": "Partner", "email": "partner@example.com", "model": "revenue_share", "share_percent": "12.50",
                "policies": {"max_transfer": "100.25", "funds": False}}  # fmt: skip
        reply = await bursar.ops("POST", f"/accounts/{parent.merchant_id}/partners", body)
        bundle = reply.json()["data"]
        assert (reply.status_code, bundle["kind"], bundle["partner_id"]) == (201, "platform", bundle["merchant_id"])
        assert (await bursar.get(bundle["secret_key"], "/account")).status_code == 200
        row = await bursar.db.fetchrow("SELECT * FROM partner WHERE id = $1", bundle["partner_id"])
        assert row is not None
        assert (row["state"], row["share_bps"], row["policies"]["max_transfer_minor"]) == ("active", 1250, 10025)

    async def test_needs_a_parent_that_may_have_partners(self, bursar: Service) -> None:
        body = {"name": "Partner", "email": "partner@example.com"}
        for parent in (await bursar.open_account("platform"), await bursar.open_account()):
            reply = await bursar.ops("POST", f"/accounts/{parent.merchant_id}/partners", body)
            assert _code(reply) == (422, "validation_error")
