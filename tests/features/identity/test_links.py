"""/identity/verification-links, and what staff decide."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from tests.events.factories import run_jobs
from tests.features.connected_accounts.factory import connect, events_of
from tests.features.identity.factory import LINKS, new_link, path_of
from tests.support.service import Service

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def kyc_of(service: Service, party: object) -> str:
    reply = await service.get(party, "/account")  # type: ignore[arg-type]
    status: str = reply.json()["data"]["account"]["kyc_status"]
    return status


class TestCreate:
    async def test_a_link_with_every_field(self, service: Service) -> None:
        platform = await service.open_account("platform")
        account = await connect(service, platform)
        link = await new_link(
            service, platform, purpose="onboarding", person_reference="owner-2", return_url="https://shop.example/back",
            expires_in=300, metadata={"a": "b"}, headers={"Service_Account": account["id"]},
        )  # fmt: skip
        assert link["account_id"] == account["id"]
        assert link["status"] == "pending"
        assert link["person_reference"] == "owner-2"
        assert link["last_error"] is None
        assert link["completed_at"] is None
        lasts = datetime.fromisoformat(link["expires_at"]) - datetime.fromisoformat(link["created_at"])
        assert lasts == timedelta(seconds=300)
        assert link["url"].startswith(f"{service.settings.public_url}/verify/")
        [event] = await events_of(service, account, "kyc.link_created")
        assert event["data"]["verification_link"] == link
        listed = await service.get(platform, LINKS, Service_Account=account["id"])
        assert listed.json()["data"] == [link]

    @pytest.mark.parametrize(("handle", "sent"), [("neropay", 1), ("platform", 0)])
    async def test_the_merchant_is_written_to_unless_the_platform_does(
        self, service: Service, handle: str, sent: int
    ) -> None:
        platform = await service.open_account("platform")
        account = await connect(service, platform, connect_email_sms_handle=handle)
        link = await new_link(service, platform, headers={"Service_Account": account["id"]})
        number = int(account["id"].rpartition("_")[2])
        await run_jobs(service)
        found = await service.db.fetch("SELECT recipient, body_text FROM notice WHERE account_id = $1", number)
        assert len(found) == sent
        assert all(notice["recipient"] == account["email"] and link["url"] in notice["body_text"] for notice in found)

    async def test_bad_fields_are_named(self, service: Service) -> None:
        merchant = await service.open_account(kyc_status="pending")
        bad = {"purpose": "fun", "return_url": "javascript:alert(1)", "expires_in": 299, "metadata": 1,
               "person_reference": ""}  # fmt: skip
        reply = await service.send(merchant, "POST", LINKS, bad)
        assert set(reply.json()["error"]["details"]) == set(bad)
        reply = await service.send(merchant, "POST", LINKS, {"expires_in": 604801})
        assert list(reply.json()["error"]["details"]) == ["expires_in"]

    async def test_the_verified_need_no_onboarding(self, service: Service) -> None:
        merchant = await service.open_account()
        reply = await service.send(merchant, "POST", LINKS, {})
        assert (reply.status_code, reply.json()["error"]["code"]) == (409, "identity_already_verified")
        await new_link(service, merchant, purpose="reverification")
        assert await kyc_of(service, merchant) == "pending"

    async def test_another_accounts_link_is_not_found(self, service: Service) -> None:
        merchant, other = (await service.open_account(kyc_status="pending"), await service.open_account())
        link = await new_link(service, merchant)
        for name in (link["id"], 999999, "x"):
            for reply in (
                await service.get(other, f"{LINKS}/{name}"),
                await service.send(other, "POST", f"{LINKS}/{name}/cancel", {}),
                await service.ops("POST", "/verification-links/999999/decide", {"outcome": "verified"}),
                await service.ops("GET", "/verification-links/3"),
            ):
                assert (reply.status_code, reply.json()["error"]["code"]) == (404, "verification_link_not_found")

    async def test_the_banned_get_no_link(self, service: Service) -> None:
        merchant = await service.open_account(status="banned", kyc_status="pending")
        reply = await service.send(merchant, "POST", LINKS, {})
        assert (reply.status_code, reply.json()["error"]["code"]) == (403, "account_banned")


class TestDecide:
    async def test_each_outcome(self, service: Service) -> None:
        merchant = await service.open_account(kyc_status="pending")
        link = await new_link(service, merchant)
        reply = await service.ops(
            "POST", f"/verification-links/{link['id']}/decide",
            {"outcome": "requires_input", "code": "document_expired", "message": "The passport has expired."},
        )  # fmt: skip
        shown = reply.json()["data"]["verification_link"]
        assert shown["status"] == "requires_input"
        assert shown["last_error"] == {"code": "document_expired", "message": "The passport has expired."}
        assert shown["url"] == link["url"], "the same link is used again"
        assert await kyc_of(service, merchant) == "pending"
        reply = await service.ops("POST", f"/verification-links/{link['id']}/decide", {"outcome": "rejected"})
        shown = reply.json()["data"]["verification_link"]
        assert (shown["status"], shown["url"]) == ("rejected", None)
        assert shown["completed_at"]
        assert await kyc_of(service, merchant) == "rejected"
        again = await new_link(service, merchant)
        assert await kyc_of(service, merchant) == "pending"
        await service.ops("POST", f"/verification-links/{again['id']}/decide", {"outcome": "verified"})
        assert await kyc_of(service, merchant) == "verified"
        types = [event["type"] for event in await events_of(service, {"id": merchant.account_id})]
        assert types == [
            "kyc.link_created", "kyc.requires_input", "kyc.rejected", "kyc.link_created", "kyc.verified",
        ]  # fmt: skip
        log = (await service.ops("GET", f"/audit/log?merchant={merchant.merchant_id}")).json()["data"]
        assert log[0]["before"] == {"status": "pending"}
        assert log[0]["after"] == {"status": "verified"}

    async def test_a_finished_link_stays_finished(self, service: Service) -> None:
        merchant = await service.open_account(kyc_status="pending")
        link = await new_link(service, merchant)
        assert (await service.send(merchant, "POST", f"{LINKS}/{link['id']}/cancel", {})).status_code == 200
        for reply in (
            await service.send(merchant, "POST", f"{LINKS}/{link['id']}/cancel", {}),
            await service.ops("POST", f"/verification-links/{link['id']}/decide", {"outcome": "verified"}),
        ):
            assert (reply.status_code, reply.json()["error"]["code"]) == (409, "verification_link_closed")
        page = await service.client.get(path_of(link))
        assert page.status_code == 410

    async def test_another_open_link_does_not_undo_a_verification(self, service: Service) -> None:
        merchant = await service.open_account(kyc_status="pending")
        one, two, three = [await new_link(service, merchant) for _ in range(3)]
        for link, outcome, expected in (
            (one, "rejected", "rejected"),
            (two, "verified", "verified"),
            (three, "rejected", "verified"),
        ):
            await service.ops("POST", f"/verification-links/{link['id']}/decide", {"outcome": outcome})
            assert await kyc_of(service, merchant) == expected

    async def test_staff_lists(self, service: Service) -> None:
        merchant = await service.open_account(kyc_status="pending")
        link = await new_link(service, merchant)
        listed = await service.ops("GET", f"/verification-links?merchant={merchant.merchant_id}&status=pending")
        assert [row["id"] for row in listed.json()["data"]] == [link["id"]]
        reply = await service.ops("POST", f"/verification-links/{link['id']}/decide", {"outcome": "maybe", "x": 1})
        assert set(reply.json()["error"]["details"]) == {"outcome", "x"}


class TestExpiry:
    async def test_a_link_expires_when_its_time_comes(self, service: Service) -> None:
        merchant = await service.open_account(kyc_status="pending")
        link = await new_link(service, merchant, expires_in=600)
        reply = await service.ops("POST", "/clock/advance", {"seconds": 6000})
        assert {"verification_links"} <= {entry["job"] for entry in reply.json()["data"]["ran"]}
        shown = (await service.get(merchant, f"{LINKS}/{link['id']}")).json()["data"]["verification_link"]
        assert (shown["status"], shown["url"]) == ("expired", None)
        late = datetime.fromisoformat(shown["completed_at"]) - datetime.fromisoformat(shown["expires_at"])
        assert timedelta(0) <= late < timedelta(seconds=1), "at its own moment, not where the clock went"
        page = await service.client.get(path_of(link))
        assert page.status_code == 410
        assert "expired" in page.text


class TestSandbox:
    async def test_one_in_every_state(self, service: Service) -> None:
        merchant = await service.open_account()
        links = (await service.get(merchant.test_secret_key, f"/sandbox/v2{LINKS}?sort=id")).json()["data"]
        assert [link["status"] for link in links] == [
            "pending", "opened", "processing", "requires_input", "verified", "rejected", "expired", "cancelled",
        ]  # fmt: skip
        page = await service.client.get(path_of(links[0]))
        assert page.status_code == 404, "nothing may happen to a sample"
