"""/sandbox/v2: the same routes, and nothing is kept."""

from __future__ import annotations

import asyncio
import re

import httpx
import pytest

from bursar.app import ROUTES
from tests.http.sending import BOUND, EVERY_FAMILY, code, details, effects, everything, write
from tests.support.routes import Till
from tests.support.service import Party, Service, new_key

pytestmark = pytest.mark.asyncio(loop_scope="module")

CONNECTED = "accsandb0xc0nnected_3"
NOTES = "/sandbox/v2/testing/legacy/notes"


class TestTestKeys:
    async def test_see_the_fixture_under_their_own_id(self, bursar: Service, merchant: Party, platform: Party) -> None:
        for party, name in ((merchant, "Sandbox Merchant"), (platform, "Sandbox Platform")):
            reply = await bursar.get(party.test_secret_key, "/sandbox/v2/account")
            account = reply.json()["data"]["account"]
            assert (account["id"], account["business_company_name"]) == (party.account_id, name)
            assert reply.headers["Service-Sandbox"] == "true"
            assert reply.json()["meta"] == {"sandbox": True, "effects": []}

    async def test_of_a_platform_reach_the_connected_account_of_the_fixture(
        self, bursar: Service, platform: Party
    ) -> None:
        for named in (CONNECTED, "3"):
            reply = await bursar.get(platform.test_secret_key, "/sandbox/v2/account", Service_Account=named)
            assert reply.json()["data"]["account"]["id"] == CONNECTED
        assert (await write(bursar, "legacy", platform.test_secret_key, NOTES, account=CONNECTED)).status_code == 201

    async def test_never_see_live_accounts(
        self, bursar: Service, platform: Party, shop: Party, merchant: Party
    ) -> None:
        for named in (shop.account_id, str(shop.merchant_id), merchant.account_id, "1", "2"):
            reply = await bursar.get(platform.test_secret_key, "/sandbox/v2/account", Service_Account=named)
            assert (reply.status_code, code(reply)) == (404, "account_not_found")
        reply = await bursar.get(merchant.test_secret_key, "/sandbox/v2/account", Service_Account=CONNECTED)
        assert (reply.status_code, code(reply)) == (403, "account_not_allowed")

    async def test_never_see_live_rows(self, bursar: Service, merchant: Party) -> None:
        hook = {"url": "https://example.com/hook", "events": ["*"]}
        mine = (await bursar.send(merchant, "POST", "/webhooks", hook)).json()["data"]["webhook"]["id"]
        reply = await bursar.get(merchant.test_secret_key, f"/sandbox/v2/webhooks/{mine}")
        assert (reply.status_code, code(reply)) == (404, "not_found")
        listed = (await bursar.get(merchant.test_secret_key, "/sandbox/v2/webhooks")).json()["data"]
        assert {hook["description"] for hook in listed} == {"Sample"}

    async def test_may_send_their_own_client_and_public_keys(self, bursar: Service, merchant: Party) -> None:
        reply = await bursar.get(
            merchant.test_secret_key, "/sandbox/v2/account",
            X_Service_Client_Key=merchant.client_key, X_Service_Public_Key=merchant.public_key,
        )  # fmt: skip
        assert reply.status_code == 200
        reply = await bursar.get(merchant.test_secret_key, "/sandbox/v2/account", X_Service_Client_Key="ck_live_other")
        assert (reply.status_code, code(reply)) == (401, "account_key_mismatch")

    async def test_revoked_with_the_account_s_other_keys(self, bursar: Service, merchant: Party) -> None:
        keys = (await bursar.get(merchant, "/api-keys")).json()["data"]
        number = next(key["id"] for key in keys if key["kind"] == "test")
        await bursar.send(merchant, "DELETE", f"/api-keys/{number}")
        reply = await bursar.get(merchant.test_secret_key, "/sandbox/v2/account")
        assert (reply.status_code, code(reply)) == (401, "invalid_credentials")


class TestLiveKeys:
    async def test_dry_run_on_their_own_rows(self, bursar: Service, merchant: Party) -> None:
        hook = {"url": "https://example.com/hook", "events": ["*"], "description": "Mine"}
        mine = (await bursar.send(merchant, "POST", "/webhooks", hook)).json()["data"]["webhook"]["id"]
        assert (await bursar.get(merchant, f"/sandbox/v2/webhooks/{mine}")).status_code == 200
        gone = await bursar.send(merchant, "DELETE", f"/sandbox/v2/webhooks/{mine}")
        assert gone.status_code == 200
        assert (await bursar.get(merchant, f"/webhooks/{mine}")).status_code == 200

    async def test_a_platform_s_on_its_own_accounts(self, bursar: Service, platform: Party, shop: Party) -> None:
        reply = await bursar.get(platform, "/sandbox/v2/account", Service_Account=shop.account_id)
        assert reply.json()["data"]["account"]["id"] == shop.account_id
        reply = await bursar.get(platform, "/sandbox/v2/account", Service_Account=CONNECTED)
        assert (reply.status_code, code(reply)) == (404, "account_not_found")


