"""Load: a fixed number of connections, each sending its next request when the last was answered.

Requests are bytes made beforehand, so the driver costs as little as a Python driver can. It runs in its own process
and tells what it cost itself.

    python -m bench.load PORT CONNECTIONS SECONDS REPEAT KEEP < requests   (each: 4 bytes of length, then its bytes)
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import json
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import cast

import uvloop


@dataclass(frozen=True, slots=True)
class Result:
    """One measurement. `cpu_us` is processor time per operation by process, `others` the cores that others used."""

    per_second: float
    p50_ms: float
    p99_ms: float
    answered: int
    statuses: dict[str, int] = field(default_factory=dict)
    cpu_us: dict[str, float] = field(default_factory=dict)
    others: float = 0.0
    digests: dict[str, str] = field(default_factory=dict)  # of the first replies' bodies, by the request's number


def result_of(times: list[float], elapsed: float) -> Result:
    """From the duration of each operation, in seconds."""
    times = sorted(times) or [0.0]
    return Result(
        per_second=len(times) / elapsed,
        p50_ms=times[len(times) // 2] * 1000,
        p99_ms=times[min(len(times) - 1, int(len(times) * 0.99))] * 1000,
        answered=len(times),
    )


class _Connection(asyncio.Protocol):
    """One request at a time; a reply ends where its Content-Length says."""

    def __init__(self, load: _Load) -> None:
        self._load = load
        self._buffer = b""
        self._sent = 0.0
        self._number = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._next(time.perf_counter())

    def _next(self, now: float) -> None:
        self._number = self._load.take(now)
        if self._number < 0:
            self._transport.close()
            return
        self._sent = now
        self._transport.write(self._load.request(self._number))

    def data_received(self, data: bytes) -> None:
        if self._buffer:
            data = self._buffer + data
        end = data.find(b"\r\n\r\n")
        if end >= 0:
            at = data.find(b"ontent-", 0, end)
            while at >= 0 and data[at + 7 : at + 14].lower() != b"length:":
                at = data.find(b"ontent-", at + 1, end)
            length = int(data[at + 14 : data.find(b"\r\n", at)]) if at >= 0 else 0
            if len(data) >= end + 4 + length:
                now = time.perf_counter()
                self._load.answered(self._number, data, end + 4, now - self._sent)
                self._buffer = b""
                self._next(now)
                return
        self._buffer = data

    def connection_lost(self, error: Exception | None) -> None:
        self._load.closed()


class _Load:
    def __init__(self, requests: Sequence[bytes], connections: int, seconds: float, repeat: bool, keep: int) -> None:
        self._requests = requests
        self._numbers = count()
        self._largest = sys.maxsize if repeat else len(requests)
        self._until = time.perf_counter() + seconds
        self._open = connections
        self._keep = keep
        self._times: list[float] = []
        self._statuses: Counter[bytes] = Counter()
        self._digests: dict[str, str] = {}
        self.finished = asyncio.Event()

    def take(self, now: float) -> int:
        """The number of the next request; -1 when there is none."""
        number = next(self._numbers)
        return -1 if now >= self._until or number >= self._largest else number

    def request(self, number: int) -> bytes:
        return self._requests[number % len(self._requests)]

    def answered(self, number: int, reply: bytes, body: int, seconds: float) -> None:
        self._times.append(seconds)
        self._statuses[reply[9:12]] += 1
        if number < self._keep:
            self._digests[str(number)] = hashlib.sha256(reply[body:]).hexdigest()

    def closed(self) -> None:
        self._open -= 1
        if self._open == 0:
            self.finished.set()

    def result(self, elapsed: float, cpu_s: float) -> Result:
        made = result_of(self._times, elapsed)
        return Result(
            made.per_second,
            made.p50_ms,
            made.p99_ms,
            len(self._times),
            {status.decode(): times for status, times in self._statuses.items()},
            {"driver": cpu_s / max(1, len(self._times)) * 1e6},
            0.0,
            self._digests,
        )


async def _drive(
    requests: Sequence[bytes], port: int, connections: int, seconds: float, repeat: bool, keep: int
) -> Result:
    gc.freeze()
    load = _Load(requests, connections, seconds, repeat, keep)
    started, cpu = time.perf_counter(), time.process_time()
    loop = asyncio.get_running_loop()
    for _ in range(connections):
        await loop.create_connection(lambda: _Connection(load), "127.0.0.1", port)
    async with asyncio.timeout(seconds + 30):
        await load.finished.wait()
    return load.result(time.perf_counter() - started, time.process_time() - cpu)


def run(
    requests: Sequence[bytes], port: int, connections: int, seconds: float, *, repeat: bool = False, keep: int = 0
) -> Result:
    """Drives the load from another process. Each request is sent once, or over and over with `repeat`; the bodies of
    the first `keep` replies are kept as digests.
    """
    packed = b"".join(struct.pack(">I", len(request)) + request for request in requests)
    options = (port, connections, seconds, int(repeat or len(requests) == 1), keep)
    done = subprocess.run(
        [sys.executable, "-m", "bench.load", *map(str, options)],
        input=packed,
        stdout=subprocess.PIPE,
        check=True,
        timeout=seconds + 60,
    )
    return Result(**json.loads(done.stdout))


def _main() -> None:
    port, connections, seconds, repeat, keep = sys.argv[1:]
    packed = sys.stdin.buffer.read()
    requests, at = [], 0
    while at < len(packed):
        (length,) = struct.unpack_from(">I", packed, at)
        requests.append(packed[at + 4 : at + 4 + length])
        at += 4 + length
    result = uvloop.run(_drive(requests, int(port), int(connections), float(seconds), repeat == "1", int(keep)))
    sys.stdout.write(json.dumps({name: getattr(result, name) for name in Result.__slots__}))


if __name__ == "__main__":
    _main()
