"""An account's own keys, and those the operator issues for it."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest

from tests.support.service import Party, Service

pytestmark = pytest.mark.asyncio(loop_scope="module")


def _code(reply: httpx.Response) -> tuple[int, str]:
    return reply.status_code, reply.json()["error"]["code"]


async def _keys(bursar: Service, party: Party | str) -> list[dict[str, Any]]:
    keys: list[dict[str, Any]] = (await bursar.get(party, "/api-keys?sort=id")).json()["data"]
    return keys


async def _issue(bursar: Service, party: Party, kind: str, scopes: list[str] | None = None) -> httpx.Response:
    body: dict[str, Any] = {"kind": kind} | ({"scopes": scopes} if scopes is not None else {})
    return await bursar.ops("POST", f"/accounts/{party.merchant_id}/keys", body)


class TestList:
    async def test_shows_hints_and_never_secrets(self, bursar: Service) -> None:
        merchant = await bursar.open_account()
        reply = await bursar.get(merchant, "/api-keys")
        assert [key["kind"] for key in reply.json()["data"]] == ["test", "secret"]
        assert merchant.secret_key not in reply.text
        for key, secret in zip(reply.json()["data"], (merchant.test_secret_key, merchant.secret_key), strict=True):
            assert key["hint"] == f"{secret[:8]}…{secret[-4:]}"
            assert (key["revoked_at"], key["expires_at"], key["replaces_id"]) == (None, None, None)

    async def test_only_one_s_own(self, bursar: Service) -> None:
        one, other = await bursar.open_account(), await bursar.open_account()
        numbers = {key["id"] for key in await _keys(bursar, one)}
        assert numbers.isdisjoint(key["id"] for key in await _keys(bursar, other))


class TestIssue:
    @pytest.mark.parametrize(("kind", "prefix"), [("secret", "sk_live_"), ("test", "sk_test_")])
    async def test_full_keys(self, bursar: Service, kind: str, prefix: str) -> None:
        merchant = await bursar.open_account()
        reply = await _issue(bursar, merchant, kind)
        assert reply.status_code == 201
        assert re.fullmatch(prefix + "[0-9A-Za-z]{38}", reply.json()["data"]["key"])

    async def test_restricted_keys_list_their_scopes(self, bursar: Service) -> None:
        merchant = await bursar.open_account()
        data = (await _issue(bursar, merchant, "restricted", ["accounts:read", "webhooks:read"])).json()["data"]
        assert data["scopes"] == ["accounts:read", "webhooks:read"]
        assert (await bursar.get(data["key"], "/account")).status_code == 200

    @pytest.mark.parametrize(
        ("kind", "scopes"),
        [("restricted", None), ("restricted", []), ("restricted", ["payments"]), ("restricted", ["payments:admin"]),
         ("restricted", ["*"]), ("secret", ["payments:read"]), ("public", None), ("operator", None)],
    )  # fmt: skip
    async def test_refuses(self, bursar: Service, kind: str, scopes: list[str] | None) -> None:
        merchant = await bursar.open_account()
        assert _code(await _issue(bursar, merchant, kind, scopes)) == (422, "validation_error")

    async def test_for_nobody(self, bursar: Service) -> None:
        reply = await bursar.ops("POST", "/accounts/999999/keys", {"kind": "secret"})
        assert _code(reply) == (404, "account_not_found")


class TestRotate:
    async def test_keeps_kind_and_scopes(self, bursar: Service) -> None:
        merchant = await bursar.open_account()
        issued = (await _issue(bursar, merchant, "restricted", ["accounts:read"])).json()["data"]
        reply = await bursar.send(merchant, "POST", f"/api-keys/{issued['id']}/rotate", {})
        newer = reply.json()["data"]["api_key"]
        assert (reply.status_code, newer["kind"], newer["scopes"]) == (200, "restricted", ["accounts:read"])
        assert newer["key"] != issued["key"]

    async def test_somebody_else_s_key_is_not_found(self, bursar: Service) -> None:
        one, other = await bursar.open_account(), await bursar.open_account()
        number = (await _keys(bursar, other))[0]["id"]
        for named in (number, 999999, "x"):
            assert _code(await bursar.send(one, "POST", f"/api-keys/{named}/rotate", {})) == (404, "not_found")
        assert (await bursar.get(other, "/account")).status_code == 200

    @pytest.mark.parametrize("grace", [-1, 604_801, "60", 1.5])
    async def test_a_grace_period_of_at_most_a_week(self, bursar: Service, grace: object) -> None:
        merchant = await bursar.open_account()
        number = (await _keys(bursar, merchant))[0]["id"]
        reply = await bursar.send(merchant, "POST", f"/api-keys/{number}/rotate", {"grace_seconds": grace})
        assert _code(reply) == (422, "validation_error")

    async def test_a_revoked_key_has_no_successor(self, bursar: Service) -> None:
        merchant = await bursar.open_account()
        number = next(key["id"] for key in await _keys(bursar, merchant) if key["kind"] == "test")
        await bursar.send(merchant, "DELETE", f"/api-keys/{number}")
        reply = await bursar.send(merchant, "POST", f"/api-keys/{number}/rotate", {})
        assert _code(reply) == (422, "key_not_rotatable")


class TestRevoke:
    async def test_by_the_operator(self, bursar: Service) -> None:
        merchant = await bursar.open_account()
        number = next(key["id"] for key in await _keys(bursar, merchant) if key["kind"] == "secret")
        reply = await bursar.ops("DELETE", f"/accounts/{merchant.merchant_id}/keys/{number}")
        assert reply.json()["data"]["revoked_at"] is not None
        assert _code(await bursar.get(merchant, "/account")) == (401, "invalid_credentials")

    async def test_again_keeps_the_first_moment(self, bursar: Service) -> None:
        merchant = await bursar.open_account()
        number = next(key["id"] for key in await _keys(bursar, merchant) if key["kind"] == "test")
        first = await bursar.send(merchant, "DELETE", f"/api-keys/{number}")
        again = await bursar.send(merchant, "DELETE", f"/api-keys/{number}")
        assert first.json() == again.json()

    async def test_of_another_account_is_not_found(self, bursar: Service) -> None:
        one, other = await bursar.open_account(), await bursar.open_account()
        number = (await _keys(bursar, other))[0]["id"]
        assert _code(await bursar.send(one, "DELETE", f"/api-keys/{number}")) == (404, "not_found")
        reply = await bursar.ops("DELETE", f"/accounts/{one.merchant_id}/keys/{number}")
        assert _code(reply) == (404, "not_found")


class TestABannedAccount:
    async def test_sees_its_keys_and_changes_none(self, bursar: Service) -> None:
        merchant = await bursar.open_account()
        number = (await _keys(bursar, merchant))[0]["id"]
        await bursar.ops("PATCH", f"/accounts/{merchant.merchant_id}", {"status": "banned"})
        assert len(await _keys(bursar, merchant)) == 2
        for method, path in (("POST", f"/api-keys/{number}/rotate"), ("DELETE", f"/api-keys/{number}")):
            assert _code(await bursar.send(merchant, method, path, {})) == (403, "account_banned")
