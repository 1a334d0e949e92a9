"""Writes that call a processor: intent, call, outcome. Whatever is cut in between, the worker finishes, once."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from tests.http.sending import CONSUMING, EVERY_FAMILY, NOT_CONSUMING, REPLAYING, code, effects, events, write
from tests.support.routes import Till, unanswered
from tests.support.service import Party, Service, new_key

pytestmark = pytest.mark.asyncio(loop_scope="module")

HOUR_S = 3600


class Killed(BaseException):
    """The process died here: nothing of ours catches this."""


async def _charge(
    bursar: Service, party: Party, reference: str, *, key: str, family: str = "legacy", **fields: Any
) -> httpx.Response:
    return await write(bursar, family, party, "/charges", {"reference": reference, **fields}, key=key)


async def _advance(bursar: Service, seconds: int) -> None:
    reply = await bursar.ops("POST", "/clock/advance", {"seconds": seconds})
    assert reply.status_code == 200, reply.text


async def _run_jobs(bursar: Service) -> dict[str, int]:
    reply = await bursar.ops("POST", "/jobs/run", {})
    assert reply.status_code == 200, reply.text
    counts: dict[str, int] = reply.json()["data"]
    return counts


async def _end_leases(bursar: Service) -> None:
    """As if the caller's time to finish by itself were over."""
    await bursar.db.execute("UPDATE operation SET lease_until = clock_timestamp() WHERE kind LIKE 'testing_%'")


async def _state(bursar: Service, reference: str) -> str:
    state = await bursar.db.fetchval("SELECT state FROM operation WHERE intent->>'reference' = $1", reference)
    return str(state)


@pytest.mark.parametrize("family", EVERY_FAMILY)
class TestAnAnswerThatComes:
    async def test_is_written_with_its_reply(self, bursar: Service, till: Till, platform: Party, family: str) -> None:
        reference, key = new_key(), new_key()
        reply = await _charge(bursar, platform, reference, key=key, family=family)
        assert (reply.status_code, reply.json()["data"]["status"]) == (201, "succeeded")
        assert till.times(reference) == 1
        assert await effects(bursar, f"{reference} intended") == await effects(bursar, f"{reference} done") == 1
        assert await events(bursar, reference) == 2
        assert await _state(bursar, reference) == "done"

    async def test_twenty_at_once_call_once(self, bursar: Service, till: Till, platform: Party, family: str) -> None:
        reference, key = new_key(), new_key()
        count = 6 if family == "dispute" else 20
        replies = await asyncio.gather(
            *(_charge(bursar, platform, reference, key=key, family=family) for _ in range(count))
        )
        assert len({reply.content for reply in replies if reply.status_code == 201}) == 1
        assert {code(reply) for reply in replies} <= {None, "duplicate_request"}
        assert till.times(reference) == till.finished.count(reference) == 1


class TestARefusalBeforeTheCall:
    @pytest.mark.parametrize("family", NOT_CONSUMING)
    async def test_leaves_the_key_free(self, bursar: Service, till: Till, platform: Party, family: str) -> None:
        reference, key = new_key(), new_key()
        refused = await _charge(bursar, platform, reference, key=key, family=family, refuse=True)
        assert (refused.status_code, code(refused)) == (422, "insufficient_balance")
        assert till.times(reference) == 0
        assert (await _charge(bursar, platform, reference, key=key, family=family)).status_code == 201

    @pytest.mark.parametrize("family", CONSUMING)
    async def test_consumes_the_key(self, bursar: Service, till: Till, platform: Party, family: str) -> None:
        reference, key = new_key(), new_key()
        refused = await _charge(bursar, platform, reference, key=key, family=family, refuse=True)
        assert refused.status_code == 422
        again = await _charge(bursar, platform, reference, key=key, family=family)
        assert again.status_code == 409
        assert till.times(reference) == 0


