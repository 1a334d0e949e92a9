"""Who is calling, on which account, with which key: every way of not being let in, and its code."""

from __future__ import annotations

import pytest

from bursar.core import ids
from tests.http.sending import code, details, effects, read, write
from tests.support.service import Party, Service, new_key

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def _account(bursar: Service, authorization: str | None, **headers: str) -> tuple[int, str | None]:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    if authorization is not None:
        sent["Authorization"] = authorization
    reply = await bursar.client.get("/v2/account", headers=sent)
    return reply.status_code, code(reply)


async def _issue(bursar: Service, party: Party, kind: str = "restricted", scopes: list[str] | None = None) -> str:
    body = {"kind": kind, "scopes": scopes or []}
    reply = await bursar.ops("POST", f"/accounts/{party.merchant_id}/keys", body)
    assert reply.status_code == 201, reply.text
    return str(reply.json()["data"]["key"])


class TestTheKey:
    async def test_is_missing(self, bursar: Service) -> None:
        assert await _account(bursar, None) == (401, "missing_credentials")

    @pytest.mark.parametrize("authorization", ["", "Bearer", "Basic c2tfbGl2ZTo=", "Token abc", "sk_live_x"])
    async def test_is_not_a_bearer_key(self, bursar: Service, authorization: str) -> None:
        assert await _account(bursar, authorization) == (401, "unauthenticated")

    async def test_is_not_ours(self, bursar: Service, merchant: Party) -> None:
        last = "A" if merchant.secret_key[-1] != "A" else "B"
        for secret in (
            "nonsense",
            merchant.secret_key[:-1] + last,  # its checksum is wrong
            merchant.secret_key[:-1],
            merchant.secret_key + "x",
            ids.new_key("secret"),  # well made, but never issued
            ids.new_key("restricted"),
        ):
            assert await _account(bursar, f"Bearer {secret}") == (401, "invalid_credentials")

    async def test_is_not_even_ascii(self, bursar: Service) -> None:
        reply = await bursar.client.get("/v2/account", headers={b"Authorization": b"Bearer \xe9\xff"})
        assert (reply.status_code, code(reply)) == (401, "invalid_credentials")

    async def test_the_scheme_s_name_is_not_case_sensitive(self, bursar: Service, merchant: Party) -> None:
        assert await _account(bursar, f"bearer {merchant.secret_key}") == (200, None)

    async def test_public_and_client_keys_are_no_credentials(self, bursar: Service, merchant: Party) -> None:
        for key in (merchant.public_key, merchant.client_key):
            assert await _account(bursar, f"Bearer {key}") == (401, "invalid_credentials")

    async def test_a_test_key_works_in_the_sandbox_only(self, bursar: Service, merchant: Party) -> None:
        reply = await bursar.get(merchant.test_secret_key, "/account")
        assert (reply.status_code, code(reply)) == (401, "invalid_credentials")
        assert details(reply) == {"hint": "use /sandbox/v2"}
        assert (await bursar.get(merchant.test_secret_key, "/sandbox/v2/account")).status_code == 200

    async def test_also_for_writes_before_anything_else_is_looked_at(self, bursar: Service) -> None:
        for authorization, expected in ((None, "missing_credentials"), ("Basic x", "unauthenticated")):
            reply = await write(bursar, "legacy", "sk", body=b"{not json", headers={"Authorization": authorization})
            assert (reply.status_code, code(reply)) == (401, expected)

    async def test_the_operator_s_key_is_no_merchant_s(self, bursar: Service, merchant: Party) -> None:
        assert await _account(bursar, "Bearer operator-key-of-the-tests") == (401, "invalid_credentials")
        reply = await bursar.ops("GET", "/accounts", Authorization=f"Bearer {merchant.secret_key}")
        assert (reply.status_code, code(reply)) == (401, "invalid_credentials")


class TestMerchantMode:
    async def test_shows_the_merchant(self, bursar: Service, merchant: Party) -> None:
        reply = await bursar.get(merchant, "/account")
        account = reply.json()["data"]["account"]
        assert account["id"] == merchant.account_id
        assert "connect" not in account
        assert reply.headers["Service-Version"] == "2"
        assert reply.headers["Service-Request-Id"].startswith("req_")

    async def test_may_name_itself(self, bursar: Service, merchant: Party) -> None:
        reply = await bursar.get(merchant, "/account", Service_Account=merchant.account_id)
        assert reply.status_code == 200
        assert "Deprecation" not in reply.headers

    async def test_may_not_name_another(self, bursar: Service, merchant: Party, shop: Party) -> None:
        for named in (shop.account_id, str(shop.merchant_id), "acc0000000000000000_999999"):
            reply = await bursar.get(merchant, "/account", Service_Account=named)
            assert (reply.status_code, code(reply)) == (403, "account_not_allowed")

    async def test_a_connected_merchant_acts_for_itself_with_its_own_key(self, bursar: Service, shop: Party) -> None:
        assert (await bursar.get(shop, "/account")).json()["data"]["account"]["id"] == shop.account_id


