"""`bursar accounts`, `bursar keys` and `bursar webhooks` against a running service."""

from __future__ import annotations

from tests.cli.conftest import Run
from tests.support.service import Service

NEW = ("accounts", "create", "--name", "Quay [1] Ltd", "--email", "quay@example.com")


class TestAccounts:
    async def test_create_shows_the_keys_once(self, bursar: Run, service: Service) -> None:
        opened = (await bursar(*NEW, "--json")).data
        assert opened["secret_key"].startswith("sk_live_")
        reply = await service.get(opened["secret_key"], "/account")
        assert reply.json()["data"]["account"]["business_company_name"] == "Quay [1] Ltd"

    async def test_create_for_people(self, bursar: Run) -> None:
        result = await bursar(*NEW)
        assert result.status == 0
        assert "sk_live_" in result.out
        assert "shown this once" in result.out
        assert result.err == ""

    async def test_create_of_a_platform_with_a_connected_account(self, bursar: Run) -> None:
        platform = (await bursar(*NEW, "--kind", "platform", "--partner-enabled", "--json")).data
        options = ("--name", "Stall", "--email", "stall@example.com", "--platform", str(platform["merchant_id"]))
        connected = (await bursar("accounts", "create", *options, "--json")).data
        shown = (await bursar("accounts", "show", connected["account_id"], "--json")).data
        assert shown["platform"] == platform["account_id"]

    async def test_list_and_search(self, bursar: Run, service: Service) -> None:
        await service.open_account(name="Harbour")
        await service.open_account(name="Meadow")
        assert len((await bursar("accounts", "list", "--json")).data) == 2
        found = (await bursar("accounts", "list", "--search", "Mead", "--json")).data
        assert [account["business_company_name"] for account in found] == ["Meadow"]
        for_people = await bursar("accounts", "list", "--per-page", "1")
        assert "Meadow" in for_people.out
        assert "Page 1 of 2, 2 in all." in for_people.out

    async def test_list_of_none(self, bursar: Run) -> None:
        assert (await bursar("accounts", "list")).out == "No accounts.\n"

    async def test_show_by_number_and_by_id(self, bursar: Run, service: Service) -> None:
        party = await service.open_account()
        for name in (str(party.merchant_id), party.account_id):
            result = await bursar("accounts", "show", name)
            assert party.account_id in result.out
            assert "sk_live_" not in result.out

    async def test_update(self, bursar: Run, service: Service) -> None:
        party = await service.open_account()
        changes = ("--status", "review", "--payments-paused", "--capability", "payouts=active")
        shown = (await bursar("accounts", "update", str(party.merchant_id), *changes, "--json")).data
        assert (shown["status"], shown["payments_paused"]) == ("review", True)
        assert shown["capabilities"]["payouts"] == "active"
        shown = (await bursar("accounts", "update", str(party.merchant_id), "--no-payments-paused", "--json")).data
        assert shown["payments_paused"] is False

    async def test_update_keeps_every_digit_of_a_price(self, bursar: Run, service: Service) -> None:
        party = await service.open_account()
        name = next(iter((await bursar("accounts", "show", party.account_id, "--json")).data["merchant_pricing"]))
        result = await bursar("accounts", "update", party.account_id, "--price", f"{name}=1.1000", "--json")
        assert f'"{name}": 1.1' in result.out

    async def test_update_of_nothing_is_a_wrong_call(self, bursar: Run, service: Service) -> None:
        party = await service.open_account()
        for options in ((), ("--price", "x"), ("--price", "x=abc")):
            assert (await bursar("accounts", "update", party.account_id, *options)).status == 2


class TestKeys:
    async def test_create_and_revoke(self, bursar: Run, service: Service) -> None:
        party = await service.open_account()
        new = (await bursar("keys", "create", party.account_id, "--json")).data
        assert (await service.get(new["key"], "/account")).status_code == 200
        revoked = await bursar("keys", "revoke", party.account_id, str(new["id"]))
        assert "revoked_at" in revoked.out
        assert (await service.get(new["key"], "/account")).status_code == 401

    async def test_restricted(self, bursar: Run, service: Service) -> None:
        party = await service.open_account()
        scopes = ("--scope", "webhooks:read", "--scope", "payments:write")
        result = await bursar("keys", "create", party.account_id, "--kind", "restricted", *scopes)
        assert "rk_live_" in result.out
        assert "webhooks:read, payments:write" in result.out

    async def test_revoking_what_is_not_there(self, bursar: Run, service: Service) -> None:
        party = await service.open_account()
        result = await bursar("keys", "revoke", party.account_id, "999999")
        assert (result.status, result.out) == (1, "")
        assert result.err.startswith("bursar: ")
        assert result.err.count("\n") == 1


class TestWebhooks:
    async def test_create(self, bursar: Run, service: Service) -> None:
        party = await service.open_account()
        made = (await bursar("webhooks", "create", party.account_id, "https://example.com/hook", "--json")).data
        assert made["events"] == ["*"]
        assert made["secret"].startswith("whsec_")
        reply = await service.get(party, f"/webhooks/{made['id']}")
        assert reply.json()["data"]["webhook"]["url"] == "https://example.com/hook"

    async def test_refused_by_the_service(self, bursar: Run, service: Service) -> None:
        party = await service.open_account()
        result = await bursar("webhooks", "create", party.account_id, "ftp://example.com", "--event", "no.such")
        assert result.status == 1
        assert "validation_error" in result.err
        assert result.err.count("\n") == 1
