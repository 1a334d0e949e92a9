"""A receiver of webhooks: a process of its own that answers every request after 20 ms and remembers the last event.

python -m bench.receiver     prints its port
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import uvloop

ANSWER_AFTER_S = 0.02


@dataclass(frozen=True)
class Receiver:
    port: int
    pid: int


@contextmanager
def running() -> Iterator[Receiver]:
    process = subprocess.Popen([sys.executable, "-m", "bench.receiver"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield Receiver(int(process.stdout.readline()), process.pid)
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


async def arrived(port: int, event_id: str) -> float:
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


class _Receiver(asyncio.Protocol):
    """As little as possible, so that it is not what is measured."""

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


async def _serve() -> None:
    server = await asyncio.get_running_loop().create_server(_Receiver, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve())