class TestPlatformMode:
    async def test_shows_the_connected_merchant(self, bursar: Service, platform: Party, shop: Party) -> None:
        account = (await bursar.get(platform, "/account", Service_Account=shop.account_id)).json()["data"]["account"]
        assert account["id"] == shop.account_id
        assert account["connect"]["fee_payer"] == "connected_account"

    async def test_the_legacy_number_works_and_is_deprecated(
        self, bursar: Service, platform: Party, shop: Party
    ) -> None:
        reply = await bursar.get(platform, "/account", Service_Account=str(shop.merchant_id))
        assert reply.json()["data"]["account"]["id"] == shop.account_id
        assert reply.headers["Deprecation"] == "@1735689600"

    async def test_another_platform_s_account_is_not_found(
        self, bursar: Service, platform: Party, merchant: Party
    ) -> None:
        rival = await bursar.open_account("platform")
        theirs = await bursar.open_account(platform=rival.account_id)
        wrong_name = f"acc{'0' * 16}_{theirs.merchant_id}"
        for named in (
            theirs.account_id, str(theirs.merchant_id), wrong_name, merchant.account_id, rival.account_id,
            "acc0000000000000000_999999999", "999999999",
        ):  # fmt: skip
            reply = await bursar.get(platform, "/account", Service_Account=named)
            assert (reply.status_code, code(reply)) == (404, "account_not_found")

    async def test_the_right_number_under_a_wrong_name_is_not_found(
        self, bursar: Service, platform: Party, shop: Party
    ) -> None:
        reply = await bursar.get(platform, "/account", Service_Account=f"acc{'0' * 16}_{shop.merchant_id}")
        assert (reply.status_code, code(reply)) == (404, "account_not_found")

    @pytest.mark.parametrize("named", ["", "shop", "acc_1042", "0", "-1", "1e3", "acc7k2m9q4x8c1v5n3t", "1" * 16, "٣"])
    async def test_what_is_no_account_id(self, bursar: Service, platform: Party, named: str) -> None:
        reply = await bursar.client.get(
            "/v2/account",
            headers={b"Authorization": f"Bearer {platform.secret_key}".encode(), b"Service-Account": named.encode()},
        )
        assert (reply.status_code, code(reply)) == (422, "invalid_account_id")

    async def test_without_connect_there_is_no_platform_mode(self, bursar: Service) -> None:
        party = await bursar.open_account("platform")
        theirs = await bursar.open_account(platform=party.account_id)
        await bursar.ops("PATCH", f"/accounts/{party.merchant_id}", {"connect_enabled": False})
        reply = await bursar.get(party, "/account", Service_Account=theirs.account_id)
        assert (reply.status_code, code(reply)) == (403, "connect_not_enabled")
        assert (await bursar.get(party, "/account")).status_code == 200

    async def test_routes_for_platforms_alone(self, bursar: Service, platform: Party, merchant: Party) -> None:
        assert (await read(bursar, "legacy", platform, path="/platforms")).status_code == 200
        reply = await read(bursar, "legacy", merchant, path="/platforms")
        assert (reply.status_code, code(reply)) == (403, "forbidden")

    async def test_a_write_is_the_connected_account_s(self, bursar: Service, platform: Party, shop: Party) -> None:
        text = new_key()
        await write(bursar, "legacy", platform, body={"text": text}, account=shop.account_id)
        owner = await bursar.db.fetchval("SELECT account_id FROM webhook WHERE description = $1", text)
        assert owner == shop.merchant_id


