"""What a benchmark runs on: its own durable PostgreSQL, its own processes, and pgbench for the floors."""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import asyncpg

from bench import flush, machine
from bench.load import Result, result_of
from bursar.core.crypto import new_sealing_pair
from bursar.db import tallies
from bursar.db.embedded import EmbeddedServer, Urls, binaries
from bursar.db.migrate import migrate
from bursar.db.pool import Database
from bursar.settings import Settings, load

OPERATOR_KEY = "bench-operator-key"
API_PROCESSES = int(Settings.model_fields["api_processes"].default)


@dataclass(frozen=True)
class Server:
    """Processes that listen on one port."""

    port: int
    pids: tuple[int, ...]

    @property
    def pid(self) -> int:
        return self.pids[0]

    def wait(self) -> None:
        """Until it answers; often enough in a row that every process had its turn."""
        until, answers = time.monotonic() + 20, 0
        while answers < (1 if len(self.pids) == 1 else 10 * len(self.pids)):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health/live", timeout=20):
                    answers += 1
            except urllib.error.HTTPError:
                answers += 1
            except OSError:
                if time.monotonic() > until:
                    raise TimeoutError("the benchmark's server did not start") from None
                time.sleep(0.05)

    def operator(self, path: str, body: Any) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/ops/v1{path}",
            data=json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {OPERATOR_KEY}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as reply:
            return json.load(reply)["data"]

    def merchant(self, name: str = "Bench") -> dict[str, Any]:
        """A new merchant with its keys."""
        email = f"{secrets.token_hex(4)}@example.com"
        made: dict[str, Any] = self.operator("/accounts", {"kind": "merchant", "name": name, "email": email})
        return made

    @property
    def resident_mib(self) -> float:
        return max(machine.resident_mib(pid) for pid in self.pids)

    @property
    def peak_mib(self) -> float:
        return max(machine.resident_mib(pid, peak=True) for pid in self.pids)

    def forget_peak(self) -> None:
        for pid in self.pids:
            machine.forget_peak(pid)


