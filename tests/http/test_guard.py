"""What a process refuses to run with, and what an address refuses to serve."""

from __future__ import annotations

from typing import Any

import asyncpg
import httpx
import pytest

from bursar.db.pool import Database
from bursar.http.guard import Refused, check_database
from bursar.settings import Settings
from tests.http.sending import code
from tests.support.service import OPERATOR_KEY, Service, running_service

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def _check(url: str, settings: Settings, **session: Any) -> None:
    db = await Database.open(url, size=1, **session)
    try:
        await check_database(db, settings)
    finally:
        await db.close()


class TestTheDatabase:
    async def test_as_it_should_be(self, bursar: Service) -> None:
        await _check(bursar.urls.service, bursar.settings)

    async def test_not_as_superuser_nor_as_owner(self, bursar: Service) -> None:
        for url in (bursar.urls.admin, bursar.urls.owner):
            with pytest.raises(Refused, match="use bursar_app"):
                await _check(url, bursar.settings)

    @pytest.mark.parametrize(
        ("setting", "value", "reason"),
        [
            ("synchronous_commit", "off", "synchronous_commit off"),
            ("default_transaction_isolation", "serializable", "read committed"),
        ],
    )
    async def test_not_with_weaker_promises(self, bursar: Service, setting: str, value: str, reason: str) -> None:
        with pytest.raises(Refused, match=reason):
            await _check(bursar.urls.service, bursar.settings, **{setting: value})

    async def test_not_live_on_a_clock_that_was_moved(self, bursar: Service) -> None:
        live = bursar.settings.model_copy(update={"env": "live"})
        await _check(bursar.urls.service, live)
        owner = await asyncpg.connect(bursar.urls.owner)
        await owner.execute("UPDATE instance SET clock_offset = interval '1 day'")
        await owner.close()
        await _check(bursar.urls.service, bursar.settings)
        with pytest.raises(Refused, match="clock"):
            await _check(bursar.urls.service, live)


class TestAnAddressForTheOperator:
    async def _get(self, service: Service, path: str) -> Any:
        return await service.client.get(path, headers={"Authorization": f"Bearer {OPERATOR_KEY}"})

    async def test_serves_nothing_else_and_nobody_else_serves_it(self, bursar: Service) -> None:
        port = httpx.URL(bursar.base_url).port
        async with running_service(bursar.urls, like=bursar, worker=False, ops_listen=f"127.0.0.1:{port}") as public:
            reply = await self._get(public, "/ops/v1/accounts")
            assert (reply.status_code, code(reply)) == (404, "endpoint_not_found")
            assert (await self._get(public, "/health")).status_code == 200
            assert (await self._get(public, "/v2/account")).status_code == 401
