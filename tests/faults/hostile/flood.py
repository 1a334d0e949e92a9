"""Requests at a fixed rate, whether or not the last ones were answered: what overload is. A process of its own.

python -m tests.faults.hostile.flood PORT PER_SECOND SECONDS < requests   (each: 4 bytes of length, then its bytes)
"""

from __future__ import annotations

import asyncio
import json
import struct
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import cast

import uvloop

TICK_S = 0.005
AFTERWARDS_S = 5.0  # how long answers are waited for once nothing more is sent
CONNECTIONS = 1500  # opened beforehand, as a proxy in front of the service would have them
OPENED_TOGETHER = 50
FIRST = b"GET /health/live HTTP/1.1\r\nHost: flood\r\n\r\n"


@dataclass(frozen=True)
class Flooded:
    """Answers by status, and seconds to them; `lost` got none, `unsent` found all connections waiting for theirs."""

    counts: dict[str, int]
    p99_s: dict[str, float]
    slowest_s: float
    lost: int
    unsent: int


class _Connection(asyncio.Protocol):
    def __init__(self, flood: _Flood) -> None:
        self._flood = flood
        self._buffer = b""
        self._sent_at: float | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def send(self, request: bytes, due_at: float) -> None:
        self._sent_at = due_at
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self._buffer[:end].lower()
        at = head.find(b"content-length:")
        length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
        if len(self._buffer) < end + 4 + length or self._sent_at is None:
            return
        self._flood.answered(self._buffer[9:12].decode(), time.perf_counter() - self._sent_at)
        self._buffer, self._sent_at = b"", None
        if b"connection: close" in head:
            self._transport.close()
        else:
            self._flood.idle.append(self)

    def connection_lost(self, error: Exception | None) -> None:
        if self._sent_at is not None:
            self._flood.lost += 1
            self._flood.waiting -= 1
        if self in self._flood.idle:
            self._flood.idle.remove(self)


class _Flood:
    def __init__(self, port: int) -> None:
        self._port = port
        self.idle: list[_Connection] = []
        self.lost = self.unsent = self.waiting = 0
        self.seconds: defaultdict[str, list[float]] = defaultdict(list)

    def answered(self, status: str, seconds: float) -> None:
        self.seconds[status].append(seconds)
        self.waiting -= 1

    async def connect(self) -> None:
        """Each connection is used once before it counts: until then the service may not even have accepted it."""
        loop = asyncio.get_running_loop()
        for _ in range(0, CONNECTIONS, OPENED_TOGETHER):
            made = [
                loop.create_connection(lambda: _Connection(self), "127.0.0.1", self._port)
                for _ in range(OPENED_TOGETHER)
            ]
            for _, connection in await asyncio.gather(*made):
                self.waiting += 1
                connection.send(FIRST, time.perf_counter())
            await self.answers()
        self.seconds.clear()

    async def answers(self) -> None:
        until = time.perf_counter() + AFTERWARDS_S
        while self.waiting and time.perf_counter() < until:  # noqa: ASYNC110 - a look at a count
            await asyncio.sleep(0.005)

    def send(self, request: bytes) -> None:
        if self.idle:
            self.waiting += 1
            self.idle.pop().send(request, time.perf_counter())
        else:
            self.unsent += 1


async def _drive(requests: Sequence[bytes], port: int, per_second: float, seconds: float) -> Flooded:
    flood = _Flood(port)
    await flood.connect()
    started, sent = time.perf_counter(), 0
    while (elapsed := time.perf_counter() - started) < seconds and sent < len(requests):
        due = min(len(requests), int(elapsed * per_second))
        while sent < due:
            flood.send(requests[sent])
            sent += 1
        await asyncio.sleep(TICK_S)
    await flood.answers()
    times = {status: sorted(found) for status, found in flood.seconds.items()}
    return Flooded(
        counts={status: len(found) for status, found in times.items()},
        p99_s={status: found[int(len(found) * 0.99)] for status, found in times.items()},
        slowest_s=max(found[-1] for found in times.values()),
        lost=sent - sum(map(len, times.values())) - flood.unsent,
        unsent=flood.unsent,
    )


def run(requests: Sequence[bytes], port: int, per_second: float, seconds: float) -> Flooded:
    packed = b"".join(struct.pack(">I", len(request)) + request for request in requests)
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.hostile.flood", str(port), str(per_second), str(seconds)],
        input=packed, stdout=subprocess.PIPE, check=True, timeout=seconds + 120,
    )  # fmt: skip
    return Flooded(**json.loads(done.stdout))


def _main() -> None:
    packed, requests, at = sys.stdin.buffer.read(), [], 0
    while at < len(packed):
        (length,) = struct.unpack_from(">I", packed, at)
        requests.append(packed[at + 4 : at + 4 + length])
        at += 4 + length
    flooded = uvloop.run(_drive(requests, int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])))
    sys.stdout.write(json.dumps(asdict(flooded)))


if __name__ == "__main__":
    _main()
