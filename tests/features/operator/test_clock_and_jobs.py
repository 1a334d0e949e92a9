"""The instance's clock, and due work that runs in order while it moves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import pytest_asyncio

from bursar.db.clock import instance_now
from bursar.db.embedded import Urls
from bursar.db.pool import Database
from bursar.db.sweep import Desk, Sweep
from tests.support.service import Service, new_key, running_service

pytestmark = pytest.mark.asyncio(loop_scope="module")

DAY_S = 86_400


class Diary:
    """A sweep's due moments. What was done, and when, goes into one log for all of them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.due: list[datetime] = []
        self.done: list[tuple[str, datetime, datetime]] = []
        self.before: Callable[[datetime], Awaitable[None]] | None = None

    async def run(self, _: Desk, now: datetime) -> int:
        due = sorted(moment for moment in self.due if moment <= now)
        if due and self.before:
            await self.before(now)
        for moment in due:
            self.due.remove(moment)
            self.done.append((self.name, moment, now))
        return len(due)

    async def next_due(self, _: Database) -> datetime | None:
        return min(self.due, default=None)

    @property
    def sweep(self) -> Sweep:
        return Sweep(self.name, self.run, self.next_due)


@pytest.fixture(scope="module")
def diaries() -> tuple[Diary, Diary]:
    return Diary("first"), Diary("second")


@pytest.fixture
def first(diaries: tuple[Diary, Diary]) -> Diary:
    return _emptied(diaries[0])


@pytest.fixture
def second(diaries: tuple[Diary, Diary]) -> Diary:
    return _emptied(diaries[1])


def _emptied(diary: Diary) -> Diary:
    diary.due, diary.done, diary.before = [], [], None
    return diary


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bursar(module_urls: Urls, diaries: tuple[Diary, Diary]) -> AsyncIterator[Service]:
    """An instance whose worker also keeps the two diaries."""
    async with running_service(module_urls, sweeps=[diary.sweep for diary in diaries]) as running:
        yield running


async def _offset(bursar: Service) -> float:
    return float((await bursar.ops("GET", "/clock")).json()["data"]["offset_seconds"])


async def _advance(bursar: Service, seconds: int) -> dict[str, Any]:
    reply = await bursar.ops("POST", "/clock/advance", {"seconds": seconds})
    assert reply.status_code == 200, reply.text
    data: dict[str, Any] = reply.json()["data"]
    return data


def _in_order(*diaries: Diary) -> list[str]:
    """Whose work was done, in the order it was done; each at its moment."""
    done = sorted((entry for diary in diaries for entry in diary.done), key=lambda entry: entry[2])
    for _, due, moment in done:
        assert timedelta(0) <= moment - due < timedelta(seconds=5), "the clock stopped at the moment itself"
    return [name for name, _, _ in done]


class TestTheClock:
    async def test_starts_at_the_real_time(self, bursar: Service) -> None:
        data = (await bursar.ops("GET", "/clock")).json()["data"]
        assert data["offset_seconds"] == 0
        assert abs(datetime.fromisoformat(data["now"]) - datetime.now(UTC)) < timedelta(seconds=60)

    async def test_moves_forward_and_goes_on_running(self, bursar: Service) -> None:
        before, offset = await instance_now(bursar.db), await _offset(bursar)
        now = datetime.fromisoformat(str((await _advance(bursar, 45 * DAY_S))["now"]))
        assert timedelta(0) <= now - before - timedelta(days=45) < timedelta(seconds=5)
        assert await instance_now(bursar.db) >= now
        assert abs(await _offset(bursar) - offset - 45 * DAY_S) < 5

    async def test_moves_by_nothing(self, bursar: Service) -> None:
        assert (await _advance(bursar, 0))["ran"] == []

    @pytest.mark.parametrize("seconds", [-1, 1.5, "60", None, 10**12, True])
    async def test_moves_by_whole_seconds_forward(self, bursar: Service, seconds: object) -> None:
        reply = await bursar.ops("POST", "/clock/advance", {"seconds": seconds})
        assert (reply.status_code, reply.json()["error"]["code"]) == (422, "validation_error")

    async def test_dates_records_but_not_signatures(self, bursar: Service) -> None:
        await _advance(bursar, 400 * DAY_S)
        merchant = await bursar.open_account()
        account = (await bursar.get(merchant, "/account")).json()["data"]["account"]
        assert datetime.fromisoformat(account["created_at"]) - datetime.now(UTC) > timedelta(days=399)
        hook = {"url": "https://example.com/hook", "events": ["*"]}
        assert (await bursar.send(merchant, "POST", "/webhooks", hook)).status_code == 201

    async def test_an_advance_under_one_key_moves_once(self, bursar: Service) -> None:
        key, offset = {"Idempotency-Key": new_key()}, await _offset(bursar)
        replies = [await bursar.ops("POST", "/clock/advance", {"seconds": DAY_S}, **key) for _ in range(2)]
        assert replies[0].content == replies[1].content
        assert abs(await _offset(bursar) - offset - DAY_S) < 5

    async def test_two_at_once_move_by_both(self, bursar: Service) -> None:
        offset = await _offset(bursar)
        await asyncio.gather(_advance(bursar, DAY_S), _advance(bursar, DAY_S))
        assert abs(await _offset(bursar) - offset - 2 * DAY_S) < 5


