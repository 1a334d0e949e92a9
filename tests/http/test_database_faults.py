"""The database goes away and comes back: what was answered is there, what was not resolves under the same key."""

from __future__ import annotations

import asyncio

import asyncpg
import httpx
import pytest

from tests.http.sending import EVERY_FAMILY, code, effects, write
from tests.support import databases
from tests.support.doors import closed_door
from tests.support.service import Party, Service, new_key

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def _cut_connections(bursar: Service, application: str) -> int:
    """Ends the sessions of one kind, as an administrator or a network would."""
    administrator = await asyncpg.connect(bursar.urls.service)
    try:
        cut = await administrator.fetch(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name = $1",
            application,
        )
    finally:
        await administrator.close()
    return len(cut)


class TestConnectionsThatAreCut:
    @pytest.mark.parametrize("family", EVERY_FAMILY)
    async def test_are_opened_again(self, bursar: Service, platform: Party, family: str) -> None:
        text = new_key()
        await bursar.get(platform, "/account")
        assert await _cut_connections(bursar, "bursar api") >= 1
        reply = await write(bursar, family, platform, body={"text": text})
        assert (reply.status_code, await effects(bursar, text)) == (201, 1)

    async def test_also_of_reads(self, bursar: Service, merchant: Party) -> None:
        await _cut_connections(bursar, "bursar api")
        replies = [await bursar.get(merchant, "/account") for _ in range(5)]
        assert replies[-1].status_code == 200
        assert {reply.status_code for reply in replies} <= {200, 503}

    async def test_in_the_middle_of_a_write_it_is_tried_again(self, bursar: Service, merchant: Party) -> None:
        text, key = new_key(), new_key()
        with closed_door() as door:
            body = {"text": text, "door": door.name}
            asked = asyncio.create_task(write(bursar, "legacy", merchant, body=body, key=key))
            await door.reached.wait()
            await _cut_connections(bursar, "bursar api")
        reply = await asked
        assert (reply.status_code, await effects(bursar, text)) == (201, 1)

    async def test_of_the_worker(self, bursar: Service) -> None:
        await _cut_connections(bursar, "test worker")
        for _ in range(3):
            reply = await bursar.ops("POST", "/jobs/run", {})
        assert reply.status_code == 200


class TestADatabaseThatRestarts:
    async def test_under_traffic(self, bursar: Service, merchant: Party, server: databases.TestServer) -> None:
        if server.embedded is None:
            pytest.skip("not our server to stop")
        answered: dict[str, httpx.Response] = {}
        unanswered: dict[str, str] = {}
        stopping = asyncio.Event()

        async def client(path: str) -> None:
            while not stopping.is_set():
                text, key = new_key(), new_key()
                body = {"reference": text} if path == "/charges" else {"text": text}
                reply = await write(bursar, "legacy", merchant, path, body, key=key)
                if reply.status_code == 201:
                    answered[f"{text} done" if path == "/charges" else text] = reply
                else:
                    assert (reply.status_code, code(reply)) == (503, "service_unavailable")
                    unanswered[key] = f"{path} {text}"

        clients = [asyncio.create_task(client(path)) for path in ("/notes", "/entries", "/charges") * 3]
        while len(answered) < 20:  # noqa: ASYNC110 - the clients have nothing to wait for
            await asyncio.sleep(0.02)
        before = len(answered)
        await asyncio.to_thread(server.embedded.stop)
        assert (await bursar.client.get("/health/ready")).status_code == 503
        assert (await bursar.client.get("/health/live")).status_code == 200
        while not unanswered:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        await asyncio.to_thread(server.embedded.start)
        async with asyncio.timeout(30):
            while len(answered) < before + 20:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        stopping.set()
        await asyncio.gather(*clients)
        assert (await bursar.client.get("/health")).status_code == 200
        for text in answered:
            assert await effects(bursar, text) == 1
        await self._resolve(bursar, merchant, unanswered)

    async def _resolve(self, bursar: Service, merchant: Party, unanswered: dict[str, str]) -> None:
        """Each request that got no answer is done once after a retry under its key, whatever had become of it."""
        await bursar.db.execute("UPDATE operation SET lease_until = clock_timestamp() WHERE state = 'calling'")
        assert (await bursar.ops("POST", "/jobs/run", {})).status_code == 200
        for key, what in unanswered.items():
            path, _, text = what.partition(" ")
            body = {"reference": text} if path == "/charges" else {"text": text}
            reply = await write(bursar, "legacy", merchant, path, body, key=key)
            assert reply.status_code == 201, reply.text
            assert await effects(bursar, f"{text} done" if path == "/charges" else text) == 1
        stuck = await bursar.db.fetchval("SELECT count(*) FROM idempotency_key WHERE status IS NULL")
        assert stuck == 0
        idle = await bursar.db.fetchval(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND state LIKE 'idle in transaction%'"
            " AND state_change < clock_timestamp() - interval '2 seconds'"
        )
        assert idle == 0