class TestAnOutcomeThatIsAnError:
    @pytest.mark.parametrize("family", NOT_CONSUMING)
    async def test_keeps_its_record_and_gives_the_key_back(
        self, bursar: Service, till: Till, platform: Party, family: str
    ) -> None:
        reference, key = new_key(), new_key()
        till.will(reference, "declined", "ok")
        declined = await _charge(bursar, platform, reference, key=key, family=family)
        assert (declined.status_code, code(declined)) == (422, "refund_failed")
        assert await effects(bursar, f"{reference} declined") == 1
        again = await _charge(bursar, platform, reference, key=key, family=family)
        assert again.status_code == 201
        assert "Idempotency-Replayed" not in again.headers

    async def test_is_replayed_where_errors_consume_the_key(self, bursar: Service, till: Till, platform: Party) -> None:
        reference, key = new_key(), new_key()
        till.will(reference, "declined", "ok")
        declined = await _charge(bursar, platform, reference, key=key, family="subscriptions")
        again = await _charge(bursar, platform, reference, key=key, family="subscriptions")
        assert (again.status_code, again.content) == (422, declined.content)
        assert till.times(reference) == 1


class TestNoAnswer:
    @pytest.mark.parametrize("family", REPLAYING)
    async def test_is_answered_pending_and_finished_by_the_worker(
        self, bursar: Service, till: Till, platform: Party, family: str
    ) -> None:
        reference, key = new_key(), new_key()
        till.will(reference, unanswered(), "ok")
        first = await _charge(bursar, platform, reference, key=key, family=family)
        assert (first.status_code, first.json()["data"]["status"]) == (202, "pending")
        assert await effects(bursar, f"{reference} done") == 0
        await _advance(bursar, 6)
        assert await effects(bursar, f"{reference} done") == 1
        assert await events(bursar, reference) == 2
        again = await _charge(bursar, platform, reference, key=key, family=family)
        assert (again.status_code, again.content) == (202, first.content)
        assert again.headers["Idempotency-Replayed"] == "true"
        assert till.times(reference) == 2

    async def test_in_time_is_no_answer(self, bursar: Service, till: Till, merchant: Party) -> None:
        reference, key = new_key(), new_key()

        async def never() -> str:
            await asyncio.sleep(30)
            return "ok"

        till.will(reference, never, "ok")
        reply = await _charge(bursar, merchant, reference, key=key)
        assert reply.status_code == 202
        assert await _state(bursar, reference) == "unknown"

    async def test_for_a_day_is_for_a_person_to_look_at(self, bursar: Service, till: Till, merchant: Party) -> None:
        reference, key = new_key(), new_key()
        till.will(reference, unanswered())
        await _charge(bursar, merchant, reference, key=key)
        await _advance(bursar, 22 * HOUR_S)
        assert await _state(bursar, reference) == "unknown"
        await _advance(bursar, 3 * HOUR_S)
        assert await _state(bursar, reference) == "review"
        calls = till.times(reference)
        await _advance(bursar, 3 * HOUR_S)
        assert till.times(reference) == calls < 40