class TestDueWork:
    async def test_runs_in_the_order_in_which_it_falls_due(self, bursar: Service, first: Diary, second: Diary) -> None:
        now = await instance_now(bursar.db)
        hours = [timedelta(hours=hour) for hour in range(1, 7)]
        first.due += [now + hours[0], now + hours[4], now + timedelta(days=9)]
        second.due += [now + hours[1], now + hours[2], now + hours[3], now + hours[5]]
        ran = (await _advance(bursar, DAY_S))["ran"]
        expected = ["first", "second", "second", "second", "first", "second"]
        assert _in_order(first, second) == expected
        assert [(entry["job"], entry["rows"]) for entry in ran if entry["job"] in expected] == [
            (name, 1) for name in expected
        ]
        assert len(first.due) == 1

    async def test_that_falls_due_because_of_other_work_runs_too(
        self, bursar: Service, first: Diary, second: Diary
    ) -> None:
        async def follow(now: datetime) -> None:
            first.due.append(now + timedelta(minutes=5))

        second.before = follow
        second.due.append(await instance_now(bursar.db) + timedelta(hours=1))
        await _advance(bursar, 2 * 3600)
        assert _in_order(first, second) == ["second", "first"]
        assert first.done[0][2] - second.done[0][2] >= timedelta(minutes=5)

    async def test_runs_on_request_and_is_counted(self, bursar: Service, first: Diary) -> None:
        for _ in range(5):  # the worker may have found it by itself just before
            now = await instance_now(bursar.db)
            first.due += [now, now]
            counts = (await bursar.ops("POST", "/jobs/run", {})).json()["data"]
            assert {"operations", "idempotency_keys", "first", "second"} <= set(counts)
            assert first.due == []
            if counts["first"] == 2:
                break
        assert counts["first"] == 2
        assert (await bursar.ops("POST", "/jobs/run", {})).json()["data"]["first"] == 0

    async def test_that_fails_holds_up_neither_the_clock_nor_the_others(
        self, bursar: Service, first: Diary, second: Diary
    ) -> None:
        async def fail(_: datetime) -> None:
            raise RuntimeError("a defect in this sweep")

        first.before = fail
        now = await instance_now(bursar.db)
        first.due.append(now + timedelta(hours=1))
        second.due += [now + timedelta(hours=2), now + timedelta(hours=3)]
        async with asyncio.timeout(20):
            data = await _advance(bursar, 4 * 3600)
        assert _in_order(first, second) == ["second", "second"]
        assert datetime.fromisoformat(data["now"]) - now >= timedelta(hours=4)

    async def test_that_cannot_be_done_is_said_and_leaves_the_key_free(self, bursar: Service, first: Diary) -> None:
        async def lose(_: datetime) -> None:
            raise ConnectionResetError

        key = {"Idempotency-Key": new_key()}
        first.before = lose
        first.due.append(await instance_now(bursar.db))
        reply = await bursar.ops("POST", "/jobs/run", {}, **key)
        assert (reply.status_code, reply.json()["error"]["code"]) == (500, "work_failed")
        first.before = None
        assert (await bursar.ops("POST", "/jobs/run", {}, **key)).status_code == 200
        assert len(first.done) == 1

    async def test_runs_by_itself(self, bursar: Service, first: Diary) -> None:
        first.due.append(await instance_now(bursar.db))
        async with asyncio.timeout(10):
            while not first.done:  # noqa: ASYNC110 - a test's wait
                await asyncio.sleep(0.02)
        assert len(first.done) == 1


class TestAnOrderWhoseCallerDied:
    async def test_is_waited_for_by_its_operation_alone(self, bursar: Service) -> None:
        """The worker leaves the operation of an order that nobody has carried out alone, and goes on with the rest."""
        await bursar.db.execute(
            """
            INSERT INTO worker_command (id, kind, argument, lease_until)
            VALUES (nextval('worker_command_id'), 'run_jobs', '{}', clock_timestamp() + interval '1 hour')
            """
        )
        await bursar.db.execute(
            """
            INSERT INTO operation
                (account_id, id, kind, intent, owner_id, request_id, due_at, created_at, updated_at)
            SELECT 0, nextval('operation_id'), 'run_jobs', jsonb_build_object('command_id', max(id)), 0, 'req_gone',
                   instance_now(), instance_now(), instance_now()
            FROM worker_command
            """
        )
        async with asyncio.timeout(20):
            assert (await bursar.ops("POST", "/jobs/run", {})).status_code == 200
        operation = "SELECT state, attempts FROM operation WHERE request_id = 'req_gone'"
        assert tuple(await bursar.db.fetchrow(operation) or ()) == ("calling", 0)
        await bursar.db.execute("UPDATE worker_command SET lease_until = clock_timestamp() WHERE done_at IS NULL")
        async with asyncio.timeout(20):
            while tuple(await bursar.db.fetchrow(operation) or ()) != ("done", 1):  # noqa: ASYNC110 - a test's wait
                await asyncio.sleep(0.02)

    async def test_moves_the_clock_no_farther_when_it_is_taken_over(self, bursar: Service) -> None:
        """A worker died on the way; the next one goes where the first was going, not as far again from there."""
        number, until = await bursar.db.fetchrow(
            """
            INSERT INTO worker_command (id, kind, argument, lease_until)
            SELECT nextval('worker_command_id'), 'advance_clock',
                   jsonb_build_object('seconds', 86400, 'until', instance_now() + interval '100 s'), clock_timestamp()
            RETURNING id, instance_now() + interval '100 s'
            """
        )  # type: ignore[misc]
        async with asyncio.timeout(10):
            while not await bursar.db.fetchval(  # noqa: ASYNC110 - a test's wait
                "SELECT done_at FROM worker_command WHERE id = $1", number
            ):
                await asyncio.sleep(0.02)
        assert timedelta(0) <= await instance_now(bursar.db) - until < timedelta(seconds=60)
