"""Load: a fixed number of connections, each sending its next request when the last was answered.

Requests are bytes made beforehand, so the driver costs as little as a Python driver can. It runs in its own process.

    python -m bench.load PORT CONNECTIONS SECONDS < requests   (each request: 4 bytes of length, then its bytes)
"""

from __future__ import annotations

import asyncio
import json
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import cast

import uvloop


@dataclass(frozen=True, slots=True)
class Result:
    per_second: float
    p50_ms: float
    p99_ms: float
    answered: int
    statuses: dict[str, int]


class _Connection(asyncio.Protocol):
    """One request at a time; a reply ends where its Content-Length says."""

    def __init__(self, load: _Load) -> None:
        self._load = load
        self._buffer = b""
        self._sent = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._next()

    def _next(self) -> None:
        request = self._load.take()
        if request is None:
            self._transport.close()
            return
        self._sent = time.perf_counter()
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self._buffer[:end].lower()
        at = head.find(b"content-length:")
        length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
        if len(self._buffer) < end + 4 + length:
            return
        self._load.answered(self._buffer[9:12], time.perf_counter() - self._sent)
        self._buffer = b""
        self._next()

    def connection_lost(self, error: Exception | None) -> None:
        self._load.closed()


class _Load:
    def __init__(self, requests: Sequence[bytes], connections: int, seconds: float) -> None:
        self._requests = requests
        self._numbers = count()
        self._until = time.perf_counter() + seconds
        self._open = connections
        self._times: list[float] = []
        self._statuses: Counter[str] = Counter()
        self.finished = asyncio.Event()

    def take(self) -> bytes | None:
        number = next(self._numbers)
        if time.perf_counter() >= self._until or (number >= len(self._requests) and len(self._requests) > 1):
            return None
        return self._requests[number % len(self._requests)]

    def answered(self, status: bytes, seconds: float) -> None:
        self._times.append(seconds)
        self._statuses[status.decode()] += 1

    def closed(self) -> None:
        self._open -= 1
        if self._open == 0:
            self.finished.set()

    def result(self, elapsed: float) -> Result:
        times = sorted(self._times) or [0.0]
        return Result(
            per_second=len(self._times) / elapsed,
            p50_ms=times[len(times) // 2] * 1000,
            p99_ms=times[min(len(times) - 1, int(len(times) * 0.99))] * 1000,
            answered=len(self._times),
            statuses=dict(self._statuses),
        )


async def _drive(requests: Sequence[bytes], port: int, connections: int, seconds: float) -> Result:
    load = _Load(requests, connections, seconds)
    started = time.perf_counter()
    loop = asyncio.get_running_loop()
    for _ in range(connections):
        await loop.create_connection(lambda: _Connection(load), "127.0.0.1", port)
    await asyncio.wait_for(load.finished.wait(), seconds + 30)
    return load.result(time.perf_counter() - started)


def run(requests: Sequence[bytes], port: int, connections: int, seconds: float) -> Result:
    """Drives the load from another process. One request is repeated; of several, each is sent once."""
    packed = b"".join(struct.pack(">I", len(request)) + request for request in requests)
    done = subprocess.run(
        [sys.executable, "-m", "bench.load", str(port), str(connections), str(seconds)],
        input=packed,
        stdout=subprocess.PIPE,
        check=True,
        timeout=seconds + 60,
    )
    return Result(**json.loads(done.stdout))


def _main() -> None:
    port, connections, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    packed = sys.stdin.buffer.read()
    requests, at = [], 0
    while at < len(packed):
        (length,) = struct.unpack_from(">I", packed, at)
        requests.append(packed[at + 4 : at + 4 + length])
        at += 4 + length
    result = uvloop.run(_drive(requests, port, connections, seconds))
    sys.stdout.write(json.dumps({name: getattr(result, name) for name in Result.__slots__}))


if __name__ == "__main__":
    _main()
