"""GET and PATCH /connected-accounts/{account_id}, and the list."""

from __future__ import annotations

import pytest

from tests.features.connected_accounts.factory import connect, events_of
from tests.support.service import Service

pytestmark = pytest.mark.asyncio(loop_scope="module")


class TestRead:
    async def test_by_full_id_and_by_number(self, service: Service) -> None:
        platform = await service.open_account("platform")
        account = await connect(service, platform)
        number = account["id"].rpartition("_")[2]
        for name in (account["id"], number):
            reply = await service.get(platform, f"/connected-accounts/{name}")
            assert reply.status_code == 200
            assert reply.json()["data"]["account"] == account
            assert ("Deprecation" in reply.headers) == (name == number), "the bare number is a legacy name"
        mine = await service.get(platform, "/account", Service_Account=account["id"])
        assert mine.json()["data"]["account"]["requirements"] == account["requirements"]
        assert mine.json()["data"]["account"]["capabilities"] == account["capabilities"]

    async def test_the_list_pages_filters_and_sorts(self, service: Service) -> None:
        platform, other = await service.open_account("platform"), await service.open_account("platform")
        names = ["Alpha Bakery", "Beta Books", "Gamma Garage"]
        made = [await connect(service, platform, business_company_name=name) for name in names]
        await connect(service, other)
        await service.ops("PATCH", f"/accounts/{made[1]['id']}", {"status": "review"})

        async def ids(query: str) -> list[str]:
            reply = await service.get(platform, f"/connected-accounts{query}")
            assert reply.status_code == 200, reply.text
            return [account["business_company_name"] for account in reply.json()["data"]]

        assert await ids("") == names[::-1]
        assert await ids("?sort=id") == names
        assert await ids("?sort=-created_at&per_page=2") == ["Gamma Garage", "Beta Books"]
        assert await ids("?status=review") == ["Beta Books"]
        assert await ids("?kyc_status=pending&q=gar") == ["Gamma Garage"]
        assert await ids("?search=alpha%20b") == ["Alpha Bakery"]
        day = made[0]["created_at"][:10]
        assert await ids(f"?from={day}&to={made[1]['created_at']}") == ["Beta Books", "Alpha Bakery"]
        assert await ids("?to=2020-01-01") == []
        reply = await service.get(platform, "/connected-accounts?per_page=2&page=2")
        assert reply.json()["meta"]["pagination"] == {"current_page": 2, "per_page": 2, "total": 3, "last_page": 2}
        assert [account["id"] for account in reply.json()["data"]] == [made[0]["id"]]
        for bad in ("?from=yesterday", "?to=2026-02-30", "?per_page=101", "?sort=email", "?status=happy", "?page=0"):
            assert (await service.get(platform, f"/connected-accounts{bad}")).status_code == 422

    async def test_the_sandbox_shows_the_fixture(self, service: Service) -> None:
        platform = await service.open_account("platform")
        reply = await service.get(platform.test_secret_key, "/sandbox/v2/connected-accounts")
        assert [account["id"] for account in reply.json()["data"]] == ["accsandb0xc0nnected_3"]
        shown = (await service.get(platform.test_secret_key, "/sandbox/v2/connected-accounts/3")).json()
        assert shown["data"]["account"]["capabilities"]["payouts"] == "active"


class TestChange:
    async def test_every_field_and_one_event_with_what_was_before(self, service: Service) -> None:
        platform = await service.open_account("platform")
        account = await connect(service, platform, metadata={"a": "1"})
        changes = {
            "business_company_name": "Harbour Coffee Group Ltd",
            "mobile": "+44 7700 900999",
            "connect_email_sms_handle": "platform",
            "connect_status": "paused",
            "metadata": {"b": "2"},
        }
        reply = await service.send(platform, "PATCH", f"/connected-accounts/{account['id']}", changes)
        assert reply.status_code == 200, reply.text
        changed = reply.json()["data"]["account"]
        for name in ("business_company_name", "connect_email_sms_handle", "connect_status", "metadata"):
            assert changed[name] == changes[name]
        assert changed["capabilities"]["payments"] == "inactive"
        [event] = await events_of(service, account, "account.update")
        assert event["data"]["account"] == changed
        assert event["previous"] == {
            "business_company_name": "Harbour Coffee Ltd", "mobile": "+447700900123",
            "connect_email_sms_handle": "neropay", "connect_status": "active", "metadata": {"a": "1"},
        }  # fmt: skip

    async def test_nothing_new_is_no_event(self, service: Service) -> None:
        platform = await service.open_account("platform")
        account = await connect(service, platform)
        for body in (
            {},
            {"business_company_name": "Harbour Coffee Ltd"},
            {"mobile": "07700900123"},
            {"status": "active"},
        ):
            reply = await service.send(platform, "PATCH", f"/connected-accounts/{account['id']}", body)
            assert reply.json()["data"]["account"] == account
        assert await events_of(service, account, "account.update") == []

    async def test_bad_values_are_named(self, service: Service) -> None:
        platform = await service.open_account("platform")
        account = await connect(service, platform)
        bad = {"business_company_name": "", "mobile": None, "connect_email_sms_handle": "x", "connect_status": "banned",
               "metadata": None}  # fmt: skip
        reply = await service.send(platform, "PATCH", f"/connected-accounts/{account['id']}", bad)
        assert reply.status_code == 422
        assert set(reply.json()["error"]["details"]) == set(bad)
        reply = await service.send(platform, "PATCH", f"/connected-accounts/{account['id']}", {"mobile": "12"})
        assert list(reply.json()["error"]["details"]) == ["mobile"]

    async def test_only_staff_end_a_review(self, service: Service) -> None:
        platform = await service.open_account("platform")
        account = await connect(service, platform)
        path = f"/connected-accounts/{account['id']}"
        for status in ("paused", "active", "paused", "review", "review"):
            assert (await service.send(platform, "PATCH", path, {"connect_status": status})).status_code == 200
        for status in ("active", "paused"):
            reply = await service.send(platform, "PATCH", path, {"connect_status": status})
            assert (reply.status_code, reply.json()["error"]["code"]) == (403, "forbidden")
        assert (
            await service.ops("PATCH", f"/accounts/{account['id']}", {"connect_status": "active"})
        ).status_code == 200
        assert (await service.send(platform, "PATCH", path, {"connect_status": "paused"})).status_code == 200


