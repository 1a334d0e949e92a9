"""A whole service in processes of our own: each can be killed at any moment and is started again.

The listening sockets are ours, so whoever calls while a process is down waits instead of being refused, as behind a
supervisor. Nothing here judges; it only breaks and mends.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import asyncpg
from nacl.public import PrivateKey

from bursar.db.embedded import EmbeddedServer, Urls
from bursar.db.migrate import migrate
from bursar.db.roles import with_database
from bursar.settings import Settings
from tests.faults.proxy import FaultProxy

ROLES = ("api", "worker", "simulator")
OPERATOR_KEY = "operator-key-of-the-fault-suite"
READY_S = 60.0  # to wait; how soon it must be there is judged elsewhere

# Whose leases are over when a process of this role is gone. An operation that was looked at again is the worker's.
LEASES = {
    "api": {"operation": "attempts = 0"},
    "worker": {
        "operation": "attempts > 0",
        **dict.fromkeys(
            ("processor_inbox", "payment", "review_case", "destination", "worker_command", "notice"), "true"
        ),
    },
    "simulator": {"simulator.callback": "true"},
}


# The server is down or coming up, or we were in somebody's way.
BROKEN = (
    OSError,
    asyncpg.DeadlockDetectedError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)


class ProcessEnded(Exception):
    """A process that was to come up did not."""


@dataclass
class Process:
    """One running process of a role; `gone` is done when it is not."""

    role: str
    pid: int
    gone: asyncio.Future[int]
    log_from: int = 0
    since: float = field(default_factory=time.monotonic)


class Nursery:
    """Our end of `tests.faults.nursery`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._tickets: dict[str, asyncio.Future[int]] = {}
        self._living: dict[int, asyncio.Future[int]] = {}
        self._listening = asyncio.create_task(self._listen())

    @classmethod
    async def open(cls, passed: tuple[int, ...]) -> Nursery:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.faults.nursery",
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, pass_fds=passed, start_new_session=True,
            env={name: value for name, value in os.environ.items() if not name.startswith("BURSAR_")},
        )  # fmt: skip
        return cls(process)

    async def start(self, role: str, arguments: list[str], environment: dict[str, str], log: Path) -> Process:
        ticket = secrets.token_hex(8)
        told = self._tickets[ticket] = asyncio.get_running_loop().create_future()
        order = {"ticket": ticket, "arguments": arguments, "environment": environment, "log": str(log)}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        pid = await told
        return Process(role, pid, self._living[pid])

    async def _listen(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            news = json.loads(line)
            if "started" in news:
                self._living[news["started"]] = asyncio.get_running_loop().create_future()
                self._tickets.pop(news["ticket"]).set_result(news["started"])
            else:
                self._living[news["died"]].set_result(news["status"])

    async def close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        await self._process.wait()
        await self._listening


@dataclass
class Instance:
    """The service under test, whose processes may have to reach their database by way of a proxy."""

    directory: Path
    server: EmbeddedServer
    urls: Urls
    nursery: Nursery
    sockets: dict[str, socket.socket]
    environment: dict[str, str]
    processes: dict[str, Process] = field(default_factory=dict)
    proxy: FaultProxy | None = None
    kills: Counter[str] = field(default_factory=Counter)
    down_s: dict[str, list[float]] = field(default_factory=dict)
    database_up: float = 1.0  # since when; 0 while it is down
    sessions: list[asyncpg.Connection[asyncpg.Record]] = field(default_factory=list)  # idle, ours

    @property
    def port(self) -> int:
        return int(self.sockets["api"].getsockname()[1])

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def simulator_url(self) -> str:
        return f"http://127.0.0.1:{self.sockets['simulator'].getsockname()[1]}"

    @property
    def secrets(self) -> set[str]:
        """What only the processes' environment may hold."""
        names = ("KEY_PEPPER", "SEAL_PRIVATE_KEY", "OPERATOR_KEY")
        own = {self.environment[f"BURSAR_{name}"] for name in names}
        return own | {unquote(urlsplit(url).password or "") for url in (self.urls.owner, self.urls.service)}

    def log_of(self, role: str) -> Path:
        return self.directory / f"{role}.log"

    def arm_file(self, role: str) -> Path:
        return self.directory / f"arm.{role}"

    # Processes -----------------------------------------------------------------------------------------------------

    async def start(self, role: str, **settings: str) -> Process:
        arguments = [role]
        if role in self.sockets:
            arguments += ["--fd", str(self.sockets[role].fileno())]
        environment = self.environment | {"BURSAR_CRASHPOINT": f"@{self.arm_file(role)}"}
        environment |= {f"BURSAR_{name.upper()}": value for name, value in settings.items()}
        log = self.log_of(role)
        log_from = log.stat().st_size if log.exists() else 0
        started = await self.nursery.start(role, arguments, environment, log)
        started.log_from = log_from
        self.processes[role] = started
        return started

    async def ready(self, role: str, within_s: float = READY_S) -> float:
        """Waits until a process does its work, and says how long that took since it was started."""
        process = self.processes[role]
        async with asyncio.timeout(within_s):
            while not await self._answers(role, process):
                if process.gone.done():
                    raise ProcessEnded(f"the {role} process ended with {process.gone.result()}: {self.tail(role)}")
                await asyncio.sleep(0.03)
        return time.monotonic() - process.since

    async def _answers(self, role: str, process: Process) -> bool:
        if role == "worker":
            with self.log_of(role).open("rb") as log:
                log.seek(process.log_from)
                return b"worker.ready" in log.read()
        path = "/health/ready" if role == "api" else "/health"
        with suppress(OSError, TimeoutError, asyncio.IncompleteReadError, ValueError):
            async with asyncio.timeout(2):
                reader, writer = await asyncio.open_connection(*self.sockets[role].getsockname()[:2])
                try:
                    writer.write(f"GET {path} HTTP/1.1\r\nHost: probe\r\nConnection: close\r\n\r\n".encode())
                    return b" 200 " in await reader.readline()
                finally:
                    writer.close()
        return False

    async def kill(self, role: str) -> None:
        process = self.processes[role]
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
        await process.gone
        self.kills[role] += 1

    async def revive(self, role: str, *, over: bool = True) -> float:
        """Starts a role again after its process died; with `over`, its leases have run out meanwhile."""
        if over:
            await self.end_leases(role)
        began, known = time.monotonic(), self.kills["database"]
        alone = self.database_up > 0
        while True:
            await self.start(role)
            try:
                await self.ready(role)
                break
            except ProcessEnded:
                if self.database_up and time.monotonic() - max(began, self.database_up) > READY_S:
                    raise
                await asyncio.sleep(0.3)  # as a supervisor does: the database may be coming up, too
        took = time.monotonic() - began
        if alone and self.database_up and self.kills["database"] == known:  # else it waited for the database
            self.down_s.setdefault(role, []).append(took)
        return took

    async def kill_database(self) -> float:
        """All of PostgreSQL at once, then a start from what is on the disk."""
        self.database_up = 0.0
        self.kills["database"] += 1
        await asyncio.to_thread(self.server.kill)
        began = time.monotonic()
        await asyncio.to_thread(self.server.start)
        self.database_up = time.monotonic()
        took = self.database_up - began
        self.down_s.setdefault("database", []).append(took)
        return took

    async def end_leases(self, role: str) -> None:
        """As if the time of whoever died were over: waiting for it is the only thing this leaves out."""
        for table, its in LEASES[role].items():
            await self.fetch(
                f"UPDATE {table} SET lease_until = clock_timestamp() - interval '1 s' "
                f"WHERE lease_until IS NOT NULL AND {its}"
            )

    async def end_all_leases(self) -> None:
        for role in ROLES:
            await self.end_leases(role)

    # The database --------------------------------------------------------------------------------------------------

    async def fetch(self, query: str, *arguments: Any) -> list[asyncpg.Record]:
        """As the superuser, directly, and again while the server is down: only what may be done twice."""
        until = time.monotonic() + READY_S
        while True:
            try:
                async with self._session() as session:
                    return list(await session.fetch(query, *arguments))
            except BROKEN:
                if time.monotonic() > until:
                    raise
                await asyncio.sleep(0.1)

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
        """One that is kept from the last time, for as long as it works."""
        url = with_database(self.urls.admin, "bursar")
        session = self.sessions.pop() if self.sessions else await asyncpg.connect(url)
        try:
            yield session
        except BaseException:
            session.terminate()
            raise
        self.sessions.append(session)

    def tail(self, role: str, lines: int = 5) -> str:
        with suppress(FileNotFoundError):
            return "\n".join(self.log_of(role).read_text(errors="replace").splitlines()[-lines:])
        return ""


def _environment(
    directory: Path, urls: Urls, sockets: dict[str, socket.socket], settings: dict[str, str]
) -> dict[str, str]:
    private = PrivateKey.generate()
    port = sockets["api"].getsockname()[1]
    chosen = {
        "env": "test",
        "port": str(port),
        "base_url": f"http://127.0.0.1:{port}",
        "simulator_port": str(sockets["simulator"].getsockname()[1]),
        "database_url": urls.service,
        "data_dir": str(directory / "data"),
        "operator_key": OPERATOR_KEY,
        "key_pepper": secrets.token_hex(32),
        "seal_private_key": bytes(private).hex(),
        "seal_public_key": bytes(private.public_key).hex(),
        "processor_timeout_s": "1",
        "delivery_connect_s": "1",
        "delivery_total_s": "1.5",
        "delivery_lease_s": "3",
        "access_log": "false",
        # The clock is moved by years in all, and what was sent is still to be judged.
        **{name: "3650" for name in Settings.model_fields if name.endswith("_days")},
        **settings,
    }
    passed = {name: value for name, value in os.environ.items() if not name.startswith("BURSAR_")}
    return passed | {f"BURSAR_{name.upper()}": value for name, value in chosen.items()}


def _socket_of(url: str) -> str:
    asked = parse_qs(urlsplit(url).query)
    return f"{asked['host'][0]}/.s.PGSQL.{asked['port'][0]}"


def _through(url: str, port: int) -> str:
    """The same login, by way of a port of ours."""
    parts = urlsplit(url)
    login = parts.netloc.partition("@")[0]
    return f"{parts.scheme}://{login}@127.0.0.1:{port}{parts.path}?sslmode=disable"


def _listener() -> socket.socket:
    made = socket.create_server(("127.0.0.1", 0), backlog=1024)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


@asynccontextmanager
async def running(
    database_settings: dict[str, str] | None = None,
    place: Path | None = None,
    proxy_seed: int | None = None,
    **settings: str,
) -> AsyncIterator[Instance]:
    """Everything started afresh in a directory of its own, and gone afterwards.

    The database can be at another place, and is reached by way of a fault proxy if that is given a seed.
    """
    directory = Path(tempfile.mkdtemp(prefix="bursar-faults-"))
    server = EmbeddedServer((place or directory) / "data", {"shared_buffers": "128MB", **(database_settings or {})})
    sockets = {"api": _listener(), "simulator": _listener()}
    nursery: Nursery | None = None
    proxy: FaultProxy | None = None
    try:
        urls = await asyncio.to_thread(server.start)
        if proxy_seed is not None:
            proxy = FaultProxy(_socket_of(urls.service), proxy_seed)
            await proxy.open()
            settings = {"database_url": _through(urls.service, proxy.port), **settings}
        await migrate(urls.owner)
        nursery = await Nursery.open(tuple(each.fileno() for each in sockets.values()))
        environment = _environment(directory, urls, sockets, settings)
        instance = Instance(directory, server, urls, nursery, sockets, environment, proxy=proxy)
        for role in ROLES:
            await instance.start(role)
        for role in ROLES:
            await instance.ready(role)
        yield instance
        for session in instance.sessions:
            session.terminate()
    finally:
        if nursery is not None:
            await nursery.close()
        if proxy is not None:
            await proxy.close()
        for each in sockets.values():
            each.close()
        with suppress(Exception):
            await asyncio.to_thread(server.kill)
        shutil.rmtree(directory, ignore_errors=True)
