"""From pending to active: whatever clears the last obstacle activates the account, in its own transaction."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from tests.features.bank_accounts.factory import DE, GB, link
from tests.features.compliance.factory import ask, respond
from tests.features.connected_accounts.factory import connect, events_of
from tests.features.identity.factory import answer, new_link, outcome_of
from tests.support.service import Party, Service

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def read(service: Service, platform: Party, account: dict[str, Any]) -> dict[str, Any]:
    reply = await service.get(platform, f"/connected-accounts/{account['id']}")
    shown: dict[str, Any] = reply.json()["data"]["account"]
    return shown


class TestActivation:
    @pytest.mark.parametrize("order", [*itertools.permutations(("identity", "bank", "compliance"))])
    async def test_in_whatever_order_the_obstacles_fall(self, service: Service, order: tuple[str, ...]) -> None:
        platform = await service.open_account("platform")
        account = await connect(service, platform)
        acting = {"Service_Account": account["id"]}
        request = await ask(service, account["id"], blocking=["payments"])

        async def identity() -> None:
            made = await new_link(service, platform, headers=acting)
            await service.ops("POST", f"/verification-links/{made['id']}/decide", {"outcome": "verified"})

        async def bank() -> None:
            await link(service, platform, GB, **acting)

        async def compliance() -> None:
            await respond(service, platform, request["id"], {"website": "x"}, **acting)
            await service.ops("POST", f"/compliance-requests/{request['id']}/decide", {"decision": "approved"})

        steps = {"identity": identity, "bank": bank, "compliance": compliance}
        for number, step in enumerate(order):
            assert (await read(service, platform, account))["status"] == "pending", number
            await steps[step]()
        active = await read(service, platform, account)
        assert active["status"] == "active"
        assert active["requirements"]["disabled_reason"] is None
        assert active["capabilities"]["payments"] == active["capabilities"]["payouts"] == "active"
        [event] = await events_of(service, account, "connected_account.activated")
        assert event["data"]["account"] == active
        assert event["previous"] == {"status": "pending"}
        assert event["platform_id"] == platform.account_id

    async def test_the_whole_way_through_the_page(self, service: Service) -> None:
        platform = await service.open_account("platform")
        account = await connect(service, platform)
        acting = {"Service_Account": account["id"]}
        made = await new_link(service, platform, headers=acting)
        await answer(service, made)
        await outcome_of(service, platform, made, **acting)
        shown = await read(service, platform, account)
        assert (shown["kyc_status"], shown["status"]) == ("verified", "pending")
        assert shown["requirements"]["currently_due"] == ["bank_account"]
        await link(service, platform, DE, **acting)
        assert (await read(service, platform, account))["status"] == "active"
        types = [event["type"] for event in await events_of(service, account)]
        assert types == ["connected_account.created", "kyc.link_created", "kyc.verified", "bank_account.created",
                         "connected_account.activated"]  # fmt: skip

    async def test_the_last_two_at_the_same_time(self, service: Service) -> None:
        platform = await service.open_account("platform")
        for _ in range(8):
            account = await connect(service, platform)
            acting = {"Service_Account": account["id"]}
            made = await new_link(service, platform, headers=acting)
            await asyncio.gather(
                link(service, platform, GB, **acting),
                service.ops("POST", f"/verification-links/{made['id']}/decide", {"outcome": "verified"}),
            )
            assert (await read(service, platform, account))["status"] == "active"
            assert len(await events_of(service, account, "connected_account.activated")) == 1

    async def test_what_does_not_activate(self, service: Service) -> None:
        platform = await service.open_account("platform")
        account = await connect(service, platform)
        acting = {"Service_Account": account["id"]}
        await ask(service, account["id"], blocking=[])
        await ask(service, account["id"], blocking=["payouts"])
        await link(service, platform, {**GB, "use_for": "supplier"}, **acting)
        await service.ops("PATCH", f"/accounts/{account['id']}", {"kyc_status": "verified"})
        assert (await read(service, platform, account))["status"] == "pending"

    async def test_staff_may_clear_the_last_obstacle_themselves(self, service: Service) -> None:
        platform = await service.open_account("platform")
        account = await connect(service, platform)
        await link(service, platform, GB, Service_Account=account["id"])
        reply = await service.ops("PATCH", f"/accounts/{account['id']}", {"kyc_status": "verified"})
        assert reply.json()["data"]["status"] == "active"
        types = [event["type"] for event in await events_of(service, account)]
        assert types[-2:] == ["account.update", "connected_account.activated"]

    async def test_a_merchant_of_nobody_becomes_active_too(self, service: Service) -> None:
        merchant = await service.open_account(status="pending")
        await link(service, merchant)
        shown = (await service.get(merchant, "/account")).json()["data"]["account"]
        assert shown["status"] == "active"
        assert "connect" not in shown
        assert [event["type"] for event in await events_of(service, {"id": merchant.account_id})] == [
            "bank_account.created", "account.update",
        ]  # fmt: skip

    async def test_reviewed_and_banned_accounts_stay_as_they_are(self, service: Service) -> None:
        platform = await service.open_account("platform")
        for status in ("review", "banned"):
            account = await connect(service, platform)
            made = await new_link(service, platform, headers={"Service_Account": account["id"]})
            if status == "review":
                await link(service, platform, GB, Service_Account=account["id"])
            await service.ops("PATCH", f"/accounts/{account['id']}", {"status": status})
            await service.ops("POST", f"/verification-links/{made['id']}/decide", {"outcome": "verified"})
            assert (await read(service, platform, account))["status"] == status
