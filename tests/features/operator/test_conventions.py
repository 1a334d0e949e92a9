"""The operator API's own conventions: key, envelope, unknown fields, idempotent POSTs, and a record of every call."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from tests.support.service import OPERATOR_KEY, Service, new_key, running_service

pytestmark = pytest.mark.asyncio(loop_scope="module")

ACCOUNT = {"kind": "merchant", "name": "A shop", "email": "shop@example.com"}


def _error(reply: httpx.Response) -> tuple[int, str]:
    body = reply.json()
    assert body["success"] is False
    assert set(body["error"]) == {"code", "message", "details"}
    return reply.status_code, body["error"]["code"]


async def _newest(bursar: Service) -> int:
    return int(await bursar.db.fetchval("SELECT coalesce(max(id), 0) FROM operator_audit"))


async def _trail(bursar: Service, since: int = 0) -> list[dict[str, Any]]:
    """The records after a given one, newest first."""
    entries = (await bursar.ops("GET", "/audit/log?per_page=100")).json()["data"]
    return [entry for entry in entries if entry["id"] > since]


class TestTheKey:
    @pytest.mark.parametrize(
        ("headers", "expected"),
        [
            ({}, "missing_credentials"),
            ({"Authorization": "Basic x"}, "unauthenticated"),
            ({"Authorization": "Bearer wrong"}, "invalid_credentials"),
            ({"Authorization": f"Bearer {OPERATOR_KEY}x"}, "invalid_credentials"),
        ],
    )
    async def test_wrong_or_missing(self, bursar: Service, headers: dict[str, str], expected: str) -> None:
        before = await _newest(bursar)
        for method, path in (("GET", "/ops/v1/accounts"), ("POST", "/ops/v1/accounts"), ("GET", "/ops/v1/audit/log")):
            reply = await bursar.client.request(method, path, headers=headers)
            assert _error(reply) == (401, expected)
        assert await _newest(bursar) == before

    async def test_an_instance_without_one_has_no_operator(self, bursar: Service) -> None:
        async with running_service(bursar.urls, like=bursar, worker=False, operator_key=SecretStr("")) as keyless:
            for secret in ("", "x"):
                reply = await keyless.client.get("/ops/v1/accounts", headers={"Authorization": f"Bearer x{secret}"})
                assert _error(reply) == (401, "invalid_credentials")


class TestBodies:
    async def test_unknown_fields_are_a_validation_error(self, bursar: Service) -> None:
        reply = await bursar.ops("POST", "/accounts", {**ACCOUNT, "extra": 1, "name": ""})
        assert _error(reply) == (422, "validation_error")
        assert set(reply.json()["error"]["details"]) == {"extra", "name"}

    async def test_unknown_parameters_too(self, bursar: Service) -> None:
        reply = await bursar.ops("GET", "/accounts?other=1")
        assert _error(reply) == (422, "validation_error")

    async def test_malformed_ones_are_answered_and_recorded(self, bursar: Service) -> None:
        before = await _newest(bursar)
        headers = {"Authorization": f"Bearer {OPERATOR_KEY}"}
        for content, kind, expected in (
            (b"{", "application/json", (400, "bad_request")),
            (b"[]", "application/json", (400, "bad_request")),
            (b"x=1", "text/plain", (415, "unsupported_media_type")),
        ):
            reply = await bursar.client.post(
                "/ops/v1/accounts", content=content, headers={**headers, "Content-Type": kind}
            )
            assert _error(reply) == expected
        trail = await _trail(bursar, before)
        assert [entry["status"] for entry in trail] == [415, 400, 400]

    async def test_card_data_is_refused(self, bursar: Service) -> None:
        reply = await bursar.ops("POST", "/accounts", {**ACCOUNT, "name": "4242 4242 4242 4242"})
        assert _error(reply) == (422, "validation_error")
        assert "4242" not in str(await _trail(bursar))

    @pytest.mark.parametrize("number", ["9" * 19, "9" * 30, "-1", "0"])
    async def test_a_number_no_account_can_have_is_never_our_failure(self, bursar: Service, number: str) -> None:
        for path in (f"/accounts?platform={number}", f"/audit/log?merchant={number}", f"/accounts/{number}"):
            assert (await bursar.ops("GET", path)).status_code in (200, 404, 422)


class TestIdempotentPosts:
    async def test_the_first_reply_again_with_its_keys(self, bursar: Service) -> None:
        key = {"Idempotency-Key": new_key()}
        first = await bursar.ops("POST", "/accounts", ACCOUNT, **key)
        again = await bursar.ops("POST", "/accounts", ACCOUNT, **key)
        assert (first.status_code, again.status_code, again.content) == (201, 201, first.content)
        assert again.headers["Idempotency-Replayed"] == "true"
        assert "sk_live_" in again.text

    async def test_another_body_is_a_conflict(self, bursar: Service) -> None:
        key = {"Idempotency-Key": new_key()}
        await bursar.ops("POST", "/accounts", ACCOUNT, **key)
        reply = await bursar.ops("POST", "/accounts", {**ACCOUNT, "name": "Other"}, **key)
        assert _error(reply) == (409, "idempotency_conflict")

    async def test_an_error_leaves_the_key_free(self, bursar: Service) -> None:
        key = {"Idempotency-Key": new_key()}
        assert (await bursar.ops("POST", "/accounts", {**ACCOUNT, "currency": "XXX"}, **key)).status_code == 422
        assert (await bursar.ops("POST", "/accounts", ACCOUNT, **key)).status_code == 201

    async def test_a_bad_key(self, bursar: Service) -> None:
        reply = await bursar.ops("POST", "/accounts", ACCOUNT, **{"Idempotency-Key": "with space"})
        assert _error(reply) == (422, "invalid_idempotency_key")

    async def test_without_a_key_each_call_acts(self, bursar: Service) -> None:
        one = await bursar.ops("POST", "/accounts", ACCOUNT)
        other = await bursar.ops("POST", "/accounts", ACCOUNT)
        assert one.json()["data"]["merchant_id"] != other.json()["data"]["merchant_id"]


class TestTheAuditTrail:
    async def test_has_every_call_newest_first(self, bursar: Service) -> None:
        before = await _newest(bursar)
        merchant = await bursar.open_account()
        number = merchant.merchant_id
        await bursar.ops("GET", f"/accounts/{number}")
        await bursar.ops("PATCH", f"/accounts/{number}", {"status": "review"})
        await bursar.ops("PATCH", f"/accounts/{number}", {"status": "odd"})
        await bursar.ops("GET", "/accounts/999999")
        await bursar.ops("POST", f"/accounts/{number}/keys", {"kind": "secret"})
        trail = await _trail(bursar, before)
        assert [(entry["action"], entry["status"]) for entry in trail] == [
            ("operator_issue_key", 201),
            ("operator_show_account", 404),
            ("operator_change_account", 422),
            ("operator_change_account", 200),
            ("operator_show_account", 200),
            ("operator_open_account", 201),
        ]
        changed = trail[3]
        assert (changed["account_id"], changed["actor"], changed["break_glass"]) == (number, "operator key", True)
        assert (changed["before"]["status"], changed["after"]["status"]) == ("active", "review")
        assert changed["target"] == f"PATCH /ops/v1/accounts/{number}"
        assert changed["request_id"].startswith("req_")

    async def test_has_the_reading_of_the_trail_itself(self, bursar: Service) -> None:
        before = await _newest(bursar)
        assert await _trail(bursar, before) == []
        assert [entry["action"] for entry in await _trail(bursar, before)] == ["operator_audit_log"]

    async def test_is_paged_and_filtered(self, bursar: Service) -> None:
        merchant = await bursar.open_account()
        for _ in range(3):
            await bursar.ops("GET", f"/accounts/{merchant.merchant_id}")
        reply = await bursar.ops("GET", f"/audit/log?merchant={merchant.merchant_id}&per_page=2")
        assert reply.json()["meta"]["pagination"] == {"current_page": 1, "per_page": 2, "total": 4, "last_page": 2}

    async def test_never_holds_a_secret(self, bursar: Service) -> None:
        merchant = await bursar.open_account()
        key = (await bursar.ops("POST", f"/accounts/{merchant.merchant_id}/keys", {"kind": "test"})).json()["data"]
        hook = {"url": "https://example.com/hook", "events": ["*"]}
        webhook = (await bursar.ops("POST", f"/accounts/{merchant.merchant_id}/webhooks", hook)).json()["data"]
        trail = str(await _trail(bursar))
        for secret in (merchant.secret_key, merchant.test_secret_key, key["key"], webhook["secret"], OPERATOR_KEY):
            assert secret not in trail

    async def test_a_replay_is_on_record_as_well(self, bursar: Service) -> None:
        before = await _newest(bursar)
        key = {"Idempotency-Key": new_key()}
        for _ in range(2):
            await bursar.ops("POST", "/accounts", ACCOUNT, **key)
        assert [entry["status"] for entry in await _trail(bursar, before)] == [201, 201]

    async def test_a_conflict_is_on_record_as_well(self, bursar: Service) -> None:
        before = await _newest(bursar)
        key = {"Idempotency-Key": new_key()}
        await bursar.ops("POST", "/accounts", ACCOUNT, **key)
        await bursar.ops("POST", "/accounts", {**ACCOUNT, "name": "Other"}, **key)
        assert [entry["status"] for entry in await _trail(bursar, before)] == [409, 201]


class TestALiveInstance:
    async def test_has_no_clock_no_jobs_and_no_simulator(self, bursar: Service) -> None:
        async with running_service(bursar.urls, like=bursar, worker=False, env="live") as live:
            for method, path in (
                ("GET", "/clock"), ("POST", "/clock/advance"), ("POST", "/jobs/run"), ("POST", "/simulator/faults")
            ):  # fmt: skip
                reply = await live.ops(method, path, {} if method == "POST" else None)
                assert _error(reply) == (404, "endpoint_not_found")
            assert (await live.ops("GET", "/audit/log")).status_code == 200
            merchant = await live.open_account()
            assert (await live.get(merchant, "/account")).status_code == 200
