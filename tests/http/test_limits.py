"""The documented limits per minute, exact at the edge and across processes, and the global throttles."""

from __future__ import annotations

import asyncio
import functools
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import ParamSpec

import httpx
import pytest

from tests.http.sending import code, read, write
from tests.support.routes import declared_routes
from tests.support.service import Party, Service, running_service

pytestmark = pytest.mark.asyncio(loop_scope="module")

P = ParamSpec("P")

# family, reads or writes, how many a minute
LIMITS = (
    ("dispute", "write", 6),
    ("subscriptions", "write", 20),
    ("subscriptions", "read", 120),
    ("commerce", "write", 60),
    ("commerce", "read", 120),
    ("management", "write", 20),
    ("management", "read", 60),
)


def within_a_minute(test: Callable[P, Awaitable[None]]) -> Callable[P, Awaitable[None]]:
    """Windows are minutes of the real clock: a test that counts, and ran across the end of one, is run again."""

    @functools.wraps(test)
    async def run(*args: P.args, **fixtures: P.kwargs) -> None:
        service = fixtures["bursar"]
        assert isinstance(service, Service)
        for _ in range(3):
            await service.db.execute("DELETE FROM rate_counter")
            minute = time.time() // 60
            try:
                return await test(*args, **fixtures)
            except AssertionError:
                if time.time() // 60 == minute:
                    raise
        raise AssertionError("it did not fit into a minute")

    return run


async def _ask(service: Service, family: str, kind: str, party: Party | str, **more: str) -> httpx.Response:
    if kind == "read":
        return await read(service, family, party, **more)
    return await write(service, family, party, account=more.get("Service_Account"))


async def _burst(*requests: Awaitable[httpx.Response]) -> list[httpx.Response]:
    """All of them side by side, but not so many that they wait for each other's connections."""
    gate = asyncio.Semaphore(12)

    async def one(request: Awaitable[httpx.Response]) -> httpx.Response:
        async with gate:
            return await request

    return await asyncio.gather(*map(one, requests))


def _refused(reply: httpx.Response, limit: int, family: str) -> None:
    assert (reply.status_code, code(reply)) == (429, "rate_limited")
    assert reply.headers["RateLimit-Limit"] == str(limit)
    assert reply.headers["RateLimit-Remaining"] == "0"
    assert 1 <= int(reply.headers["RateLimit-Reset"]) <= 60
    expected = "60" if family == "subscriptions" else reply.headers["RateLimit-Reset"]
    assert reply.headers["Retry-After"] == expected


class TestTheDocumentedLimits:
    @pytest.mark.parametrize(("family", "kind", "limit"), LIMITS)
    @within_a_minute
    async def test_the_last_one_passes_and_the_next_does_not(
        self, bursar: Service, platform: Party, family: str, kind: str, limit: int
    ) -> None:
        first = await _ask(bursar, family, kind, platform)
        assert first.headers["RateLimit-Limit"] == str(limit)
        assert first.headers["RateLimit-Remaining"] == str(limit - 1)
        others = await _burst(*(_ask(bursar, family, kind, platform) for _ in range(limit - 2)))
        assert {reply.status_code for reply in others} <= {200, 201}
        last = await _ask(bursar, family, kind, platform)
        assert last.status_code in (200, 201)
        assert last.headers["RateLimit-Remaining"] == "0"
        _refused(await _ask(bursar, family, kind, platform), limit, family)

    @pytest.mark.parametrize(("family", "kind", "limit"), LIMITS)
    @within_a_minute
    async def test_a_burst_is_counted_exactly_over_two_processes(
        self, bursar: Service, platform: Party, family: str, kind: str, limit: int
    ) -> None:
        async with running_service(bursar.urls, like=bursar, routes=declared_routes(), worker=False) as other:
            both = (bursar, other)
            replies = await _burst(*(_ask(both[number % 2], family, kind, platform) for number in range(limit + 10)))
        passed = 200 if kind == "read" else 201
        assert Counter(reply.status_code for reply in replies) == {passed: limit, 429: 10}

    @within_a_minute
    async def test_reads_and_writes_are_counted_apart(self, bursar: Service, platform: Party) -> None:
        for _ in range(20):
            await write(bursar, "subscriptions", platform)
        assert (await write(bursar, "subscriptions", platform)).status_code == 429
        assert (await read(bursar, "subscriptions", platform)).status_code == 200

    @within_a_minute
    async def test_each_target_and_each_principal_for_itself(
        self, bursar: Service, platform: Party, shop: Party
    ) -> None:
        for _ in range(7):
            reply = await write(bursar, "dispute", platform, account=shop.account_id)
        assert reply.status_code == 429
        assert (await write(bursar, "dispute", platform)).status_code == 201
        assert (await write(bursar, "dispute", shop)).status_code == 201

    @within_a_minute
    async def test_the_number_and_the_full_id_are_one_target(
        self, bursar: Service, platform: Party, shop: Party
    ) -> None:
        replies = [
            await write(bursar, "dispute", platform, account=(shop.account_id, str(shop.merchant_id))[number % 2])
            for number in range(7)
        ]
        assert [reply.status_code for reply in replies] == [201] * 6 + [429]

    @within_a_minute
    async def test_all_keys_of_an_account_are_one_principal(self, bursar: Service, merchant: Party) -> None:
        other = (await bursar.ops("POST", f"/accounts/{merchant.merchant_id}/keys", {"kind": "secret"})).json()
        for number in range(6):
            assert (await write(bursar, "dispute", (merchant.secret_key, other["data"]["key"])[number % 2])).is_success
        assert (await write(bursar, "dispute", merchant)).status_code == 429

    @within_a_minute
    async def test_a_wrong_signature_is_an_attempt(self, bursar: Service, merchant: Party) -> None:
        for _ in range(6):
            reply = await write(bursar, "dispute", merchant, headers={"X-Service-Signature": "0" * 64})
            assert reply.status_code == 401
        assert (await write(bursar, "dispute", merchant)).status_code == 429

    async def test_legacy_routes_have_no_limit_per_minute(self, bursar: Service, merchant: Party) -> None:
        reply = await write(bursar, "legacy", merchant)
        assert "RateLimit-Limit" not in reply.headers


