"""A wire between the service and its database that misbehaves: resets, stalls, half-closes, and cuts what was sent.

The cruellest of them lets a COMMIT through and cuts the line before its answer, or loses it on the way: nobody on this
side can know which.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import socket
import struct
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field

KINDS = ("reset", "stall", "half_close", "cut_before_send", "cut_after_commit", "cut_after_send", "drop_reply")
STALL_S = 1.5
CHUNK = 65536


@dataclass(eq=False)
class Line:
    """One connection of the service, and its counterpart at the database."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    open: asyncio.Event = field(default_factory=asyncio.Event)
    number: int = 0
    fate: str = ""
    started: bool = False

    def cut(self) -> None:
        """To the service it looks as if the database's machine had gone away."""
        with suppress(OSError, AttributeError):
            sock = self.client.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.client.transport.abort()


class FaultProxy:
    def __init__(self, target: str, seed: int) -> None:
        self._target = target
        self._dice = random.Random(seed)
        self._lines: set[Line] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.cuts: Counter[str] = Counter()
        self._numbers = itertools.count(1)
        self.port = 0

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for line in list(self._lines):
            line.cut()
            line.server.transport.abort()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def strike(self, kind: str) -> bool:
        """One fault on a line chosen by chance; False when there is no line."""
        lines = [line for line in self._lines if line.started and not line.fate]
        if not lines:
            return False
        line = self._dice.choice(sorted(lines, key=lambda line: line.number))
        if kind == "reset":
            self.cuts[kind] += 1
            line.cut()
            line.server.transport.abort()
        elif kind == "half_close":
            self.cuts[kind] += 1
            with suppress(OSError):
                line.client.write_eof()
        elif kind == "stall":
            self.cuts[kind] += 1
            line.open.clear()
            task = asyncio.create_task(self._go_on(line))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            line.fate = kind  # when it next sends something that fits
        return True

    def relent(self) -> None:
        """No line meets a fate any more that it has not met yet."""
        for line in self._lines:
            line.fate = ""

    @staticmethod
    async def _go_on(line: Line) -> None:
        await asyncio.sleep(STALL_S)
        line.open.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            server_reader, server = await asyncio.open_unix_connection(self._target)
        except OSError:
            writer.transport.abort()
            return
        line = Line(writer, server, number=next(self._numbers))
        line.open.set()
        self._lines.add(line)
        pumps = [
            asyncio.create_task(self._to_server(line, reader)),
            asyncio.create_task(self._to_client(line, server_reader)),
        ]
        self._tasks.update(pumps)
        for pump in pumps:
            pump.add_done_callback(self._tasks.discard)
        await asyncio.gather(*pumps, return_exceptions=True)
        self._lines.discard(line)
        for end in (writer, server):
            end.close()

    async def _to_server(self, line: Line, reader: asyncio.StreamReader) -> None:
        with suppress(OSError):
            while chunk := await reader.read(CHUNK):
                await line.open.wait()
                if line.fate == "cut_before_send":
                    self.cuts[line.fate] += 1
                    line.cut()  # to the service this is the same as a cut afterwards; to the database it is not
                    line.server.transport.abort()
                    return
                commits = b"COMMIT;\x00" in chunk
                line.server.write(chunk)
                await line.server.drain()
                if line.fate == "cut_after_send" or (commits and line.fate in ("cut_after_commit", "drop_reply")):
                    self.cuts[line.fate] += 1
                    if line.fate != "drop_reply":
                        line.cut()  # the database reads on, does it, and finds nobody to tell
                        return
                    line.open.clear()  # the answer comes back to nobody, and after a while the line is gone
                    await asyncio.sleep(STALL_S)
                    line.cut()
                    line.server.transport.abort()  # else the database would keep a session for a client that is gone
                    line.open.set()
                    return
        with suppress(OSError):
            line.server.write_eof()

    async def _to_client(self, line: Line, reader: asyncio.StreamReader) -> None:
        with suppress(OSError):
            while chunk := await reader.read(CHUNK):
                await line.open.wait()
                line.client.write(chunk)
                await line.client.drain()
                line.started = True
        with suppress(OSError):
            line.client.write_eof()
