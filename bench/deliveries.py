"""Deliveries: how many a second one worker sends, beside a bare loop of the same HTTP client; and how soon the first
attempt follows a commit.

The receiver is a process of its own that answers every request after 20 ms. Both sides keep the same number of requests
in flight. The worker's side is the whole way: fan-out, leases, signatures, an attempt row and a state change each.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import deque
from contextlib import suppress

import uvloop

from bench import receiver, report
from bench.load import Result, result_of
from bench.receiver import Receiver
from bench.report import Case, Part
from bench.stage import Stage, stage
from bursar.core import ids
from bursar.core.clock import real_now
from bursar.core.crypto import Opener, Sealer, Vault, new_sealing_pair
from bursar.db.notify import Hints
from bursar.db.pool import Database
from bursar.db.sweep import Desk
from bursar.events import outbox
from bursar.events.fanout import webhook_place
from bursar.events.outbox import Cause, Event, new_event
from bursar.events.sender import EXTRA, IN_FLIGHT, Sender
from bursar.events.signing import webhook_headers
from bursar.events.transport import Limits, Transport, rules_of
from bursar.features.webhooks.service import seal_context
from bursar.features.webhooks.sweeps import SWEEPS, new_sender
from bursar.settings import Settings, load
from bursar.worker.loop import Worker

BARE = "bare loop of the same client"
ENDPOINTS = 32
EVENTS = 250
IN_FLIGHT_ALL = min(ENDPOINTS * IN_FLIGHT, EXTRA + ENDPOINTS)
IDLE_ROUNDS = 30
ACCOUNT = (1, "accsandb0xmerchant0_1")


def run(_: float, times: int) -> Part:
    with stage() as staged, receiver.running() as there, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        desk = runner.run(open_desk(staged))
        numbers = iter(range(times))
        found = report.rounds(
            {
                BARE: lambda: runner.run(
                    staged.measured_async(lambda: _bare_loop(desk.settings, there.port), receiver=(there.pid,))
                ),
                "deliveries": lambda: runner.run(deliver(staged, desk, there, next(numbers))),
            },
            times,
        )
        idle = runner.run(_idle(desk, there.port))
        runner.run(desk.db.close())
    return Part(
        f"Deliveries, {IN_FLIGHT_ALL} in flight, a receiver that answers in {receiver.ANSWER_AFTER_S * 1000:.0f} ms",
        [Case(BARE, found[BARE]), Case("deliveries", found["deliveries"], {"deliver_vs_bare_client": BARE})],
        figures={"commit_to_first_attempt_ms": round(statistics.median(idle) * 1000, 1)},
    )


async def open_desk(staged: Stage) -> Desk:
    private, public = new_sealing_pair()
    settings = load(
        {},
        env="test",
        database_url=staged.urls.service,
        key_pepper="00" * 32,
        seal_public_key=public.hex(),
        seal_private_key=private.hex(),
    )
    db = await Database.open(staged.urls.service, size=settings.pool_size)
    return Desk(db, settings, Vault(settings.key_pepper, Sealer(public)), Opener(private), lambda: None)


# The two sides -------------------------------------------------------------------------------------------------


async def _bare_loop(settings: Settings, port: int) -> Result:
    """The same client, headers and bytes, and nothing else."""
    transport = Transport(rules_of(settings), Limits())
    event, secret = _event(0), ids.new_webhook_secret()
    left = deque(range(ENDPOINTS * EVENTS))
    times: list[float] = []
    started = time.perf_counter()

    async def send() -> None:
        while left:
            began, number = time.perf_counter(), left.popleft()
            stamp = int(time.time())
            headers = webhook_headers([secret], event.event_id, event.type, number, 1, stamp, event.body)
            answer = await transport.post(f"http://127.0.0.1:{port}/{number % ENDPOINTS}", headers, event.body)
            assert answer.code == 200, answer
            times.append(time.perf_counter() - began)

    await asyncio.gather(*(send() for _ in range(IN_FLIGHT_ALL)))
    transport.close()
    return result_of(times, time.perf_counter() - started)


async def deliver(staged: Stage, desk: Desk, there: Receiver, number: int) -> Result:
    """New endpoints and events, and how long the worker takes for them."""
    await _endpoints(desk, there.port, number, ENDPOINTS)
    return await staged.measured_async(lambda: _worker(desk), receiver=(there.pid,))


async def _worker(desk: Desk) -> Result:
    """From events in the outbox to outcomes in the log."""
    done = await desk.db.fetchval("SELECT count(*) FROM delivery WHERE status = 'succeeded'")
    await outbox.write(desk.db, [_event(n) for n in range(EVENTS)])
    started = time.perf_counter()
    async with new_sender(desk) as sender:
        running = asyncio.create_task(sender.run(asyncio.Event()))
        while await _left(desk, sender):  # noqa: ASYNC110 - a look at the database
            await asyncio.sleep(0.005)
        taken = time.perf_counter() - started
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
    made = await desk.db.fetchval("SELECT count(*) FROM delivery WHERE status = 'succeeded'") - done
    assert made == ENDPOINTS * EVENTS, made
    return Result(made / taken, 0.0, 0.0, made)


async def _left(desk: Desk, sender: Sender) -> bool:
    if sender.attempts < ENDPOINTS * EVENTS:
        return True
    return bool(await desk.db.fetchval("SELECT EXISTS (SELECT FROM destination WHERE due_at IS NOT NULL)"))


async def _idle(desk: Desk, port: int) -> list[float]:
    """From a commit in another process's shoes (one event, one wake-up) to the request at the receiver."""
    await _endpoints(desk, port, 99, 1)
    worker = Worker(desk.settings, desk.db, SWEEPS)
    working = asyncio.create_task(worker.run())
    hints = Hints(desk.settings.database_url.get_secret_value(), {}, lambda: None)
    await hints.start()
    delays = []
    for number in range(IDLE_ROUNDS):
        await asyncio.sleep(0.1)
        event = _event(number)
        await outbox.write(desk.db, [event])
        committed = time.time()
        hints.wake()
        delays.append(await receiver.arrived(port, event.event_id) - committed)
    working.cancel()
    with suppress(asyncio.CancelledError):
        await working
    await hints.stop()
    return delays