class TestManagementByAddress:
    """60 requests a minute from one address, before anybody is authenticated."""

    async def _knock(self, service: Service, address: str, authorization: str | None = None) -> httpx.Response:
        headers = {"X-Forwarded-For": address, "X-Forwarded-Proto": "https"}
        if authorization:
            headers["Authorization"] = authorization
        return await service.client.get("/v2/testing/management/notes", headers=headers)

    @within_a_minute
    async def test_counts_strangers_too(self, bursar: Service, platform: Party) -> None:
        async with running_service(bursar.urls, like=bursar, routes=declared_routes(), worker=False) as other:
            replies = await _burst(*(self._knock((bursar, other)[number % 2], "198.51.100.7") for number in range(60)))
            assert {(reply.status_code, code(reply)) for reply in replies} == {(401, "missing_credentials")}
            _refused(await self._knock(bursar, "198.51.100.7"), 60, "management")
            known = await self._knock(other, "198.51.100.7", f"Bearer {platform.secret_key}")
            _refused(known, 60, "management")
        elsewhere = await self._knock(bursar, "198.51.100.8", f"Bearer {platform.secret_key}")
        assert elsewhere.status_code == 200

    @within_a_minute
    async def test_the_address_is_the_last_hop_that_is_not_a_proxy_of_ours(self, bursar: Service) -> None:
        for number in range(61):
            reply = await self._knock(bursar, f"10.9.8.{number}, 198.51.100.9, 127.0.0.1")
        _refused(reply, 60, "management")


class TestGlobalThrottles:
    async def test_are_off_on_a_test_instance(self, bursar: Service) -> None:
        assert bursar.instance.throttles.reads is None

    async def test_allow_two_seconds_of_their_rate_at_once(self, bursar: Service, merchant: Party) -> None:
        async with running_service(
            bursar.urls, like=bursar, routes=declared_routes(), worker=False, global_limits="on",
            reads_per_second=2, writes_per_second=1, sandbox_per_second=2, failed_auth_per_minute=4,
        ) as strict:  # fmt: skip
            for kind, rate in (("read", 2), ("write", 1)):
                size, started = 2 * rate, time.monotonic()
                replies = await asyncio.gather(*(_ask(strict, "legacy", kind, merchant) for _ in range(size + 10)))
                passed = [reply for reply in replies if reply.status_code != 429]
                gained = rate * (time.monotonic() - started)
                assert size <= len(passed) <= size + gained
                refused = next(reply for reply in replies if reply.status_code == 429)
                assert code(refused) == "rate_limited"
                assert refused.headers["Retry-After"] == "1"
                assert refused.headers["RateLimit-Limit"] == str(size)
                assert refused.headers["RateLimit-Remaining"] == "0"
            other = await strict.open_account()
            assert (await _ask(strict, "legacy", "read", other)).status_code == 200

    async def test_test_keys_of_two_accounts_do_not_share_a_bucket(self, bursar: Service) -> None:
        async with running_service(
            bursar.urls, like=bursar, routes=declared_routes(), worker=False, global_limits="on", sandbox_per_second=1
        ) as strict:
            one, other = await strict.open_account(), await strict.open_account()
            asked = [strict.get(one.test_secret_key, "/sandbox/v2/account") for _ in range(10)]
            assert "rate_limited" in {code(reply) for reply in await asyncio.gather(*asked)}
            assert (await strict.get(other.test_secret_key, "/sandbox/v2/account")).status_code == 200

    async def test_failed_authentications_are_counted_by_address(self, bursar: Service, merchant: Party) -> None:
        async with running_service(
            bursar.urls, like=bursar, routes=declared_routes(), worker=False, global_limits="on",
            failed_auth_per_minute=4,
        ) as strict:  # fmt: skip

            async def knock(address: str, secret: str) -> httpx.Response:
                return await strict.get(secret, "/account", X_Forwarded_For=address)

            replies = [await knock("198.51.100.20", "wrong") for _ in range(5)]
            assert [reply.status_code for reply in replies] == [401] * 4 + [429]
            assert int(replies[-1].headers["Retry-After"]) >= 1
            assert (await knock("198.51.100.20", merchant.secret_key)).status_code == 429
            assert (await knock("198.51.100.21", merchant.secret_key)).status_code == 200


class TestTestKeysInTheSandbox:
    @within_a_minute
    async def test_each_account_has_a_limit_of_its_own(self, bursar: Service) -> None:
        """All test keys act on one fixture, but they are not one principal."""
        one, other = await bursar.open_account(), await bursar.open_account()
        path = "/sandbox/v2/testing/dispute/notes"
        for _ in range(7):
            reply = await write(bursar, "dispute", one.test_secret_key, path)
        assert (reply.status_code, code(reply)) == (429, "rate_limited")
        assert (await write(bursar, "dispute", other.test_secret_key, path)).status_code == 201