class TestADryRun:
    async def test_says_what_would_have_happened(self, bursar: Service, merchant: Party) -> None:
        for secret in (merchant.secret_key, merchant.test_secret_key):
            reply = await write(bursar, "legacy", secret, NOTES)
            assert reply.status_code == 201
            assert reply.json()["meta"] == {"sandbox": True, "effects": [{"type": "event", "event": "webhook.test"}]}
            assert reply.headers["Service-Sandbox"] == "true"

    async def test_runs_every_kind_of_write(self, bursar: Service, merchant: Party, till: Till) -> None:
        text = new_key()
        for path, body in (
            ("notes", {"text": text}),
            ("charges", {"reference": text}),
            ("entries", {"text": text}),
        ):
            reply = await write(bursar, "legacy", merchant.test_secret_key, f"/sandbox/v2/testing/legacy/{path}", body)
            assert reply.status_code == 201
            assert reply.json()["meta"]["sandbox"] is True
        assert till.times(text) == 0
        assert await effects(bursar, text) == 0

    async def test_has_the_same_errors(self, bursar: Service, merchant: Party) -> None:
        for body, status, error in (
            ({"text": ""}, 422, "validation_error"),
            ({"text": "x", "then": "refuse"}, 422, "insufficient_balance"),
            ({"text": "x", "then": "crash"}, 500, "internal_error"),
            (b"{", 400, "bad_request"),
        ):
            reply = await write(bursar, "legacy", merchant.test_secret_key, NOTES, body)
            assert (reply.status_code, code(reply)) == (status, error)
            assert reply.headers["Service-Sandbox"] == "true"

    async def test_needs_the_same_signature_and_key(self, bursar: Service, merchant: Party) -> None:
        secret = merchant.test_secret_key
        reply = await write(bursar, "legacy", secret, NOTES, headers={"X-Service-Signature": "0" * 64})
        assert (reply.status_code, code(reply)) == (401, "invalid_signature")
        reply = await write(bursar, "legacy", secret, NOTES, headers={"Idempotency-Key": None})
        assert (reply.status_code, code(reply)) == (400, "missing_idempotency_key")

    async def test_uses_no_key_up(self, bursar: Service, merchant: Party) -> None:
        key = new_key()
        for path in (NOTES, NOTES, "/notes", "/notes"):
            reply = await write(bursar, "legacy", merchant, path, key=key)
            assert reply.status_code == 201
        assert reply.headers["Idempotency-Replayed"] == "true"

    async def test_does_not_wait_for_anybody_s_locks(self, bursar: Service, merchant: Party) -> None:
        async with bursar.db.transaction() as db:
            await db.execute("SELECT 1 FROM account WHERE account_id = $1 FOR UPDATE", merchant.merchant_id)
            hook = {"url": "https://example.com/hook", "events": ["*"]}
            reply = await bursar.send(merchant, "POST", "/sandbox/v2/webhooks", hook)
            assert (reply.status_code, code(reply)) == (503, "service_unavailable")
            assert reply.elapsed.total_seconds() < 2  # which others would wait

    @pytest.mark.parametrize("family", BOUND)
    async def test_the_bound_families_have_none(self, bursar: Service, platform: Party, family: str) -> None:
        path = f"/sandbox/v2/testing/{family}/notes"
        for secret in (platform.secret_key, platform.test_secret_key):
            for reply in (await write(bursar, family, secret, path), await bursar.get(secret, path)):
                assert (reply.status_code, code(reply)) == (403, "live_only")

    async def test_the_operator_api_has_none(self, bursar: Service) -> None:
        reply = await bursar.client.get("/sandbox/ops/v1/accounts")
        assert (reply.status_code, code(reply)) == (404, "endpoint_not_found")


class TestNothingIsKept:
    async def test_by_any_route_with_any_key(self, bursar: Service, platform: Party, merchant: Party) -> None:
        """Every declared route is called in the sandbox; then every table is as it was before."""
        await bursar.send(merchant, "POST", "/webhooks", {"url": "https://example.com/hook", "events": ["*"]})
        await bursar.ops("POST", "/jobs/run", {})
        before = await everything(bursar)
        replies: list[httpx.Response] = []
        for secret in (merchant.secret_key, merchant.test_secret_key, platform.test_secret_key):
            for route in ROUTES:
                if route.family.name == "operator":
                    continue
                path = "/sandbox/v2" + re.sub(r"\{\w+\}", "1", route.path)
                if route.writes:
                    body = _sample(route.name)
                    replies.append(await write(bursar, route.family.name, secret, path, body, method=route.method))
                else:
                    replies.append(await bursar.get(secret, path))
            for family in EVERY_FAMILY:
                for path, body in (
                    ("notes", {"text": "x"}),
                    ("charges", {"reference": "x"}),
                    ("entries", {"text": "x"}),
                ):
                    replies.append(await write(bursar, family, secret, f"/sandbox/v2/testing/{family}/{path}", body))
        assert {reply.status_code for reply in replies} <= {200, 201, 202, 400, 401, 403, 404, 409, 415, 422, 429}
        assert sum(reply.is_success for reply in replies) > 20
        assert await everything(bursar) == before

    async def test_by_many_at_once(self, bursar: Service, merchant: Party) -> None:
        await bursar.ops("POST", "/jobs/run", {})  # or the worker does something of its own meanwhile
        before = await everything(bursar)
        replies = await asyncio.gather(*(write(bursar, "legacy", merchant.test_secret_key, NOTES) for _ in range(30)))
        assert {reply.status_code for reply in replies} <= {201, 503}  # there are few connections for these
        assert any(reply.is_success for reply in replies)
        assert await everything(bursar) == before


def _sample(name: str) -> object:
    """A body that a route of this name accepts, where one is known; others are refused, which keeps nothing, too."""
    return {
        "create_webhook": {"url": "https://example.com/hook", "events": ["*"]},
        "change_webhook": {"description": "Changed"},
        "rotate_webhook_secret": {"grace_seconds": 0},
        "rotate_api_key": {"grace_seconds": 0},
    }.get(name, {})


class TestTheHint:
    async def test_leads_from_v2_to_the_sandbox(self, bursar: Service, merchant: Party) -> None:
        for family in EVERY_FAMILY:
            reply = await write(bursar, family, merchant.test_secret_key)
            assert (reply.status_code, code(reply)) == (401, "invalid_credentials")
            assert details(reply) == {"hint": "use /sandbox/v2"}
