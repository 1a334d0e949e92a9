"""A connection cut around COMMIT: the request settles by its key whether it was done, and is done exactly once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio
from pydantic import SecretStr

from bursar.db.embedded import Urls
from tests.http.cutting import Fate, Scissors, cut_off
from tests.http.sending import EVERY_FAMILY, REPLAYING, code, effects, events, write
from tests.support.routes import SHOWN_SECRET, Till, declared_routes
from tests.support.service import Party, Service, new_key, running_service

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def scissors() -> Scissors:
    return Scissors()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bursar(module_urls: Urls, till: Till, scissors: Scissors) -> AsyncIterator[Service]:
    """An instance whose API reaches its database through the scissors; tests and worker do not."""
    async with (
        cut_off(module_urls, scissors) as frail,
        running_service(
            module_urls, routes=declared_routes(till), trusted_proxies="127.0.0.1/32"
        ) as sound,
        running_service(
            frail, like=sound, routes=declared_routes(till), worker=False, database_url=SecretStr(frail.service)
        ) as running,
    ):  # fmt: skip
        yield replace(running, worker=sound.worker)


@pytest.mark.parametrize("fate", ["before", "after"])
class TestAConnectionCutAroundACommit:
    @pytest.mark.parametrize("family", EVERY_FAMILY)
    async def test_of_a_local_write(
        self, bursar: Service, scissors: Scissors, platform: Party, family: str, fate: Fate
    ) -> None:
        text, key = new_key(), new_key()
        scissors.cut[:] = [fate]
        cuts = scissors.cuts
        reply = await write(bursar, family, platform, body={"text": text}, key=key)
        assert scissors.cuts == cuts + 1
        assert (reply.status_code, reply.json()["data"]["text"]) == (201, text)
        assert "Idempotency-Replayed" not in reply.headers
        assert (await effects(bursar, text), await events(bursar, text)) == (1, 1)
        again = await write(bursar, family, platform, body={"text": text}, key=key)
        assert again.content == reply.content if family in REPLAYING else code(again) == "duplicate_request"

    @pytest.mark.parametrize("family", EVERY_FAMILY)
    async def test_of_a_repeat(
        self, bursar: Service, scissors: Scissors, platform: Party, family: str, fate: Fate
    ) -> None:
        """It tries twice, and what it finds the second time is still somebody else's reply."""
        body, key = {"text": new_key()}, new_key()
        first = await write(bursar, family, platform, body=body, key=key)
        cuts = scissors.cuts
        scissors.cut[:] = [fate]
        again = await write(bursar, family, platform, body=body, key=key)
        if family in REPLAYING:
            assert scissors.cuts == cuts + 1
            assert (again.content, again.headers["Idempotency-Replayed"]) == (first.content, "true")
        else:
            scissors.cut.clear()
            assert code(again) == "duplicate_request"

    async def test_of_a_repeat_in_a_batch(
        self, bursar: Service, scissors: Scissors, merchant: Party, fate: Fate
    ) -> None:
        body, key = {"text": new_key()}, new_key()
        first = await write(bursar, "legacy", merchant, "/entries", body, key=key)
        scissors.cut[:] = [fate]
        again = await write(bursar, "legacy", merchant, "/entries", body, key=key)
        assert (again.content, again.headers["Idempotency-Replayed"]) == (first.content, "true")

    async def test_of_an_error_that_consumes_its_key(
        self, bursar: Service, scissors: Scissors, platform: Party, fate: Fate
    ) -> None:
        text, key = new_key(), new_key()
        scissors.cut[:] = [fate]
        reply = await write(bursar, "management", platform, body={"text": text, "then": "refuse"}, key=key)
        assert (reply.status_code, code(reply)) == (422, "insufficient_balance")
        assert await effects(bursar, text) == 0

    async def test_of_a_reply_that_shows_a_secret(
        self, bursar: Service, scissors: Scissors, merchant: Party, fate: Fate
    ) -> None:
        text = new_key()
        scissors.cut[:] = [fate]
        reply = await write(bursar, "legacy", merchant, "/secrets", {"text": text})
        assert (reply.status_code, reply.json()["data"]["secret"]) == (201, SHOWN_SECRET)
        assert await effects(bursar, text) == 1

    async def test_of_a_batch(self, bursar: Service, scissors: Scissors, merchant: Party, fate: Fate) -> None:
        texts = [new_key() for _ in range(12)]
        scissors.cut[:] = [fate, fate]
        replies = await asyncio.gather(
            *(write(bursar, "legacy", merchant, "/entries", {"text": text}) for text in texts)
        )
        assert [reply.status_code for reply in replies] == [201] * 12
        for text, reply in zip(texts, replies, strict=True):
            assert reply.json()["data"]["text"] == text
            assert "Idempotency-Replayed" not in reply.headers
            assert (await effects(bursar, text), await events(bursar, text)) == (1, 1)

    async def test_of_an_intent(
        self, bursar: Service, scissors: Scissors, till: Till, merchant: Party, fate: Fate
    ) -> None:
        """If it was written, the processor was not called: the worker calls, and the key is answered then."""
        reference, key = new_key(), new_key()
        body = {"reference": reference}
        scissors.cut[:] = [fate]
        reply = await write(bursar, "legacy", merchant, "/charges", body, key=key)
        if fate == "after":
            assert (reply.status_code, code(reply)) == (503, "service_unavailable")
            await bursar.db.execute("UPDATE operation SET lease_until = clock_timestamp()")
            await bursar.worker.run_due()
            reply = await write(bursar, "legacy", merchant, "/charges", body, key=key)
        assert (reply.status_code, reply.json()["data"]["status"]) == (201, "succeeded")
        assert till.times(reference) == await effects(bursar, f"{reference} done") == 1
        assert await effects(bursar, f"{reference} intended") == 1

    @pytest.mark.parametrize("outcome", ["ok", "declined"])
    async def test_of_an_outcome(
        self, bursar: Service, scissors: Scissors, till: Till, merchant: Party, fate: Fate, outcome: str
    ) -> None:
        reference, key = new_key(), new_key()
        till.will(reference, outcome)
        scissors.cut[:] = ["let", fate]
        reply = await write(bursar, "legacy", merchant, "/charges", {"reference": reference}, key=key)
        if outcome == "ok":
            assert (reply.status_code, reply.json()["data"]["status"]) == (201, "succeeded")
            assert await effects(bursar, f"{reference} done") == 1
        else:
            expected = (422, "refund_failed") if fate == "before" else (503, "service_unavailable")
            assert (reply.status_code, code(reply)) == expected
            assert await effects(bursar, f"{reference} declined") == 1
        assert till.times(reference) == 1

    async def test_of_an_operator_s_call_without_a_key(self, bursar: Service, scissors: Scissors, fate: Fate) -> None:
        """Nobody could tell whether it was done, so it is not done again."""
        before = await _accounts(bursar)
        scissors.cut[:] = [fate]
        body = {"kind": "merchant", "name": "Cut off", "email": "cut@example.com"}
        reply = await bursar.ops("POST", "/accounts", body)
        assert (reply.status_code, code(reply)) == (503, "service_unavailable")
        assert await _accounts(bursar) == before + (fate == "after")

    async def test_of_an_operator_s_call_with_a_key(self, bursar: Service, scissors: Scissors, fate: Fate) -> None:
        before = await _accounts(bursar)
        scissors.cut[:] = [fate]
        body = {"kind": "merchant", "name": "Cut off", "email": "cut@example.com"}
        reply = await bursar.ops("POST", "/accounts", body, **{"Idempotency-Key": new_key()})
        assert reply.status_code == 201
        assert await _accounts(bursar) == before + 1


async def _accounts(bursar: Service) -> int:
    return int(await bursar.db.fetchval("SELECT count(*) FROM account"))
