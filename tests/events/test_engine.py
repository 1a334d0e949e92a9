"""The engine under trouble: dead endpoints beside good ones, a long queue, workers that die at any moment."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import signal
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator

import pytest

from bursar.db.clock import CLOCK_LOCK
from bursar.db.embedded import Urls
from bursar.db.pool import Database
from bursar.events import lanes
from bursar.events.fanout import FAN_OUT_LOCK, fan_out
from tests.events.factories import deliveries, happen, register, run_jobs
from tests.events.receivers import Receiver, receiver
from tests.support.service import Party, Service, running_service

SCALE = int(os.environ.get("SCALE", "1"))  # 5: ten thousand deliveries with 15 kills

KILLS = 3


@pytest.fixture
async def hooks() -> AsyncIterator[Receiver]:
    async with receiver() as running:
        yield running


class TestFairness:
    async def test_dead_endpoints_do_not_delay_the_others(self, service: Service, hooks: Receiver) -> None:
        dead, alive = await service.open_account(), await service.open_account()
        for n in range(8):
            await register(service, dead, hooks.url(f"/hang/{n}"))
        await register(service, alive, hooks.url("/ok"))
        await happen(service.db, dead, 40)
        await hooks.wait_for(8)
        await happen(service.db, alive, 200)
        service.worker._wake()
        await hooks.wait_for(200, "/ok", timeout_s=service.settings.delivery_total_s * 2 / 3)

    async def test_sixteen_in_flight_while_it_answers_and_one_after_a_failure(
        self, service: Service, hooks: Receiver
    ) -> None:
        merchant = await service.open_account()
        await register(service, merchant, hooks.url("/ok"))
        await register(service, merchant, hooks.url("/fail"))
        hooks.delay_s = 0.2  # long beside what it takes to send one, on a busy machine, too
        await happen(service.db, merchant, 150)
        service.worker._wake()
        await hooks.wait_for(150, "/ok")
        await hooks.wait_for(3, "/fail")
        assert hooks.most_in_flight["/ok"] == 16
        assert hooks.most_in_flight["/fail"] == 1
        failed = len(hooks.at("/fail"))
        hooks.mood["/fail"] = "ok"
        await hooks.wait_for(150, "/fail")
        assert hooks.most_in_flight["/fail"] == 16, "it recovers as soon as it answers"
        assert failed < 20, "a place that fails is not hammered"

    async def test_one_failure_among_many_successes_costs_little(self, service: Service, hooks: Receiver) -> None:
        merchant = await service.open_account()
        await register(service, merchant, hooks.url("/ok"))
        hooks.delay_s = 0.005
        hooks.on_request = lambda request: hooks.mood.__setitem__("/ok", random.choice(["ok"] * 10 + ["fail"]))
        await happen(service.db, merchant, 400)
        service.worker._wake()
        await hooks.wait_for(400, timeout_s=20)  # a second for each of the failures would be twice that


class TestTwoWorkers:
    async def test_they_share_the_work_and_send_nothing_twice(self, urls: Urls, hooks: Receiver) -> None:
        async with (
            running_service(urls) as service,
            running_service(urls, like=service),
        ):
            merchant = await service.open_account()
            for n in range(12):
                await register(service, merchant, hooks.url(f"/ok/{n}"))
            for _ in range(10):
                await happen(service.db, merchant, 10)
                service.instance.hints.wake()
                await asyncio.sleep(0.01)
            async with asyncio.timeout(60):
                await _until_succeeded(service, 1200)
            await run_jobs(service)
            assert len(hooks.requests) == 1200
            assert max(hooks.most_in_flight.values()) <= 16


class TestLongQueue:
    async def test_what_is_due_elsewhere_is_found_at_once_and_memory_stays_small(
        self, service: Service, hooks: Receiver
    ) -> None:
        dead, alive = await service.open_account(), await service.open_account()
        webhook = await register(service, dead, hooks.url("/hang"))
        await register(service, alive, hooks.url("/ok"))
        [event] = await happen(service.db, dead)
        await hooks.wait_for(1, "/hang")
        await _pile_up(service.urls, dead, webhook["id"], 100_000 * SCALE)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        took = []
        for n in range(1, 6):
            started = time.monotonic()
            await happen(service.db, alive)
            service.worker._wake()
            await hooks.wait_for(n, "/ok")
            took.append(time.monotonic() - started)
        assert min(took) < 0.5
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert grown < 50_000, f"{grown} kB"
        assert event.body


async def _pile_up(urls: Urls, party: Party, webhook_id: int, count: int) -> None:
    """Deliveries that have been due for an hour, to an endpoint that does not answer."""
    owner = await Database.open(urls.owner, size=1, statement_timeout="60s")
    await owner.execute(
        """
        INSERT INTO delivery
            (account_id, id, channel, place, webhook_id, source_account_id, source_id, event_id, type, next_attempt_at,
             created_at, updated_at)
        SELECT account_id, nextval('delivery_id'), channel, place, webhook_id, source_account_id, source_id,
               'evt_' || n, type, now() - interval '1 hour', now(), now()
        FROM delivery, generate_series(1, $3) AS n
        WHERE account_id = $1 AND webhook_id = $2
        """,
        party.merchant_id,
        webhook_id,
        count,
    )
    await owner.execute("ANALYZE delivery")
    await owner.close()


class TestCrashes:
    async def test_a_cancelled_worker_gives_its_lanes_back(self, urls: Urls, hooks: Receiver) -> None:
        """A worker that is told to stop leaves nothing that another has to wait for."""
        async with running_service(urls, worker=False) as service:
            merchant = await service.open_account()
            await register(service, merchant, hooks.url("/ok"))
            hooks.delay_s = 0.02
            events = await happen(service.db, merchant, 300)
            for _ in range(10):
                working = asyncio.create_task(service.worker.run())
                await asyncio.sleep(random.uniform(0.05, 0.25))
                working.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await working
                assert await service.db.fetchval("SELECT count(*) FROM destination WHERE lease_until IS NOT NULL") == 0
            working = asyncio.create_task(service.worker.run())
            async with asyncio.timeout(60):
                await _until_succeeded(service, len(events))
            assert {request.event_id for request in hooks.requests} == {event.event_id for event in events}
            working.cancel()
            with pytest.raises(asyncio.CancelledError):
                await working
            bodies = defaultdict(set)
            for request in hooks.requests:
                bodies[request.event_id].add(request.body)
            assert all(len(seen) == 1 for seen in bodies.values())

    async def test_killed_workers_lose_nothing_and_repeat_the_same(self, urls: Urls, hooks: Receiver) -> None:
        seed = random.randrange(1_000_000)
        dice = random.Random(seed)
        async with running_service(urls, worker=False, delivery_lease_s=1.0) as service:
            merchant = await service.open_account()
            secrets = {}
            for n in range(4):
                webhook = await register(service, merchant, hooks.url(f"/ok/{n}"))
                secrets[f"/ok/{n}"] = webhook["secret"]
            hooks.delay_s = 0.002
            events = await happen(service.db, merchant, 500 * SCALE)
            expected = {(path, event.event_id) for path in secrets for event in events}
            for kill in range(1, KILLS * SCALE + 1):
                worker = await _spawn_worker(service)
                share = kill * len(expected) // (KILLS * SCALE + 1)
                await hooks.wait_for(share, timeout_s=30)
                await asyncio.sleep(dice.uniform(0, 0.02))
                worker.send_signal(signal.SIGKILL)
                await worker.wait()
            worker = await _spawn_worker(service)
            async with asyncio.timeout(60):
                await _until_succeeded(service, len(expected))
            worker.send_signal(signal.SIGTERM)
            await worker.wait()
            received = [(request.path, request.event_id) for request in hooks.requests]
            assert set(received) == expected
            frozen = {event.event_id: event.body for event in events}
            assert all(request.body == frozen[request.event_id] for request in hooks.requests)
            attempts = await service.db.fetchval("SELECT count(*) FROM delivery_attempt")
            assert attempts == len(expected), "every delivery was recorded as succeeded exactly once"
            assert len(received) > len(expected), f"seed {seed}: no kill hit a request in flight"

    async def test_a_paused_worker_cannot_overwrite_what_its_successor_wrote(
        self, service: Service, hooks: Receiver
    ) -> None:
        merchant = await service.open_account()
        await register(service, merchant, hooks.url("/hang"))
        await happen(service.db, merchant)
        await hooks.wait_for(1)
        # The lease runs out while the first attempt still hangs; another worker takes the lane over.
        hooks.mood["/hang"] = "ok"
        await service.db.execute("UPDATE destination SET lease_token = lease_token + 1, lease_until = NULL")
        await run_jobs(service)
        [delivery] = await deliveries(service, merchant)
        assert (delivery["status"], delivery["attempts"]) == ("succeeded", 1)

    async def test_outcomes_that_cannot_be_written_are_attempted_again(self, urls: Urls, hooks: Receiver) -> None:
        owner = await Database.open(urls.owner, size=1)
        async with running_service(urls) as service:
            merchant = await service.open_account()
            await register(service, merchant, hooks.url("/ok"))
            hooks.delay_s = 0.02
            await owner.execute("REVOKE INSERT ON delivery_attempt FROM bursar_app")
            events = await happen(service.db, merchant, 20)
            service.worker._wake()
            await hooks.wait_for(len(events) + 1)
            assert await service.db.fetchval("SELECT count(*) FROM delivery_attempt WHERE account_id > 1000") == 0
            await owner.execute("GRANT INSERT ON delivery_attempt TO bursar_app")
            async with asyncio.timeout(30):
                await _until_succeeded(service, len(events))
            found = await deliveries(service, merchant)
            assert [delivery["attempts"] for delivery in found] == [1] * len(events)
        await owner.close()


class TestFanOut:
    async def test_each_place_is_told_in_the_order_of_the_events(self, urls: Urls) -> None:
        async with running_service(urls, worker=False) as service:
            merchant = await service.open_account()
            for n in range(3):
                await register(service, merchant, f"http://127.0.0.1:9/{n}", ordered=n == 0)
            events = await happen(service.db, merchant, 120)
            while await fan_out(service.db):
                pass
            rows = await service.db.fetch(
                "SELECT place, event_id, order_key FROM delivery WHERE account_id = $1 ORDER BY id",
                merchant.merchant_id,
            )
            told = defaultdict(list)
            for row in rows:
                told[row["place"]].append(row["event_id"])
            assert [len(told), *told.values()] == [3, *[[event.event_id for event in events]] * 3]
            assert [row["order_key"] is not None for row in rows] == [True, False, False] * len(events)

    async def test_whoever_moves_the_clock_waits_for_a_turn(self, urls: Urls) -> None:
        """Another worker may be trying for its own at that moment; that must not look as if there was nothing to do."""
        async with running_service(urls, worker=False) as service:
            merchant = await service.open_account()
            await happen(service.db, merchant, 3)
            async with service.db.transaction() as other:
                await other.execute("SELECT pg_advisory_xact_lock($1)", FAN_OUT_LOCK)
                assert await fan_out(service.db) == 0
                moving = asyncio.create_task(fan_out(service.db, commanded=True))
                waiting = "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)"
                while not await other.fetchval(waiting):  # noqa: ASYNC110 - a look at the database
                    await asyncio.sleep(0.01)
            assert await moving == 3

    async def test_what_a_delivery_tells_of_is_found_by_its_key_in_tables_that_nobody_analysed(
        self, urls: Urls
    ) -> None:
        """As long as the planner knows nothing of a table, all of an account's events look as few as one."""
        async with running_service(urls, worker=False) as service:
            merchant = await service.open_account()
            await happen(service.db, merchant, 250)
            owner = await Database.open(urls.owner, size=1)
            wanted = [merchant.merchant_id], ["webhook:1"], [lanes.BEGINNING[0]], [0], [48]
            rows = await owner.fetch(f"EXPLAIN {lanes._READ}", *wanted, True, CLOCK_LOCK)
            plan = "\n".join(row[0] for row in rows)
            await owner.close()
        assert "Index Scan using event_pkey on event" in plan, plan
        assert "event_by_txid" not in plan, plan


async def _until_succeeded(service: Service, count: int) -> None:
    done = "SELECT count(*) FROM delivery WHERE account_id > 1000 AND status = 'succeeded'"
    while await service.db.fetchval(done) < count:  # noqa: ASYNC110 - another process is at work
        await asyncio.sleep(0.05)


async def _spawn_worker(service: Service) -> asyncio.subprocess.Process:
    settings = service.settings
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("BURSAR_")},
        "BURSAR_ENV": "test",
        "BURSAR_DATABASE_URL": settings.database_url.get_secret_value(),
        "BURSAR_KEY_PEPPER": settings.key_pepper.hex(),
        "BURSAR_SEAL_PUBLIC_KEY": settings.seal_public_key.hex(),
        "BURSAR_SEAL_PRIVATE_KEY": settings.seal_private_key.hex(),
        "BURSAR_DELIVERY_LEASE_S": str(settings.delivery_lease_s),
        "BURSAR_LOG_LEVEL": "error",
    }
    code = "import uvloop; from bursar import app, settings; uvloop.run(app.serve_worker(settings.load()))"
    return await asyncio.create_subprocess_exec(sys.executable, "-c", code, env=environment)