def _event(number: int) -> Event:
    transaction = {
        "id": number, "identifier": f"order-{number}", "status": "succeeded", "amount": 10.5, "currency": "GBP",
        "customer_name": "Ada Lovelace", "details": "Twelve months of something useful", "metadata": {"cart": "c" * 40},
    }  # fmt: skip
    return new_event(
        "transaction.succeeded", {"transaction": transaction}, account=ACCOUNT, platform=None,
        now=real_now(), cause=Cause("req_bench", None, livemode=False),
    )  # fmt: skip


async def _endpoints(desk: Desk, port: int, round_number: int, count: int) -> None:
    """New endpoints of the sandbox's merchant, and no others."""
    await desk.db.execute("UPDATE webhook SET status = 'disabled' WHERE account_id = $1", ACCOUNT[0])
    for number in range(count):
        webhook_id = 10_000 + round_number * 100 + number
        sealed = desk.vault.seal(seal_context(ACCOUNT[0], webhook_id), ids.new_webhook_secret())
        await desk.db.execute(
            """
            INSERT INTO webhook (account_id, id, url, events, secret_sealed, secret_hint, created_at, updated_at)
            VALUES ($1, $2, $3, '{*}', $4, '', '2025-01-01T00:00:00Z', '2025-01-01T00:00:00Z')
            """,
            ACCOUNT[0],
            webhook_id,
            f"http://127.0.0.1:{port}/{number}",
            sealed,
        )
        await desk.db.execute(
            "INSERT INTO destination (account_id, place) VALUES ($1, $2)", ACCOUNT[0], webhook_place(webhook_id)
        )
