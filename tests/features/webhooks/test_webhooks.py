"""/webhooks: register, read, change, rotate, delete."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from tests.support.service import Party, Service, running_service

pytestmark = pytest.mark.asyncio(loop_scope="module")

HOOK = {"url": "https://example.com/hook", "events": ["transaction.succeeded", "kyc.*"]}


def _code(reply: httpx.Response) -> tuple[int, str]:
    return reply.status_code, reply.json()["error"]["code"]


async def _create(bursar: Service, party: Party, **fields: Any) -> dict[str, Any]:
    reply = await bursar.send(party, "POST", "/webhooks", {**HOOK, **fields})
    assert reply.status_code == 201, reply.text
    webhook: dict[str, Any] = reply.json()["data"]["webhook"]
    return webhook


class TestRegister:
    async def test_shows_the_secret_this_once(self, bursar: Service) -> None:
        merchant = await bursar.open_account()
        webhook = await _create(bursar, merchant, description="Orders")
        assert webhook["secret"].startswith("whsec_")
        assert (webhook["status"], webhook["events"], webhook["description"]) == ("active", HOOK["events"], "Orders")
        shown = (await bursar.get(merchant, f"/webhooks/{webhook['id']}")).json()["data"]["webhook"]
        assert "secret" not in shown
        assert shown == {name: value for name, value in webhook.items() if name != "secret"}

    @pytest.mark.parametrize(
        "url",
        ["ftp://example.com/x", "https://", "https:///x", "not an address", "https://user:pw@example.com/",
         "https://example.com/#part", "https://example.com:99999/", "https://[::1", "javascript:alert(1)"],
    )  # fmt: skip
    async def test_refuses_an_address_that_is_none(self, bursar: Service, url: str) -> None:
        merchant = await bursar.open_account()
        reply = await bursar.send(merchant, "POST", "/webhooks", {**HOOK, "url": url})
        assert _code(reply) == (422, "validation_error")
        assert "url" in reply.json()["error"]["details"]

    @pytest.mark.parametrize(
        "events", [[], ["odd.event"], ["transaction"], ["*.succeeded"], "transaction.succeeded", [""]]
    )
    async def test_refuses_events_that_are_none(self, bursar: Service, events: object) -> None:
        merchant = await bursar.open_account()
        reply = await bursar.send(merchant, "POST", "/webhooks", {**HOOK, "events": events})
        assert _code(reply) == (422, "validation_error")

    async def test_sixteen_and_no_more_also_at_once(self, bursar: Service) -> None:
        merchant = await bursar.open_account()
        replies = await asyncio.gather(*(bursar.send(merchant, "POST", "/webhooks", HOOK) for _ in range(20)))
        assert sorted(reply.status_code for reply in replies) == [201] * 16 + [422] * 4
        assert _code(next(reply for reply in replies if reply.status_code == 422)) == (422, "webhook_limit_reached")

    async def test_a_live_instance_takes_https_alone(self, bursar: Service) -> None:
        merchant = await bursar.open_account()
        plain = {**HOOK, "url": "http://example.com/hook"}
        assert (await bursar.send(merchant, "POST", "/webhooks", plain)).status_code == 201
        async with running_service(bursar.urls, like=bursar, worker=False, env="live") as live:
            assert _code(await live.send(merchant, "POST", "/webhooks", plain)) == (422, "validation_error")


class TestReadAndChange:
    async def test_another_account_s_is_not_found(self, bursar: Service) -> None:
        one, other = await bursar.open_account(), await bursar.open_account()
        number = (await _create(bursar, other))["id"]
        for reply in (
            await bursar.get(one, f"/webhooks/{number}"),
            await bursar.send(one, "PATCH", f"/webhooks/{number}", {"description": "Mine"}),
            await bursar.send(one, "DELETE", f"/webhooks/{number}"),
            await bursar.send(one, "POST", f"/webhooks/{number}/rotate-secret", {}),
            await bursar.get(one, "/webhooks/999999"),
        ):
            assert _code(reply) == (404, "not_found")
        shown = (await bursar.get(other, f"/webhooks/{number}")).json()["data"]["webhook"]
        assert shown["description"] == ""

    async def test_a_platform_s_are_not_its_shop_s(self, bursar: Service) -> None:
        platform = await bursar.open_account("platform")
        shop = await bursar.open_account(platform=platform.merchant_id)
        number = (await _create(bursar, platform))["id"]
        assert _code(await bursar.get(shop, f"/webhooks/{number}")) == (404, "not_found")
        reply = await bursar.get(platform, f"/webhooks/{number}", Service_Account=shop.account_id)
        assert _code(reply) == (404, "not_found")

    async def test_is_listed_newest_first_and_by_status(self, bursar: Service) -> None:
        merchant = await bursar.open_account()
        numbers = [(await _create(bursar, merchant))["id"] for _ in range(3)]
        await bursar.send(merchant, "PATCH", f"/webhooks/{numbers[1]}", {"status": "paused"})
        listed = (await bursar.get(merchant, "/webhooks")).json()
        assert [hook["id"] for hook in listed["data"]] == numbers[::-1]
        assert listed["meta"]["pagination"] == {"current_page": 1, "per_page": 25, "total": 3, "last_page": 1}
        paused = (await bursar.get(merchant, "/webhooks?status=paused&limit=1")).json()
        assert [hook["id"] for hook in paused["data"]] == [numbers[1]]

    async def test_what_is_not_sent_stays(self, bursar: Service) -> None:
        merchant = await bursar.open_account()
        number = (await _create(bursar, merchant, description="Before"))["id"]
        changed = (await bursar.send(merchant, "PATCH", f"/webhooks/{number}", {"events": ["*"]})).json()
        assert changed["data"]["webhook"]["events"] == ["*"]
        assert changed["data"]["webhook"]["description"] == "Before"

    async def test_a_merchant_cannot_disable_it_as_we_do(self, bursar: Service) -> None:
        merchant = await bursar.open_account()
        number = (await _create(bursar, merchant))["id"]
        reply = await bursar.send(merchant, "PATCH", f"/webhooks/{number}", {"status": "disabled"})
        assert _code(reply) == (422, "validation_error")

    async def test_a_banned_account_changes_nothing(self, bursar: Service) -> None:
        merchant = await bursar.open_account()
        number = (await _create(bursar, merchant))["id"]
        await bursar.ops("PATCH", f"/accounts/{merchant.merchant_id}", {"status": "banned"})
        for method, path, body in (
            ("POST", "/webhooks", HOOK), ("PATCH", f"/webhooks/{number}", {}), ("DELETE", f"/webhooks/{number}", None)
        ):  # fmt: skip
            assert _code(await bursar.send(merchant, method, path, body)) == (403, "account_banned")
        assert (await bursar.get(merchant, f"/webhooks/{number}")).status_code == 200


class TestRotateAndDelete:
    async def test_a_new_secret_keeps_the_old_one_for_the_grace_period(self, bursar: Service) -> None:
        merchant = await bursar.open_account()
        webhook = await _create(bursar, merchant)
        path = f"/webhooks/{webhook['id']}/rotate-secret"
        newer = (await bursar.send(merchant, "POST", path, {"grace_seconds": 60})).json()["data"]["webhook"]
        assert newer["secret"] != webhook["secret"]
        row = await bursar.db.fetchrow(
            "SELECT previous_sealed, previous_until - instance_now() AS left FROM webhook WHERE id = $1", webhook["id"]
        )
        assert row is not None
        assert 50 <= row["left"].total_seconds() <= 60
        assert row["previous_sealed"]

    async def test_deleted_is_gone(self, bursar: Service) -> None:
        merchant = await bursar.open_account()
        number = (await _create(bursar, merchant))["id"]
        reply = await bursar.send(merchant, "DELETE", f"/webhooks/{number}")
        assert (reply.status_code, reply.json()["data"]) == (200, {"deleted": True})
        assert _code(await bursar.get(merchant, f"/webhooks/{number}")) == (404, "not_found")


class TestTheOperator:
    async def test_registers_for_an_account(self, bursar: Service) -> None:
        merchant = await bursar.open_account()
        reply = await bursar.ops("POST", f"/accounts/{merchant.account_id}/webhooks", HOOK)
        assert reply.status_code == 201
        number = reply.json()["data"]["id"]
        assert (await bursar.get(merchant, f"/webhooks/{number}")).status_code == 200

    async def test_is_held_to_the_same_rules(self, bursar: Service) -> None:
        merchant = await bursar.open_account()
        path = f"/accounts/{merchant.merchant_id}/webhooks"
        for body in ({**HOOK, "url": "ftp://x.example"}, {**HOOK, "odd": 1}, {**HOOK, "events": ["odd"]}):
            assert _code(await bursar.ops("POST", path, body)) == (422, "validation_error")
        assert _code(await bursar.ops("POST", "/accounts/999999/webhooks", HOOK)) == (404, "account_not_found")
