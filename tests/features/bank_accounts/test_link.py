"""/bank-accounts."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bursar.core.crypto import CannotOpen, Opener
from bursar.features.bank_accounts import service as bank_accounts
from tests.features.bank_accounts.factory import DE, GB, link
from tests.features.connected_accounts.factory import events_of
from tests.support.service import Service, running_service

pytestmark = pytest.mark.asyncio(loop_scope="module")


def _as(account_id: str) -> dict[str, Any]:
    return {"id": account_id}


class TestLink:
    async def test_only_a_safe_reference_is_shown(self, service: Service) -> None:
        merchant = await service.open_account()
        account = await link(service, merchant, {**GB, "bank_name": "Quay Bank"})
        assert account["id"].startswith("ba_")
        assert {name: account[name] for name in account if name not in ("id", "created_at")} == {
            "account_name": "Harbour Coffee Ltd", "bank_name": "Quay Bank", "currency": "GBP", "country": "GB",
            "last4": "9911", "use_for": "payout", "is_default": True, "status": "active", "name_check": "matched",
        }  # fmt: skip
        shown = await service.get(merchant, f"/bank-accounts/{account['id']}")
        listed = await service.get(merchant, "/bank-accounts")
        assert shown.json()["data"]["bank_account"] == account
        assert listed.json()["data"] == [account]
        [event] = await events_of(service, _as(merchant.account_id), "bank_account.created")
        assert event["data"]["bank_account"] == account
        for text in (shown.text, listed.text, str(event)):
            assert "55779911" not in text
            assert "200000" not in text

    async def test_the_numbers_are_readable_to_the_worker_alone(self, service: Service) -> None:
        merchant, other = await service.open_account(), await service.open_account()
        for party in (merchant, other):
            await link(service, party)
        rows = await service.db.fetch("SELECT * FROM bank_account WHERE account_id = ANY($1::bigint[]) ORDER BY id",
                                      [merchant.merchant_id, other.merchant_id])  # fmt: skip
        assert all(b"55779911" not in row["sealed"] and "55779911" not in row["lookup"] for row in rows)
        opener = Opener(service.settings.seal_private_key)
        assert bank_accounts.open_numbers(opener, rows[0]) == "GB 200000 55779911"
        moved = {**rows[0], "sealed": rows[1]["sealed"]}
        with pytest.raises(CannotOpen):
            bank_accounts.open_numbers(opener, moved)  # type: ignore[arg-type]

    async def test_abroad_it_is_an_iban(self, service: Service) -> None:
        merchant = await service.open_account()
        account = await link(service, merchant, DE)
        assert (account["country"], account["last4"], account["currency"]) == ("DE", "3000", "EUR")
        assert account["bank_name"] == "Commerzbank"
        assert account["is_default"] is True, "the first in its currency"

    async def test_one_default_for_each_use_and_currency(self, service: Service) -> None:
        merchant = await service.open_account()
        first = await link(service, merchant)
        second = await link(service, merchant, {**GB, "account_number": "12345611", "sort_code": "999999"})
        supplier = await link(
            service, merchant, {**GB, "account_number": "12345622", "sort_code": "999999", "use_for": "supplier"}
        )
        assert (second["is_default"], supplier["is_default"]) == (False, True)
        third = await link(
            service, merchant, {**GB, "account_number": "12345633", "sort_code": "999999", "is_default": True}
        )
        listed = (await service.get(merchant, "/bank-accounts?use_for=payout")).json()["data"]
        assert {account["id"]: account["is_default"] for account in listed} == {
            third["id"]: True, second["id"]: False, first["id"]: False,
        }  # fmt: skip


class TestValidation:
    @pytest.mark.parametrize(
        ("changes", "field"),
        [
            ({"account_name": ""}, "account_name"),
            ({"currency": "gbp"}, "currency"),
            ({"sort_code": "2000"}, "sort_code"),
            ({"sort_code": None}, "sort_code"),
            ({"account_number": "5577991"}, "account_number"),
            ({"account_number": "५५७७९९११"}, "account_number"),
            ({"account_number": "55779912"}, "account_number"),
            ({"country": "DE"}, "iban"),
            ({"iban": "GB33BUKB20201555555555"}, "iban"),
            ({"sort_code": None, "account_number": None, "iban": "DE00370400440532013000"}, "iban"),
            ({"sort_code": None, "account_number": None, "iban": "GB82WEST12345698765432", "country": "IE"}, "country"),
            ({"use_for": "holiday"}, "use_for"),
            ({"is_default": "yes"}, "is_default"),
            ({"email": "nobody"}, "email"),
        ],
    )
    async def test_bad_fields_are_named(self, service: Service, changes: dict[str, Any], field: str) -> None:
        merchant = await service.open_account()
        reply = await service.send(merchant, "POST", "/bank-accounts", {**GB, **changes})
        assert (reply.status_code, reply.json()["error"]["code"]) == (422, "validation_error"), reply.text
        assert field in reply.json()["error"]["details"]

    async def test_the_currency_must_be_enabled(self, service: Service) -> None:
        merchant = await service.open_account()
        reply = await service.send(merchant, "POST", "/bank-accounts", {**GB, "currency": "NOK"})
        assert reply.json()["error"]["code"] == "currency_not_supported"

    async def test_the_same_account_twice(self, service: Service) -> None:
        merchant, other = await service.open_account(), await service.open_account()
        await link(service, merchant)
        iban = {"account_name": "Harbour", "currency": "EUR", "iban": "GB60 BARC 2000 0055 7799 11"}
        for body in ({**GB, "sort_code": "200000"}, iban):
            reply = await service.send(merchant, "POST", "/bank-accounts", body)
            assert (reply.status_code, reply.json()["error"]["code"]) == (409, "duplicate_bank_account"), reply.text
        await link(service, other)  # another merchant may have it

    async def test_many_at_once_make_one_account_and_one_default(self, service: Service) -> None:
        merchant = await service.open_account()
        bodies = [GB, GB, *({**GB, "sort_code": "999999", "account_number": f"1234567{n}"} for n in range(6))]
        replies = await asyncio.gather(*(service.send(merchant, "POST", "/bank-accounts", body) for body in bodies))
        assert sorted(reply.status_code for reply in replies) == [201] * 7 + [409]
        listed = (await service.get(merchant, "/bank-accounts")).json()["data"]
        assert [account["is_default"] for account in listed].count(True) == 1

    async def test_there_is_a_largest_number(self, service: Service) -> None:
        merchant = await service.open_account()
        await service.db.execute(
            """
            INSERT INTO bank_account (account_id, id, account_name, bank_name, currency, country, last4, use_for,
                                      is_default, status, name_check, lookup, sealed, created_at, updated_at)
            SELECT $1, nextval('bank_account_id'), 'x', '', 'GBP', 'GB', '0000', 'other', false, 'active', 'matched',
                   'n' || n, '', now(), now()
            FROM generate_series(1, 50) AS n
            """,
            merchant.merchant_id,
        )
        reply = await service.send(merchant, "POST", "/bank-accounts", GB)
        assert (reply.status_code, reply.json()["error"]["code"]) == (422, "bank_account_create_failed")

    async def test_what_is_not_there(self, service: Service) -> None:
        merchant, other = await service.open_account(), await service.open_account()
        account = await link(service, other)
        for name in (account["id"], "ba_999999", "ba_", "ba_x", "1001", "ba_99999999999999999999"):
            reply = await service.get(merchant, f"/bank-accounts/{name}")
            assert (reply.status_code, reply.json()["error"]["code"]) == (404, "bank_account_not_found"), name


class TestSimulatedBank:
    async def test_its_numbers_pass_and_say_what_will_happen(self, service: Service) -> None:
        merchant = await service.open_account()
        for number in ("00000001", "00000002", "00000003"):
            account = await link(service, merchant, {**GB, "account_number": number})
            assert (account["status"], account["name_check"]) == ("active", "matched")
        rows = await service.db.fetch(
            "SELECT scenario FROM bank_account WHERE account_id = $1 ORDER BY id", merchant.merchant_id
        )
        assert [row["scenario"] for row in rows] == ["account_closed", "no_account", "returned"]

    async def test_a_name_that_does_not_match_waits_for_staff(self, service: Service) -> None:
        merchant = await service.open_account(status="pending")
        account = await link(service, merchant, {**GB, "account_number": "00000004"})
        assert (account["status"], account["name_check"]) == ("pending", "no_match")
        shown = (await service.get(merchant, "/account")).json()["data"]["account"]
        assert shown["requirements"]["pending_verification"] == ["bank_account"]
        assert shown["status"] == "pending"
        reply = await service.ops("POST", f"/bank-accounts/{account['id']}/decide", {"decision": "active"})
        assert reply.json()["data"]["bank_account"]["status"] == "active"
        assert (await service.get(merchant, "/account")).json()["data"]["account"]["status"] == "active"

    async def test_staff_disable_an_account(self, service: Service) -> None:
        merchant = await service.open_account()
        account = await link(service, merchant)
        for _ in range(2):
            reply = await service.ops("POST", f"/bank-accounts/{account['id']}/decide", {"decision": "disabled"})
            shown = reply.json()["data"]["bank_account"]
            assert (shown["status"], shown["is_default"]) == ("disabled", False)
        [event] = await events_of(service, _as(merchant.account_id), "bank_account.disabled")
        assert event["previous"] == {"status": "active"}
        missing = await service.ops("POST", "/bank-accounts/ba_1/decide", {"decision": "disabled"})
        assert missing.json()["error"]["code"] == "bank_account_not_found", "samples are out of reach"

    async def test_the_sandbox_has_one_in_every_state(self, service: Service) -> None:
        merchant = await service.open_account()
        listed = (await service.get(merchant.test_secret_key, "/sandbox/v2/bank-accounts?sort=id")).json()["data"]
        assert [(account["id"], account["status"]) for account in listed] == [
            ("ba_1", "active"), ("ba_2", "pending"), ("ba_3", "disabled"), ("ba_4", "active"),
        ]  # fmt: skip
        reply = await service.send(merchant.test_secret_key, "POST", "/sandbox/v2/bank-accounts", DE)
        assert reply.status_code == 201

    async def test_a_live_instance_has_none(self, service: Service) -> None:
        merchant, other = await service.open_account(), await service.open_account()
        live = {name: getattr(service.settings, name) for name in ("key_pepper", "seal_public_key", "seal_private_key")}
        async with running_service(service.urls, worker=False, env="live", **live) as running:
            account = await link(running, merchant)
            assert (account["status"], account["name_check"]) == ("active", "not_checked")
            reply = await running.send(other, "POST", "/bank-accounts", {**GB, "account_number": "00000001"})
            assert list(reply.json()["error"]["details"]) == ["account_number"], "checked like any other"

    async def test_the_banned_cannot_link(self, service: Service) -> None:
        merchant = await service.open_account(status="banned")
        reply = await service.send(merchant, "POST", "/bank-accounts", GB)
        assert (reply.status_code, reply.json()["error"]["code"]) == (403, "account_banned")
