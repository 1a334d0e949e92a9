"""The simulator as the process it is: killed while customers pay, it comes back and every payment was taken once."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys

import pytest

from bursar.db.embedded import Urls
from bursar.processors.protocol import PaymentState, Unknown
from tests.processors.running import Rig, a_key, running_shop

PROGRAM = """
import asyncio, socket, sys
from bursar import settings
from bursar.processors.simulator.serve import serve_simulator

asyncio.run(serve_simulator(settings.load(), [socket.socket(fileno=int(sys.argv[1]))]))
"""


class Process:
    """The simulator's process; its socket stays open while it is dead."""

    def __init__(self, rig: Rig, urls: Urls, listener: socket.socket) -> None:
        self._listener = listener
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("BURSAR_")},
            "BURSAR_ENV": "test",
            "BURSAR_DATABASE_URL": urls.service,
            "BURSAR_BASE_URL": rig.settings.base_url,
            "BURSAR_SIMULATOR_URL": rig.settings.simulator_url,
            "BURSAR_PROCESSOR_SECRET": rig.settings.simulator_secret.hex(),
        }
        self._running = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        number = self._listener.fileno()
        return subprocess.Popen([sys.executable, "-c", PROGRAM, str(number)], env=self._environment, pass_fds=[number])

    def kill(self) -> None:
        self._running.send_signal(signal.SIGKILL)
        self._running.wait()
        self._running = self._start()

    def stop(self) -> int:
        self._running.send_signal(signal.SIGTERM)
        return self._running.wait(10)


async def insist(rig: Rig, reference: str) -> PaymentState:
    """A customer who presses the same button until there is an answer."""
    key = a_key()
    for _ in range(200):
        try:
            return await rig.pay(reference, key=key)
        except Unknown:
            await asyncio.sleep(0.05)
    pytest.fail("the simulator never answered")


async def test_killed_while_customers_pay(urls: Urls) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    async with running_shop(urls, url, processor_timeout_s=2.0) as rig:
        process = Process(rig, urls, listener)
        try:
            for _ in range(200):  # until it answers
                try:
                    references = [(await rig.start()).reference]
                    break
                except Unknown:
                    await asyncio.sleep(0.05)
            references += [started.reference for started in await asyncio.gather(*(rig.start() for _ in range(39)))]
            paying = [asyncio.create_task(insist(rig, reference)) for reference in references]
            await asyncio.wait(paying, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.to_thread(process.kill)
            states = await asyncio.gather(*paying)
            assert {(state.status, len(state.attempts)) for state in states} == {("succeeded", 1)}
            assert await rig.moved() == {"capture": 40 * 10_000}
            # Real time passes for leases of callbacks that were being sent when it died.
            await rig.db.execute("UPDATE simulator.callback SET lease_until = NULL WHERE delivered_at IS NULL")
            await rig.hear()
            assert await rig.db.fetchval("SELECT count(*) FROM processor_inbox") == 40
        finally:
            code = await asyncio.to_thread(process.stop)
            listener.close()
    assert code == 0
