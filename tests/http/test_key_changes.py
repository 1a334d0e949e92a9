"""Rotated and revoked keys: what still works, and for how long, in every process."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from tests.http.sending import code, write
from tests.support.routes import declared_routes
from tests.support.service import Party, Service, running_service

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def _key_id(bursar: Service, party: Party | str, kind: str = "secret") -> int:
    keys = (await bursar.get(party, "/api-keys")).json()["data"]
    return int(next(key["id"] for key in keys if key["kind"] == kind and key["revoked_at"] is None))


async def _rotate(bursar: Service, party: Party | str, number: int, **body: Any) -> str:
    reply = await bursar.send(party, "POST", f"/api-keys/{number}/rotate", body)
    assert reply.status_code == 200, reply.text
    return str(reply.json()["data"]["api_key"]["key"])


async def _works(service: Service, secret: str) -> bool:
    reply = await service.get(secret, "/account")
    assert code(reply) in (None, "invalid_credentials")
    return reply.is_success


async def _until_refused(service: Service, secret: str, within_s: float = 1.1) -> float:
    """When the first request was sent that was refused: how long that took to be answered is another matter."""
    started = sent = time.monotonic()
    while await _works(service, secret):
        assert sent - started < within_s, "the key still works"
        await asyncio.sleep(0.01)
        sent = time.monotonic()
    return sent - started


class TestRotation:
    async def test_both_keys_work_during_the_grace_period(self, bursar: Service, merchant: Party) -> None:
        newer = await _rotate(bursar, merchant, await _key_id(bursar, merchant), grace_seconds=3600)
        for secret in (merchant.secret_key, newer):
            assert await _works(bursar, secret)
            assert (await write(bursar, "legacy", secret)).status_code == 201
        await bursar.ops("POST", "/clock/advance", {"seconds": 3590})
        assert await _works(bursar, merchant.secret_key)
        await bursar.ops("POST", "/clock/advance", {"seconds": 20})
        await _until_refused(bursar, merchant.secret_key)
        assert await _works(bursar, newer)

    async def test_without_a_grace_period_the_old_key_stops_at_once(self, bursar: Service, merchant: Party) -> None:
        newer = await _rotate(bursar, merchant, await _key_id(bursar, merchant), grace_seconds=0)
        assert not await _works(bursar, merchant.secret_key)
        assert await _works(bursar, newer)

    async def test_a_platform_has_no_part_in_it(self, bursar: Service, platform: Party, shop: Party) -> None:
        number = await _key_id(bursar, shop)
        for method, path in (("GET", ""), ("POST", f"/{number}/rotate"), ("DELETE", f"/{number}")):
            if method == "GET":
                reply = await bursar.get(platform, "/api-keys", Service_Account=shop.account_id)
            else:
                reply = await bursar.send(platform, method, f"/api-keys{path}", Service_Account=shop.account_id)
            assert (reply.status_code, code(reply)) == (403, "account_not_allowed")
        assert await _works(bursar, shop.secret_key)

    async def test_a_day_by_default(self, bursar: Service, merchant: Party) -> None:
        number = await _key_id(bursar, merchant)
        newer = await _rotate(bursar, merchant, number)
        keys = {key["id"]: key for key in (await bursar.get(newer, "/api-keys")).json()["data"]}
        grace = await bursar.db.fetchval(
            "SELECT extract(epoch FROM expires_at - instance_now())::integer FROM api_key WHERE id = $1", number
        )
        assert 86_390 <= grace <= 86_400
        assert keys[number]["expires_at"] is not None
        assert next(key for key in keys.values() if key["replaces_id"] == number)["kind"] == "secret"

    async def test_a_rotated_key_is_not_rotated_again(self, bursar: Service, merchant: Party) -> None:
        number = await _key_id(bursar, merchant)
        await _rotate(bursar, merchant, number, grace_seconds=3600)
        reply = await bursar.send(merchant, "POST", f"/api-keys/{number}/rotate", {})
        assert (reply.status_code, code(reply)) == (422, "key_not_rotatable")

    async def test_two_at_once_make_one_successor(self, bursar: Service, merchant: Party) -> None:
        number = await _key_id(bursar, merchant)
        replies = await asyncio.gather(
            *(bursar.send(merchant, "POST", f"/api-keys/{number}/rotate", {}) for _ in range(5))
        )
        assert sorted(reply.status_code for reply in replies) == [200, 422, 422, 422, 422]


class TestRevocation:
    async def test_is_effective_at_once_where_it_was_asked(self, bursar: Service, merchant: Party) -> None:
        reply = await bursar.send(merchant, "DELETE", f"/api-keys/{await _key_id(bursar, merchant)}")
        assert reply.status_code == 200
        assert not await _works(bursar, merchant.secret_key)

    async def test_is_effective_in_another_process_within_a_second(self, bursar: Service, merchant: Party) -> None:
        async with running_service(bursar.urls, like=bursar, routes=declared_routes(), worker=False) as other:
            assert await _works(other, merchant.secret_key)
            await bursar.send(merchant, "DELETE", f"/api-keys/{await _key_id(bursar, merchant)}")
            took = await _until_refused(other, merchant.secret_key)
        assert took < 0.5, "the hint between processes did not arrive"

    async def test_also_while_that_process_hears_nothing(self, bursar: Service) -> None:
        async with running_service(bursar.urls, like=bursar, routes=declared_routes(), worker=False) as other:
            for _ in range(5):
                party = await bursar.open_account()
                assert await _works(other, party.secret_key)
                await bursar.db.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND application_name = 'hints'"
                )
                await bursar.send(party, "DELETE", f"/api-keys/{await _key_id(bursar, party)}")
                await _until_refused(other, party.secret_key)

    async def test_nothing_is_remembered_while_it_hears_nothing(self, bursar: Service, merchant: Party) -> None:
        async with running_service(bursar.urls, like=bursar, routes=declared_routes(), worker=False) as other:
            assert await _works(other, merchant.secret_key)
            other.instance.hints.connected = False
            await bursar.db.execute("UPDATE api_key SET revoked_at = now() WHERE account_id = $1", merchant.merchant_id)
            assert not await _works(other, merchant.secret_key)

    async def test_a_change_of_the_account_is_heard_too(self, bursar: Service, merchant: Party) -> None:
        async with running_service(bursar.urls, like=bursar, routes=declared_routes(), worker=False) as other:
            assert (await write(other, "legacy", merchant, "/gates/write")).status_code == 201
            await bursar.ops("PATCH", f"/accounts/{merchant.merchant_id}", {"status": "banned"})
            started = sent = time.monotonic()
            while (await write(other, "legacy", merchant, "/gates/write")).is_success:
                assert sent - started < 1.1
                sent = time.monotonic()
