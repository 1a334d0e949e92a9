"""Deliveries: how many a second one worker sends, beside a bare loop of the same HTTP client; and how soon the first
attempt follows a commit.

    python -m bench.deliveries

The receiver is a process of its own that answers every request after 20 ms. Both sides keep the same number of requests
in flight. The worker's side is the whole way: fan-out, leases, signatures, an attempt row and a state change each.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import uvloop

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

ANSWER_AFTER_S = 0.02
ENDPOINTS = 32
EVENTS = 500
IN_FLIGHT_ALL = min(ENDPOINTS * IN_FLIGHT, EXTRA + ENDPOINTS)
IDLE_ROUNDS = 30
ACCOUNT = (1, "accsandb0xmerchant0_1")


def run(rounds: int = 3) -> dict[str, Any]:
    """Best of `rounds` of each side, interleaved."""
    with stage() as staged, _receiver() as port:
        return uvloop.run(_measure(staged, port, rounds))


async def _measure(staged: Stage, port: int, rounds: int) -> dict[str, Any]:
    desk = await _desk(staged)
    secret = ids.new_webhook_secret()
    bare, worker = [], []
    for number in range(rounds):
        bare.append(await _bare_loop(desk.settings, port, secret))
        worker.append(await _worker(desk, port, number))
    idle = await _idle(desk, port)
    await desk.db.close()
    return {
        "bare_per_second": round(max(bare)),
        "worker_per_second": round(max(worker)),
        "ratio": round(max(worker) / max(bare), 2),
        "goal_ratio": 0.6,
        "in_flight": IN_FLIGHT_ALL,
        "commit_to_first_attempt_ms": round(statistics.median(idle) * 1000, 1),
        "goal_ms": 200,
    }


async def _desk(staged: Stage) -> Desk:
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


async def _bare_loop(settings: Settings, port: int, secret: str) -> float:
    """The same client, headers and bytes, and nothing else."""
    transport = Transport(rules_of(settings), Limits())
    event = _event(0)
    left = deque(range(ENDPOINTS * EVENTS))
    started = time.perf_counter()

    async def send() -> None:
        while left:
            number = left.popleft()
            stamp = int(time.time())
            headers = webhook_headers([secret], event.event_id, event.type, number, 1, stamp, event.body)
            answer = await transport.post(f"http://127.0.0.1:{port}/{number % ENDPOINTS}", headers, event.body)
            assert answer.code == 200, answer

    await asyncio.gather(*(send() for _ in range(IN_FLIGHT_ALL)))
    rate = ENDPOINTS * EVENTS / (time.perf_counter() - started)
    transport.close()
    return rate


async def _worker(desk: Desk, port: int, number: int) -> float:
    """From events in the outbox to outcomes in the log."""
    await _endpoints(desk, port, number, ENDPOINTS)
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
    return ENDPOINTS * EVENTS / taken


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
        delays.append(await _arrived(port, event.event_id) - committed)
    working.cancel()
    with suppress(asyncio.CancelledError):
        await working
    await hints.stop()
    return delays


async def _arrived(port: int, event_id: str) -> float:
    """When the receiver got this event, by its own account."""
    for _ in range(1000):
        await asyncio.sleep(0.01)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /last HTTP/1.1\r\n\r\n")
        reply = (await reader.read(4096)).decode()
        writer.close()
        last, _, moment = reply.rpartition("\r\n\r\n")[2].partition(" ")
        if last == event_id:
            return float(moment)
    raise TimeoutError("the event did not arrive")


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


# The receiver --------------------------------------------------------------------------------------------------


class _Receiver(asyncio.Protocol):
    """Reads a request, answers 20 ms later. As little as possible, so that it is not what is measured."""

    last = b"none 0"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._buffer = b""

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = self._buffer[:end].lower()
            at = head.find(b"content-length: ")
            length = int(head[at + 16 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self._buffer) < end + 4 + length:
                return
            request, self._buffer = self._buffer[: end + 4 + length], self._buffer[end + 4 + length :]
            self._answer(request)

    def _answer(self, request: bytes) -> None:
        if request.startswith(b"GET"):
            self._write(_Receiver.last)
            return
        event_id = request.partition(b"X-Service-Event-Id: ")[2].split(b"\r\n", 1)[0]
        _Receiver.last = event_id + b" %.6f" % time.time()
        asyncio.get_running_loop().call_later(ANSWER_AFTER_S, self._write, b"ok")

    def _write(self, body: bytes) -> None:
        if self._transport.is_closing():
            return
        self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))  # type: ignore[attr-defined]


async def _receive() -> None:
    server = await asyncio.get_running_loop().create_server(_Receiver, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def _receiver() -> Iterator[int]:
    process = subprocess.Popen([sys.executable, "-m", "bench.deliveries", "receive"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


if __name__ == "__main__":
    if sys.argv[1:] == ["receive"]:
        uvloop.run(_receive())
    else:
        print(json.dumps(run(), indent=2))
