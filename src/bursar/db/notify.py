"""Hints between processes: "there is work", "forget this account". Each process has one connection for them.

A hint is sent after the commit it tells of, never inside a transaction, where it would halve the commit rate. Losing
one costs at most the polling interval of whoever listens; while the connection is down, `connected` says so.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import asyncpg
import structlog

from bursar.db.pool import LOST

WAKE = "bursar_wake"
ACCOUNT_CHANGED = "bursar_account_changed"
WAKE_EVERY_S = 0.02
RECONNECT_S = 0.5

log = structlog.get_logger()


class Hints:
    """Listens for hints and sends them."""

    def __init__(self, url: str, handlers: dict[str, Callable[[str], None]], on_reconnect: Callable[[], None]) -> None:
        self._url = url
        self._handlers = handlers
        self._on_reconnect = on_reconnect
        self._outgoing: dict[tuple[str, str], None] = {}
        self._something = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.connected = False

    async def start(self) -> None:
        ready = asyncio.Event()
        self._task = asyncio.create_task(self._run(ready))
        with contextlib.suppress(TimeoutError):
            # Not wait_for: Python 3.11's loses a cancellation that comes together with what it waits for.
            async with asyncio.timeout(5):
                await ready.wait()

    async def stop(self) -> None:
        while self._task is not None and not self._task.done():
            self._task.cancel()  # again, should it be lost while connecting: asyncpg waits with wait_for there
            await asyncio.wait([self._task], timeout=1)

    def wake(self) -> None:
        """There is due work."""
        self._send(WAKE, "")

    def account_changed(self, account_id: int) -> None:
        self._send(ACCOUNT_CHANGED, str(account_id))

    def _send(self, channel: str, payload: str) -> None:
        self._outgoing[channel, payload] = None
        self._something.set()

    async def _run(self, ready: asyncio.Event) -> None:
        while True:
            try:
                connection = await asyncpg.connect(self._url, timeout=5, server_settings={"application_name": "hints"})
                try:
                    await self._serve(connection, ready)
                finally:
                    self.connected = False
                    connection.terminate()
            except (*LOST, TimeoutError, asyncpg.PostgresError) as error:
                log.warning("hints.disconnected", error=type(error).__name__)
                await asyncio.sleep(RECONNECT_S)

    async def _serve(self, connection: asyncpg.Connection[Any], ready: asyncio.Event) -> None:
        lost = asyncio.Event()

        def cut(_: Any) -> None:
            lost.set()
            self._something.set()

        connection.add_termination_listener(cut)
        for channel in self._handlers:
            await connection.add_listener(channel, self._heard)
        self._on_reconnect()  # whatever was said meanwhile was missed
        self.connected = True
        ready.set()
        while True:
            await self._something.wait()
            if lost.is_set():
                raise ConnectionResetError
            self._something.clear()
            outgoing, self._outgoing = self._outgoing, {}
            for channel, payload in outgoing:
                await connection.execute("SELECT pg_notify($1, $2)", channel, payload)
            await asyncio.sleep(WAKE_EVERY_S)

    def _heard(self, _: Any, __: int, channel: str, payload: object) -> None:
        self._handlers[channel](str(payload))