class TestTheAccountInTheBody:
    async def test_names_the_account(self, bursar: Service, platform: Party, shop: Party) -> None:
        for named in (shop.account_id, str(shop.merchant_id), shop.merchant_id):
            text = new_key()
            reply = await write(bursar, "legacy", platform, body={"text": text, "account_id": named})
            assert reply.status_code == 201
            owner = await bursar.db.fetchval("SELECT account_id FROM webhook WHERE description = $1", text)
            assert owner == shop.merchant_id

    async def test_in_the_query_of_a_read(self, bursar: Service, platform: Party, shop: Party) -> None:
        reply = await bursar.get(platform, f"/account?account_id={shop.account_id}")
        assert reply.json()["data"]["account"]["id"] == shop.account_id

    async def test_may_repeat_the_header(self, bursar: Service, platform: Party, shop: Party) -> None:
        for header, field in (
            (shop.account_id, shop.account_id),
            (shop.account_id, shop.merchant_id),
            (str(shop.merchant_id), shop.account_id),
        ):
            body = {"text": "x", "account_id": field}
            assert (await write(bursar, "legacy", platform, body=body, account=header)).status_code == 201

    async def test_may_not_contradict_the_header(self, bursar: Service, platform: Party, shop: Party) -> None:
        other = await bursar.open_account(platform=platform.account_id)
        for header, field in (
            (shop.account_id, other.account_id),
            (str(shop.merchant_id), other.account_id),
            (shop.account_id, other.merchant_id),
            (shop.account_id, f"acc{'0' * 16}_{shop.merchant_id}"),
        ):
            text = new_key()
            reply = await write(bursar, "legacy", platform, body={"text": text, "account_id": field}, account=header)
            assert (reply.status_code, code(reply)) == (401, "account_key_mismatch")
            assert await effects(bursar, text) == 0

    async def test_a_short_header_does_not_excuse_a_wrong_full_id(
        self, bursar: Service, platform: Party, shop: Party
    ) -> None:
        body = {"text": "x", "account_id": f"acc{'0' * 16}_{shop.merchant_id}"}
        reply = await write(bursar, "legacy", platform, body=body, account=str(shop.merchant_id))
        assert (reply.status_code, code(reply)) == (404, "account_not_found")

    @pytest.mark.parametrize("field", ["", True, 1.5, [], {}, "acc", -1])
    async def test_of_another_shape(self, bursar: Service, platform: Party, field: object) -> None:
        reply = await write(bursar, "legacy", platform, body={"text": "x", "account_id": field})
        assert (reply.status_code, code(reply)) == (422, "invalid_account_id")

    async def test_bound_families_refuse_it(self, bursar: Service, platform: Party, shop: Party) -> None:
        for family in ("subscriptions", "commerce", "management"):
            reply = await write(bursar, family, platform, body={"text": "x", "account_id": shop.account_id})
            assert (reply.status_code, code(reply)) == (422, "unknown_fields")
            assert "account_id" in details(reply)

    async def test_bound_families_refuse_it_in_a_query(self, bursar: Service, platform: Party, shop: Party) -> None:
        for family in ("subscriptions", "commerce", "management"):
            reply = await read(bursar, family, platform, path=f"/notes?account_id={shop.account_id}")
            assert (reply.status_code, code(reply)) == (422, "unknown_fields")

    async def test_management_takes_no_account_at_all(self, bursar: Service, platform: Party, shop: Party) -> None:
        reply = await write(bursar, "management", platform, headers={"Service-Account": shop.account_id})
        assert (reply.status_code, code(reply)) == (400, "bad_request")
        reply = await read(bursar, "management", platform, Service_Account=shop.account_id)
        assert (reply.status_code, code(reply)) == (400, "bad_request")


class TestClientAndPublicKeys:
    async def test_of_the_caller_or_of_the_account_acted_on(
        self, bursar: Service, platform: Party, shop: Party
    ) -> None:
        for party in (platform, shop):
            reply = await bursar.get(
                platform, "/account", Service_Account=shop.account_id,
                X_Service_Client_Key=party.client_key, X_Service_Public_Key=party.public_key,
            )  # fmt: skip
            assert reply.status_code == 200

    async def test_of_somebody_else(self, bursar: Service, platform: Party, merchant: Party, shop: Party) -> None:
        for header, key in (
            ("X-Service-Client-Key", merchant.client_key),
            ("X-Service-Public-Key", merchant.public_key),
            ("X-Service-Client-Key", platform.public_key),
            ("X-Service-Public-Key", ""),
        ):
            reply = await bursar.client.get(
                "/v2/account",
                headers={
                    "Authorization": f"Bearer {platform.secret_key}",
                    "Service-Account": shop.account_id,
                    header: key,
                },
            )
            assert (reply.status_code, code(reply)) == (401, "account_key_mismatch")
            assert details(reply) == {"header": header}

    async def test_also_on_a_write(self, bursar: Service, merchant: Party, shop: Party) -> None:
        text = new_key()
        reply = await write(
            bursar, "legacy", merchant, body={"text": text}, headers={"X-Service-Client-Key": shop.client_key}
        )
        assert (reply.status_code, code(reply)) == (401, "account_key_mismatch")
        assert await effects(bursar, text) == 0