class TestScope:
    async def test_errors_of_the_account_in_the_path(self, service: Service) -> None:
        platform, other = await service.open_account("platform"), await service.open_account("platform")
        account = await connect(service, platform)
        number = account["id"].rpartition("_")[2]
        strange = f"acc{'0' * 16}_{number}"
        for caller, name, status, code in (
            (other, account["id"], 404, "account_not_found"),
            (other, number, 404, "account_not_found"),
            (platform, strange, 404, "account_not_found"),
            (platform, platform.account_id, 404, "account_not_found"),
            (platform, "999999999", 404, "account_not_found"),
            (platform, "acc_1", 422, "invalid_account_id"),
            (platform, "me", 422, "invalid_account_id"),
        ):
            path = f"/connected-accounts/{name}"
            read = await service.get(caller, path)
            written = await service.send(caller, "PATCH", path, {"metadata": {}})
            for reply in (read, written):
                assert (reply.status_code, reply.json()["error"]["code"]) == (status, code), name

    async def test_who_is_no_platform_has_no_connected_accounts(self, service: Service) -> None:
        merchant, platform = await service.open_account("merchant"), await service.open_account("platform")
        account = await connect(service, platform)
        await service.ops("PATCH", f"/accounts/{platform.merchant_id}", {"connect_enabled": False})
        for caller in (merchant, platform):
            for method, path in (("GET", "/connected-accounts"), ("GET", f"/connected-accounts/{account['id']}"),
                                 ("PATCH", f"/connected-accounts/{account['id']}")):  # fmt: skip
                reply = await (service.get(caller, path) if method == "GET" else service.send(caller, method, path, {}))
                assert (reply.status_code, reply.json()["error"]["code"]) == (403, "connect_not_enabled")

    async def test_the_banned_may_read_but_not_write(self, service: Service) -> None:
        from tests.features.connected_accounts.factory import new_body

        platform = await service.open_account("platform")
        account = await connect(service, platform)
        path = f"/connected-accounts/{account['id']}"
        await service.ops("PATCH", f"/accounts/{account['id']}", {"status": "banned"})
        reply = await service.send(platform, "PATCH", path, {"metadata": {"a": "b"}})
        assert (reply.status_code, reply.json()["error"]["code"]) == (403, "account_banned")
        assert (await service.get(platform, path)).json()["data"]["account"]["requirements"][
            "disabled_reason"
        ] == "banned"
        assert [event["type"] for event in await events_of(service, account)][-1] == "connected_account.banned"
        await service.ops("PATCH", f"/accounts/{platform.merchant_id}", {"status": "banned"})
        reply = await service.send(platform, "POST", "/connected-accounts", new_body())
        assert (reply.status_code, reply.json()["error"]["code"]) == (403, "account_banned")

    async def test_restricted_keys_need_the_scope(self, service: Service) -> None:
        platform = await service.open_account("platform")
        body = {"kind": "restricted", "scopes": ["accounts:read"]}
        issued = (await service.ops("POST", f"/accounts/{platform.merchant_id}/keys", body)).json()["data"]
        key = issued["key"]
        assert (await service.get(key, "/connected-accounts")).status_code == 200
        reply = await service.send(key, "POST", "/connected-accounts", {})
        assert (reply.status_code, reply.json()["error"]["details"]) == (403, {"required_scope": "accounts:write"})
