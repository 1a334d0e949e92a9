"""Writes that share a transaction: a bad row fails alone, and alone or together the answers are the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from tests.http.sending import code, effects, events, write
from tests.support.routes import declared_routes
from tests.support.service import Party, Service, new_key, running_service

pytestmark = pytest.mark.asyncio(loop_scope="module")

# What becomes of each row: status, code, how often it is there.
FATES = {
    "ok": (201, None, 1),
    "refused": (422, "insufficient_balance", 0),
    "conflict": (409, "duplicate_resource", 0),
    "other": (200, None, 0),
    "bad_sql": (500, "internal_error", 0),
    "crash": (500, "internal_error", 0),
    "late_crash": (500, "internal_error", 0),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def alone(bursar: Service) -> AsyncIterator[Service]:
    """The same service with group commit off."""
    async with running_service(
        bursar.urls, like=bursar, routes=declared_routes(), worker=False, group_commit=False
    ) as running:
        yield running


@pytest.fixture(params=["together", "alone"])
def either(request: pytest.FixtureRequest, bursar: Service, alone: Service) -> Service:
    return bursar if request.param == "together" else alone


async def _enter(
    service: Service, party: Party, text: str, fate: str = "ok", *, key: str | None = None, family: str = "legacy"
) -> httpx.Response:
    return await write(service, family, party, "/entries", {"text": text, "fate": fate}, key=key)


class TestRowsOfOneBatch:
    @pytest.mark.parametrize("fate", FATES)
    async def test_one_bad_row_among_many_good_ones(self, either: Service, merchant: Party, fate: str) -> None:
        fates = ["ok"] * 12 + [fate] + ["ok"] * 12
        texts = [new_key() for _ in fates]
        replies = await asyncio.gather(
            *(_enter(either, merchant, text, fate) for text, fate in zip(texts, fates, strict=True))
        )
        for text, fate_of_row, reply in zip(texts, fates, replies, strict=True):
            status, error, count = FATES[fate_of_row]
            assert (reply.status_code, code(reply)) == (status, error)
            assert (await effects(either, text), await events(either, text)) == (count, count)

    async def test_all_of_them_at_once(self, either: Service, merchant: Party) -> None:
        fates = list(FATES) * 6
        texts = [new_key() for _ in fates]
        replies = await asyncio.gather(
            *(_enter(either, merchant, text, fate) for text, fate in zip(texts, fates, strict=True))
        )
        for text, fate, reply in zip(texts, fates, replies, strict=True):
            status, error, count = FATES[fate]
            assert (fate, reply.status_code, code(reply)) == (fate, status, error)
            assert await effects(either, text) == count

    async def test_ids_are_their_own(self, either: Service, merchant: Party) -> None:
        replies = await asyncio.gather(*(_enter(either, merchant, new_key()) for _ in range(30)))
        assert len({reply.json()["data"]["id"] for reply in replies}) == 30

    async def test_rows_of_many_accounts(self, either: Service) -> None:
        parties = [await either.open_account() for _ in range(6)]
        text = new_key()
        replies = await asyncio.gather(*(_enter(either, party, text) for party in parties))
        assert [reply.status_code for reply in replies] == [201] * 6
        rows = await either.db.fetch("SELECT account_id FROM webhook WHERE description = $1", text)
        assert {row["account_id"] for row in rows} == {party.merchant_id for party in parties}


@pytest.mark.parametrize("family", ["legacy", "commerce"])
class TestTheirKeys:
    async def test_replay(self, either: Service, merchant: Party, family: str) -> None:
        text, key = new_key(), new_key()
        first = await _enter(either, merchant, text, key=key, family=family)
        again = await _enter(either, merchant, text, key=key, family=family)
        assert (first.status_code, again.status_code, again.content) == (201, 201, first.content)
        assert again.headers["Idempotency-Replayed"] == "true"
        assert (await effects(either, text), await events(either, text)) == (1, 1)

    async def test_conflict(self, either: Service, merchant: Party, family: str) -> None:
        text, key = new_key(), new_key()
        await _enter(either, merchant, text, key=key, family=family)
        reply = await _enter(either, merchant, f"{text} other", key=key, family=family)
        assert (reply.status_code, code(reply)) == (409, "idempotency_conflict")

    @pytest.mark.parametrize("fate", ["refused", "conflict"])
    async def test_a_declared_error_leaves_the_key_free(
        self, either: Service, merchant: Party, family: str, fate: str
    ) -> None:
        text, key = new_key(), new_key()
        assert (await _enter(either, merchant, text, fate, key=key, family=family)).status_code >= 400
        reply = await _enter(either, merchant, text, key=key, family=family)
        assert reply.status_code == 201
        assert "Idempotency-Replayed" not in reply.headers

    async def test_an_answer_of_its_own_is_stored(self, either: Service, merchant: Party, family: str) -> None:
        text, key = new_key(), new_key()
        first = await _enter(either, merchant, text, "other", key=key, family=family)
        again = await _enter(either, merchant, text, "other", key=key, family=family)
        assert (first.status_code, first.json()["data"]) == (200, {"reused": True})
        assert (again.status_code, again.content) == (200, first.content)

    async def test_a_used_key_is_answered_before_the_body_is_judged(
        self, either: Service, merchant: Party, family: str
    ) -> None:
        key = new_key()
        await _enter(either, merchant, new_key(), key=key, family=family)
        reply = await write(either, family, merchant, "/entries", {"text": ""}, key=key)
        assert (reply.status_code, code(reply)) == (409, "idempotency_conflict")

    async def test_old_and_new_keys_in_one_batch(self, either: Service, merchant: Party, family: str) -> None:
        known = [(new_key(), new_key()) for _ in range(8)]
        first = await asyncio.gather(*(_enter(either, merchant, t, key=k, family=family) for t, k in known))
        fresh = [(new_key(), new_key()) for _ in range(8)]
        mixed = [pair for both in zip(known, fresh, strict=True) for pair in both]
        replies = await asyncio.gather(*(_enter(either, merchant, t, key=k, family=family) for t, k in mixed))
        assert [reply.content for reply in replies[::2]] == [reply.content for reply in first]
        assert [reply.status_code for reply in replies] == [201] * 16
        for text, _ in mixed:
            assert await effects(either, text) == 1


class TestARequestAlone:
    async def test_has_an_id_and_a_time_of_its_own(self, either: Service, merchant: Party) -> None:
        """Both are drawn while it is judged; what was drawn for a request that was refused is used by nobody."""
        await _enter(either, merchant, new_key())
        refused = await write(either, "legacy", merchant, "/entries", {"text": ""})
        assert (refused.status_code, code(refused)) == (422, "validation_error")
        before = await either.db.fetchrow("SELECT nextval('webhook_id') AS id, instance_now() AS now")
        text = new_key()
        reply = await _enter(either, merchant, text)
        row = await either.db.fetchrow("SELECT id, created_at FROM webhook WHERE description = $1", text)
        assert before is not None
        assert row is not None
        assert reply.json()["data"]["id"] == row["id"] > before["id"]
        assert row["created_at"] > before["now"]


class TestManyClientsForAWhile:
    async def test_every_request_is_answered_and_nothing_is_written_twice(self, bursar: Service) -> None:
        """Sequential clients side by side: no item may be left waiting when a lane has just gone idle."""
        party = await bursar.open_account()
        texts: list[str] = []

        async def client() -> None:
            for _ in range(25):
                text = new_key()
                texts.append(text)
                reply = await asyncio.wait_for(_enter(bursar, party, text), 10)
                assert reply.status_code == 201

        await asyncio.gather(*(client() for _ in range(8)))
        rows = await bursar.db.fetch("SELECT description FROM webhook WHERE account_id = $1", party.merchant_id)
        assert sorted(row["description"] for row in rows) == sorted(texts)
