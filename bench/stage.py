"""What a benchmark runs on: its own durable PostgreSQL, its own server processes, and pgbench for the floors."""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.load import Result
from bursar.core.crypto import new_sealing_pair
from bursar.db.embedded import EmbeddedServer, Urls, binaries
from bursar.db.migrate import migrate

OPERATOR_KEY = "bench-operator-key"


@dataclass
class Stage:
    urls: Urls
    directory: Path
    _processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, kind: str, **environment: str) -> Server:
        """A server process (`app` or `bare`), ready to answer."""
        private, public = new_sealing_pair()
        port = _free_port()
        settings = {
            "BURSAR_ENV": "test",
            "BURSAR_DATABASE_URL": self.urls.service,
            "BURSAR_OPERATOR_KEY": OPERATOR_KEY,
            "BURSAR_KEY_PEPPER": secrets.token_hex(32),
            "BURSAR_SEAL_PUBLIC_KEY": public.hex(),
            "BURSAR_SEAL_PRIVATE_KEY": private.hex(),
            "BURSAR_ACCESS_LOG": "false",
            **environment,
        }
        clean = {name: value for name, value in os.environ.items() if not name.startswith("BURSAR_")}
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.server", kind, str(port)], env={**clean, **settings}, stdin=subprocess.DEVNULL
        )
        self._processes.append(process)
        server = Server(port, process.pid)
        server.wait()
        return server

    def pgbench(self, script: str, clients: int, seconds: float) -> Result:
        """The same work as SQL alone: the floor."""
        path = self.directory / "floor.sql"
        path.write_text(script)
        threads = str(min(clients, 2))
        log = self.directory / "latency"
        done = subprocess.run(
            [str(binaries() / "pgbench"), "-n", "-M", "prepared", "-c", str(clients), "-j", threads, "-l",
             f"--log-prefix={log}", "-T", str(max(1, int(seconds))), "-f", str(path), self.urls.service],
            stdout=subprocess.PIPE, text=True, check=True, timeout=seconds + 60,
        )  # fmt: skip
        rate = float(re.search(r"tps = ([0-9.]+)", done.stdout)[1])  # type: ignore[index]  # pgbench always says it
        times: list[int] = []
        for part in self.directory.glob("latency.*"):
            times += [int(line.split()[2]) for line in part.read_text().splitlines()]
            part.unlink()
        times.sort()
        return Result(rate, times[len(times) // 2] / 1000, times[int(len(times) * 0.99)] / 1000, len(times), {})

    def close(self) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


@dataclass(frozen=True)
class Server:
    port: int
    pid: int

    def wait(self) -> None:
        until = time.monotonic() + 20
        while time.monotonic() < until:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                time.sleep(0.05)
            else:
                return
        raise TimeoutError("the benchmark's server did not start")

    def operator(self, path: str, body: Any) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/ops/v1{path}",
            data=json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {OPERATOR_KEY}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as reply:
            return json.load(reply)["data"]

    @property
    def resident_mib(self) -> float:
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024  # type: ignore[index]  # always there


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextmanager
def stage() -> Iterator[Stage]:
    directory = Path(tempfile.mkdtemp(prefix="bursar-bench-"))
    server = EmbeddedServer(directory)
    made: Stage | None = None
    try:
        urls = server.start()
        asyncio.run(migrate(urls.owner))
        made = Stage(urls, directory)
        yield made
    finally:
        if made is not None:
            made.close()
        server.stop()
        shutil.rmtree(directory, ignore_errors=True)
