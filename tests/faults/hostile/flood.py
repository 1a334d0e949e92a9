"""Requests at a fixed rate, whether or not the last ones were answered: what overload is. A process of its own, and no
more of it than sockets and a clock, since it runs on the cores of those whom it floods.

python -m tests.faults.hostile.flood PORT PER_SECOND SECONDS < requests   (each: 4 bytes of length, then its bytes)
"""

from __future__ import annotations

import gc
import json
import select
import socket
import struct
import sys
import tempfile
import time
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from tests.faults.running import until

TICK_S = 0.005
AFTERWARDS_S = 5.0  # how long answers are waited for once nothing more is due
CONNECTIONS = 1500  # opened beforehand, as a proxy in front of the service would have them
OPENED_TOGETHER = 50
FIRST = b"GET /health/live HTTP/1.1\r\nHost: flood\r\n\r\n"


@dataclass(frozen=True)
class Flooded:
    """Answers by status, and seconds to them from when each request was due, whether or not a connection was free then.

    `lost` got no answer, `unsent` never got a connection.
    """

    counts: dict[str, int]
    p99_s: dict[str, float]
    slowest_s: float
    lost: int
    unsent: int


@dataclass(eq=False)
class _Connection:
    socket: socket.socket
    due_at: float | None = None  # of the request it waits with
    buffer: bytes = b""


def _complete(reply: bytes) -> bool:
    end = reply.find(b"\r\n\r\n")
    if end < 0:
        return False
    head = reply[:end].lower()
    at = head.find(b"content-length:")
    return at < 0 or len(reply) >= end + 4 + int(head[at + 15 :].split(b"\r\n", 1)[0])


class _Flood:
    def __init__(self, port: int) -> None:
        self._address = ("127.0.0.1", port)
        self._poll = select.epoll()
        self._by_number: dict[int, _Connection] = {}
        self._idle: list[_Connection] = []
        self._queue: deque[tuple[bytes, float]] = deque()  # due, and without a connection
        self.lost = self.waiting = 0
        self.seconds: defaultdict[str, list[float]] = defaultdict(list)

    @property
    def unsent(self) -> int:
        return len(self._queue)

    def connect(self) -> None:
        """Each connection is used once before it counts: until then the service may not even have accepted it."""
        for _ in range(0, CONNECTIONS, OPENED_TOGETHER):
            for _ in range(OPENED_TOGETHER):
                made = socket.create_connection(self._address)
                made.setblocking(False)
                made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._by_number[made.fileno()] = connection = _Connection(made)
                self._poll.register(made, select.EPOLLIN)
                self._send(connection, FIRST, time.perf_counter())
            self.answers()
        self.seconds.clear()

    def ask(self, request: bytes, due_at: float) -> None:
        self._queue.append((request, due_at))
        while self._idle and self._queue:
            self._send(self._idle.pop(), *self._queue.popleft())

    def _send(self, connection: _Connection, request: bytes, due_at: float) -> None:
        connection.due_at = due_at
        self.waiting += 1
        try:
            sent = connection.socket.send(request)
        except OSError:
            self._closed(connection)
            return
        assert sent == len(request)  # a request is smaller than an idle connection's buffer

    def look(self, until: float) -> None:
        """Takes what has been answered, and waits for more until then."""
        while True:
            for number, _ in self._poll.poll(max(0.0, until - time.perf_counter()), CONNECTIONS):
                self._receive(self._by_number[number])
            if time.perf_counter() >= until:
                return

    def answers(self) -> None:
        until = time.perf_counter() + AFTERWARDS_S
        while self.waiting and (now := time.perf_counter()) < until:
            self.look(now + TICK_S)

    def _receive(self, connection: _Connection) -> None:
        try:
            received = connection.socket.recv(65536)
        except OSError:
            received = b""
        if not received:
            self._closed(connection)
            return
        reply = connection.buffer + received
        if connection.due_at is None or not _complete(reply):
            connection.buffer = reply
            return
        self.seconds[reply[9:12].decode()].append(time.perf_counter() - connection.due_at)
        self.waiting -= 1
        connection.buffer, connection.due_at = b"", None
        if b"connection: close" in reply.lower():
            self._closed(connection)
        elif self._queue:
            self._send(connection, *self._queue.popleft())
        else:
            self._idle.append(connection)

    def _closed(self, connection: _Connection) -> None:
        if connection.due_at is not None:
            self.lost += 1
            self.waiting -= 1
        elif connection in self._idle:
            self._idle.remove(connection)
        del self._by_number[connection.socket.fileno()]
        connection.socket.close()


def _drive(requests: Sequence[bytes], port: int, per_second: float, seconds: float) -> Flooded:
    gc.freeze()
    flood = _Flood(port)
    flood.connect()
    started, asked = time.perf_counter(), 0
    while (now := time.perf_counter()) < started + seconds and asked < len(requests):
        due = min(len(requests), int((now - started) * per_second))
        for number in range(asked, due):
            flood.ask(requests[number], started + number / per_second)
        asked = due
        flood.look(now + TICK_S)
    flood.answers()
    times = {status: sorted(found) for status, found in flood.seconds.items()}
    return Flooded(
        counts={status: len(found) for status, found in times.items()},
        p99_s={status: found[int(len(found) * 0.99)] for status, found in times.items()},
        slowest_s=max(found[-1] for found in times.values()),
        lost=asked - sum(map(len, times.values())) - flood.unsent,
        unsent=flood.unsent,
    )


async def run(requests: Sequence[bytes], port: int, per_second: float, seconds: float) -> Flooded:
    with tempfile.TemporaryFile() as packed:
        packed.writelines(part for request in requests for part in (struct.pack(">I", len(request)), request))
        packed.seek(0)
        command = [sys.executable, "-m", "tests.faults.hostile.flood", str(port), str(per_second), str(seconds)]
        status, output = await until(command, seconds + 120, stdin=packed)
    assert status == 0, output
    return Flooded(**json.loads(output))


def _main() -> None:
    packed, requests, at = sys.stdin.buffer.read(), [], 0
    while at < len(packed):
        (length,) = struct.unpack_from(">I", packed, at)
        requests.append(packed[at + 4 : at + 4 + length])
        at += 4 + length
    flooded = _drive(requests, int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]))
    sys.stdout.write(json.dumps(asdict(flooded)))


if __name__ == "__main__":
    _main()