@dataclass
class Stage:
    urls: Urls
    directory: Path
    postmaster: int
    environment: dict[str, str] = field(default_factory=dict)
    _processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _connecting: dict[int, dict[str, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        private, public = new_sealing_pair()
        metrics = self.directory / "metrics"
        metrics.mkdir()
        self.environment |= {
            "BURSAR_ENV": "test",
            "BURSAR_DATA_DIR": str(self.directory),
            "BURSAR_DATABASE_URL": self.urls.service,
            "BURSAR_OPERATOR_KEY": OPERATOR_KEY,
            "BURSAR_KEY_PEPPER": secrets.token_hex(32),
            "BURSAR_SEAL_PUBLIC_KEY": public.hex(),
            "BURSAR_SEAL_PRIVATE_KEY": private.hex(),
            "BURSAR_ACCESS_LOG": "false",
            "BURSAR_LOG_LEVEL": "warning",
            "PROMETHEUS_MULTIPROC_DIR": str(metrics),
        }

    @property
    def settings(self) -> Settings:
        """What its processes are told."""
        return load({name: value for name, value in self.environment.items() if name.startswith("BURSAR_")})

    # Processes

    def serve(self, **environment: str) -> Server:
        """API processes, as many and as `bursar serve` starts them."""
        return self._listen(("-P", "-m", "bursar", "api"), API_PROCESSES, environment)

    def start(self, kind: str, **environment: str) -> Server:
        """A server process of `bench.server`: `app` or `bare`."""
        processes = API_PROCESSES if kind == "bare" else 1
        return self._listen(("-m", "bench.server", kind), processes, environment)

    def _listen(self, program: tuple[str, ...], processes: int, environment: dict[str, str]) -> Server:
        with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as the supervisor does
            port = int(listener.getsockname()[1])
            # The simulator's address need not exist; nothing here asks it.
            told = {"BURSAR_PORT": str(port), "BURSAR_SIMULATOR_PORT": str(port % 60_000 + 1), **environment}
            number = listener.fileno()
            arguments = (*program, "--fd", str(number))
            pids = [self.run(*arguments, environment=told, pass_fds=(number,)).pid for _ in range(processes)]
        server = Server(port, tuple(pids))
        server.wait()
        return server

    def run(
        self,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        pass_fds: tuple[int, ...] = (),
        stdout: int | None = None,
    ) -> subprocess.Popen[bytes]:
        """A Python process with the stage's settings, ended with the stage."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith("BURSAR_")}
        process = subprocess.Popen(
            [sys.executable, *arguments],
            env={**clean, **self.environment, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            pass_fds=pass_fds,
        )
        self._processes.append(process)
        return process

    # Measuring

    def measured(self, take: Callable[[], Result], **processes: tuple[int, ...]) -> Result:
        """A measurement from a checkpoint on, with the processor time of PostgreSQL and of `processes`."""
        asyncio.run(self._checkpoint())
        with machine.Meter({"postgres": [self.postmaster], **processes}) as meter:
            result = take()
        return self._with_cost(result, meter)

    async def measured_async(self, take: Callable[[], Awaitable[Result]], **processes: tuple[int, ...]) -> Result:
        """The same for what runs in this process's own loop."""
        await self._checkpoint()
        with machine.Meter({"postgres": [self.postmaster], **processes}) as meter:
            result = await take()
        return self._with_cost(result, meter)

    def _with_cost(self, result: Result, meter: machine.Meter) -> Result:
        spent = {name: seconds / max(1, result.answered) * 1e6 for name, seconds in meter.seconds.items()}
        if "driver" in result.cpu_us or "pgbench" in result.cpu_us:
            del spent["bench"]  # which only waited
        cpu_us = {name: round(micros, 1) for name, micros in {**spent, **result.cpu_us}.items()}
        return replace(result, cpu_us=cpu_us, others=meter.others)

    async def _checkpoint(self) -> None:
        """So that nobody pays for the pages that somebody else made dirty."""
        connection = await asyncpg.connect(self.urls.admin)
        await connection.execute("CHECKPOINT")
        await connection.close()

    def floor(self, script: str, clients: int, seconds: float) -> Result:
        """The same work as SQL alone; what its connections cost is not counted as processor time of the work."""
        if clients not in self._connecting:
            seen = [self._connection_cost(clients) for _ in range(3 if clients > 1 else 0)]
            self._connecting[clients] = {
                name: min((cost[name] for cost in seen), default=0.0) for name in ("postgres", "pgbench")
            }
        result = self.measured(lambda: self.pgbench(script, clients, seconds))
        cost = self._connecting[clients]
        spent = {
            name: round(max(0.0, micros - cost[name] / result.answered * 1e6), 1)
            for name, micros in result.cpu_us.items()
        }
        return replace(result, cpu_us=spent)

    def _connection_cost(self, clients: int) -> dict[str, float]:
        """Processor seconds of as many connections that do next to nothing."""
        script = self.directory / "nothing.sql"
        script.write_text("SELECT 1;\n")
        with machine.Meter({"postgres": [self.postmaster]}) as meter:
            before = _seconds_of_children()
            self._run_pgbench(clients, "-t", "1", "-f", str(script))
            spent = _seconds_of_children() - before
        return {"postgres": meter.seconds["postgres"], "pgbench": spent}

    def _run_pgbench(self, clients: int, *options: str) -> str:
        command = ["-n", "-M", "prepared", "-c", str(clients), "-j", str(min(clients, 2)), *options, self.urls.service]
        done = subprocess.run(
            [str(binaries() / "pgbench"), *command], capture_output=True, text=True, check=False, timeout=120
        )
        if done.returncode:
            raise RuntimeError(f"pgbench: {done.stderr[-500:]}")
        return done.stdout

    def pgbench(self, script: str, clients: int, seconds: float) -> Result:
        """Its connections are made within the time it is given; on a busy machine that can be all of it."""
        path = self.directory / "floor.sql"
        path.write_text(script)
        for more in (0, 2, 6):
            result = self._pgbench(path, clients, max(1, int(seconds)) + more)
            if result is not None:
                return result
        raise TimeoutError("the machine is too busy for pgbench to begin")

    def _pgbench(self, script: Path, clients: int, seconds: int) -> Result | None:
        log = self.directory / "latency"
        before = _seconds_of_children()
        said = self._run_pgbench(clients, "-l", f"--log-prefix={log}", "-T", str(seconds), "-f", str(script))
        spent = _seconds_of_children() - before
        times: list[float] = []
        for part in self.directory.glob("latency.*"):
            times += [int(line.split()[2]) / 1e6 for line in part.read_text().splitlines()]
            part.unlink()
        rate = re.search(r"tps = ([0-9.]+)", said)
        if rate is None or not times:
            return None
        made = result_of(times, len(times) / float(rate[1]))
        return replace(made, cpu_us={"pgbench": spent / made.answered * 1e6})

    async def counted(self) -> None:
        """Lists are counted, as a worker does it all the time, where none runs."""
        db = await Database.open(self.urls.service, size=1)
        while await tallies.count_all(db):
            pass
        await db.close()

    async def connect(self, url: str | None = None) -> asyncpg.Connection[asyncpg.Record]:
        return await asyncpg.connect(url or self.urls.owner, statement_cache_size=0)

    @property
    def admin(self) -> str:
        """The service's database as the superuser."""
        return self.urls.admin.replace("/postgres?", "/bursar?")

    def close(self) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _seconds_of_children() -> float:
    """Processor time of processes that this one started and saw end."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


@contextmanager
def stage(*, slow_flush: bool = False, **settings: str) -> Iterator[Stage]:
    """Everything that a benchmark needs, gone afterwards. With `slow_flush` each flush of the disk takes 1 ms more;
    `settings` are PostgreSQL's.
    """
    directory = Path(tempfile.mkdtemp(prefix="bursar-bench-"))
    server = EmbeddedServer(directory, settings)
    made: Stage | None = None
    try:
        urls = server.start()
        asyncio.run(migrate(urls.owner))
        if slow_flush:
            server.stop()
            with flush.slowed(directory):
                server.start()
        postmaster = int((directory / "postgres" / "postmaster.pid").read_text().split("\n", 1)[0])
        made = Stage(urls, directory, postmaster)
        yield made
    finally:
        if made is not None:
            made.close()
        server.stop()
        shutil.rmtree(directory, ignore_errors=True)