class TestRestrictedKeys:
    async def test_reach_what_they_list(self, bursar: Service, merchant: Party) -> None:
        key = await _issue(bursar, merchant, scopes=["payments:write"])
        assert (await write(bursar, "legacy", key)).status_code == 201

    async def test_reach_nothing_else(self, bursar: Service, merchant: Party) -> None:
        key = await _issue(bursar, merchant, scopes=["payments:write", "webhooks:read"])
        for reply, needed in (
            (await read(bursar, "legacy", key), "payments:read"),
            (await bursar.get(key, "/account"), "accounts:read"),
            (
                await bursar.send(key, "POST", "/webhooks", {"url": "https://a.example", "events": ["*"]}),
                "webhooks:write",
            ),
        ):
            assert (reply.status_code, code(reply)) == (403, "forbidden")
            assert details(reply) == {"required_scope": needed}

    async def test_of_each_family(self, bursar: Service, platform: Party) -> None:
        allowed = await _issue(bursar, platform, scopes=["payments:read", "payments:write"])
        other = await _issue(bursar, platform, scopes=["gym:write"])
        for family in ("legacy", "dispute", "subscriptions", "commerce", "management"):
            assert (await write(bursar, family, allowed)).status_code == 201
            assert (await read(bursar, family, allowed)).status_code == 200
            reply = await write(bursar, family, other)
            assert (reply.status_code, code(reply)) == (403, "forbidden")

    async def test_some_routes_are_for_full_keys_alone(self, bursar: Service, merchant: Party) -> None:
        everything = await _issue(bursar, merchant, scopes=["payments:write", "accounts:write", "webhooks:write"])
        for reply in (
            await write(bursar, "legacy", everything, "/full-keys"),
            await bursar.get(everything, "/api-keys"),
        ):
            assert (reply.status_code, code(reply)) == (403, "forbidden")
            assert details(reply) == {"required_scope": "a full secret key"}

    async def test_sign_with_their_own_secret(self, bursar: Service, merchant: Party) -> None:
        key = await _issue(bursar, merchant, scopes=["payments:write"])
        reply = await write(bursar, "legacy", merchant, headers={"Authorization": f"Bearer {key}"})
        assert (reply.status_code, code(reply)) == (401, "invalid_signature")

    async def test_of_a_platform_act_on_its_accounts(self, bursar: Service, platform: Party, shop: Party) -> None:
        key = await _issue(bursar, platform, scopes=["payments:write"])
        assert (await write(bursar, "legacy", key, account=shop.account_id)).status_code == 201


class TestWhatAnAccountsStateAllows:
    """Which writes an account's state allows, by the route's gate."""

    CASES: tuple[tuple[dict[str, object], dict[str, str]], ...] = (
        ({"status": "active"}, {}),
        ({"status": "banned"},
         {"write": "account_banned", "payments": "account_banned", "transfers": "account_banned"}),
        ({"status": "pending"}, {"payments": "account_inactive", "transfers": "kyc_required"}),
        ({"kyc_status": "pending"}, {"transfers": "kyc_required"}),
        ({"kyc_status": "rejected"}, {"transfers": "kyc_required"}),
        ({"payments_paused": True}, {"payments": "payments_paused"}),
        ({"payouts_paused": True}, {"transfers": "payouts_paused"}),
        ({"connect_status": "paused"}, {"payments": "payments_paused", "transfers": "payouts_paused"}),
        ({"connect_status": "review"}, {"transfers": "payouts_paused"}),
        ({"status": "review"}, {"transfers": "payouts_paused"}),
    )  # fmt: skip

    @pytest.mark.parametrize(("state", "refusals"), CASES, ids=[str(case[0]) for case in CASES])
    async def test_writes(
        self, bursar: Service, platform: Party, shop: Party, state: dict[str, object], refusals: dict[str, str]
    ) -> None:
        changed = await bursar.ops("PATCH", f"/accounts/{shop.merchant_id}", state)
        assert changed.status_code == 200
        for gate in ("open", "write", "payments", "transfers"):
            for party, account in ((shop, None), (platform, shop.account_id)):
                reply = await write(bursar, "legacy", party, f"/gates/{gate}", account=account)
                expected = refusals.get(gate)
                assert (reply.status_code, code(reply)) == ((403, expected) if expected else (201, None))
        assert (await bursar.get(shop, "/account")).status_code == 200

    async def test_a_refusal_leaves_the_key_free_until_the_state_allows_it(
        self, bursar: Service, merchant: Party
    ) -> None:
        key, text = new_key(), new_key()
        await bursar.ops("PATCH", f"/accounts/{merchant.merchant_id}", {"status": "pending"})
        refused = await write(bursar, "legacy", merchant, "/gates/payments", {"text": text}, key=key)
        assert (refused.status_code, code(refused)) == (403, "account_inactive")
        await bursar.ops("PATCH", f"/accounts/{merchant.merchant_id}", {"status": "active"})
        allowed = await write(bursar, "legacy", merchant, "/gates/payments", {"text": text}, key=key)
        assert allowed.status_code == 201
        assert await effects(bursar, text) == 1