class TestACrashBetweenCallAndOutcome:
    async def _crash(
        self, bursar: Service, till: Till, party: Party, reference: str, key: str, *later: Any, family: str = "legacy"
    ) -> None:
        till.will(reference, Killed("the process died"), *(later or ("ok",)))
        reply = await _charge(bursar, party, reference, key=key, family=family)
        assert reply.status_code == 500
        assert await _state(bursar, reference) == "calling"

    @pytest.mark.parametrize("family", REPLAYING)
    async def test_the_worker_finishes_and_the_key_is_answered(
        self, bursar: Service, till: Till, platform: Party, family: str
    ) -> None:
        reference, key = new_key(), new_key()
        await self._crash(bursar, till, platform, reference, key, family=family)
        meanwhile = await _charge(bursar, platform, reference, key=key, family=family)
        assert (meanwhile.status_code, code(meanwhile)) == (409, "duplicate_request")
        await _run_jobs(bursar)
        assert await effects(bursar, f"{reference} done") == 0, "the caller still holds its lease"
        await _end_leases(bursar)
        assert (await _run_jobs(bursar))["operations"] >= 1
        assert await effects(bursar, f"{reference} done") == 1
        again = await _charge(bursar, platform, reference, key=key, family=family)
        assert (again.status_code, again.json()["data"]["status"]) == (201, "succeeded")
        assert again.headers["Idempotency-Replayed"] == "true"
        assert await effects(bursar, f"{reference} intended") == 1
        assert till.finished.count(reference) == 1

    async def test_an_outcome_that_is_an_error_gives_the_key_back(
        self, bursar: Service, till: Till, merchant: Party
    ) -> None:
        reference, key = new_key(), new_key()
        await self._crash(bursar, till, merchant, reference, key, "declined", "ok")
        await _end_leases(bursar)
        await _run_jobs(bursar)
        assert await effects(bursar, f"{reference} declined") == 1
        assert (await _charge(bursar, merchant, reference, key=key)).status_code == 201

    async def test_one_operation_that_cannot_be_resumed_does_not_hold_up_the_others(
        self, bursar: Service, till: Till, merchant: Party
    ) -> None:
        broken, healthy = [new_key() for _ in range(3)], [new_key() for _ in range(3)]
        for one, other in zip(broken, healthy, strict=True):
            await self._crash(bursar, till, merchant, one, new_key(), RuntimeError("a defect in this call"))
            await self._crash(bursar, till, merchant, other, new_key())
        await _end_leases(bursar)
        await _run_jobs(bursar)
        for reference in healthy:
            assert await effects(bursar, f"{reference} done") == 1
        for reference in broken:
            assert await _state(bursar, reference) in ("calling", "unknown")
            till.will(reference, "ok")
        await _end_leases(bursar)
        await _advance(bursar, 60)
        for reference in broken:
            assert await effects(bursar, f"{reference} done") == 1

    async def test_subscriptions_unconfirmed_for_23_hours_need_a_billing_review(
        self, bursar: Service, till: Till, merchant: Party
    ) -> None:
        reference, key = new_key(), new_key()
        await self._crash(bursar, till, merchant, reference, key, unanswered(), family="subscriptions")
        await _advance(bursar, 23 * HOUR_S - 60)
        before = await _charge(bursar, merchant, reference, key=key, family="subscriptions")
        assert (before.status_code, code(before)) == (409, "duplicate_request")
        for later in (120, 3 * HOUR_S, 48 * HOUR_S):
            await _advance(bursar, later)
            reply = await _charge(bursar, merchant, reference, key=key, family="subscriptions")
            assert (reply.status_code, code(reply)) == (409, "billing_review_required")
        other = await _charge(bursar, merchant, f"{reference} other", key=key, family="subscriptions")
        assert (other.status_code, code(other)) == (409, "idempotency_conflict")
        assert await effects(bursar, f"{reference} intended") == 1

    async def test_a_defect_in_the_call_is_an_unconfirmed_outcome(
        self, bursar: Service, till: Till, merchant: Party
    ) -> None:
        reference, key = new_key(), new_key()
        till.will(reference, RuntimeError("a defect"), "ok")
        reply = await _charge(bursar, merchant, reference, key=key)
        assert (reply.status_code, code(reply)) == (500, "internal_error")
        assert (await _charge(bursar, merchant, reference, key=key)).status_code == 409
        await _end_leases(bursar)
        await _run_jobs(bursar)
        assert (await _charge(bursar, merchant, reference, key=key)).status_code == 201
        assert await effects(bursar, f"{reference} done") == 1


class TestAWorkerThatIsFasterThanTheCaller:
    async def _overtake(self, bursar: Service, till: Till, party: Party, outcome: str) -> tuple[str, httpx.Response]:
        reference, key = new_key(), new_key()
        answered = asyncio.Event()

        async def late() -> str:
            await answered.wait()
            return outcome

        till.will(reference, late, outcome)
        asked = asyncio.create_task(_charge(bursar, party, reference, key=key))
        while till.times(reference) == 0:  # noqa: ASYNC110 - the till has nothing to wait for
            await asyncio.sleep(0.01)
        await _end_leases(bursar)
        await _run_jobs(bursar)
        assert till.finished.count(reference) == 1
        answered.set()
        return reference, await asked

    async def test_the_caller_gets_what_the_worker_wrote(self, bursar: Service, till: Till, merchant: Party) -> None:
        reference, reply = await self._overtake(bursar, till, merchant, "ok")
        assert (reply.status_code, reply.json()["data"]["status"]) == (201, "succeeded")
        assert await effects(bursar, f"{reference} done") == till.finished.count(reference) == 1

    async def test_also_of_an_error_that_gave_the_key_back(self, bursar: Service, till: Till, merchant: Party) -> None:
        reference, reply = await self._overtake(bursar, till, merchant, "declined")
        assert (reply.status_code, code(reply)) == (503, "service_unavailable")
        assert await effects(bursar, f"{reference} declined") == till.finished.count(reference) == 1
