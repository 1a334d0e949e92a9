"""A real `bursar serve` as a person would start it, in a directory of its own, ended by its process number."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx

from bursar.db.embedded import EmbeddedServer

LAST_LINE = "Ctrl-C stops everything"
START_S = 30.0

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell makes what it starts in the background deaf to Ctrl-C,
    signal.signal(signal.SIGINT, signal.default_int_handler)  # and the service would inherit that


def environment(**settings: str) -> dict[str, str]:
    """The shell's, with these settings of ours and no others."""
    passed = {name: value for name, value in os.environ.items() if not name.startswith("BURSAR_")}
    return passed | {f"BURSAR_{name.upper()}": value for name, value in settings.items()}


def bursar(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """A command that ends by itself."""
    return subprocess.run(
        [sys.executable, "-m", "bursar", *arguments],
        env=environment(**settings),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def wait_until(what: Callable[[], bool], within_s: float, why: str) -> None:
    deadline = time.monotonic() + within_s
    while not what():
        assert time.monotonic() < deadline, why
        time.sleep(0.02)


def alive(pid: int) -> bool:
    """Whether it runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@dataclass
class Serving:
    """A service that is up."""

    process: subprocess.Popen[bytes]
    data_dir: Path
    banner: str
    log: Path
    took_s: float

    @property
    def url(self) -> str:
        found = re.search(r"API +(http://\S+)/v2", self.banner)
        assert found is not None
        return found[1]

    @property
    def snippets(self) -> list[str]:
        """What the banner offers for pasting, each as it stands there."""
        after = self.banner.partition("Try, ")[2].partition("Then: ")[0]
        return [part for part in after.split("\n\n")[1:] if part.strip()]

    def pids(self, command: str) -> list[int]:
        """The processes of one command that this supervisor started."""
        return [
            pid
            for pid in children(self.process.pid)
            if alive(pid) and command.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        ]

    def environ(self, pid: int) -> dict[str, str]:
        entries = Path(f"/proc/{pid}/environ").read_text().split("\0")
        return dict(entry.split("=", 1) for entry in entries if entry)

    def get(self, path: str, **headers: str) -> httpx.Response:
        return httpx.get(f"{self.url}{path}", headers=headers, timeout=10)

    def answers(self) -> bool:
        with suppress(httpx.HTTPError):
            return self.get("/health/ready").status_code == 200
        return False

    def interrupt(self) -> int:
        """Ctrl-C."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(timeout=25)


@contextmanager
def serving(data_dir: Path, *arguments: str, **settings: str) -> Iterator[Serving]:
    began = time.monotonic()
    said, log = data_dir.parent / "stdout", data_dir.parent / "stderr"
    with said.open("wb") as out, log.open("wb") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "bursar", "serve", "--port", "0", "--data-dir", str(data_dir), *arguments],
            env=environment(**{"env": "test", **settings}),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
        )
    try:
        while LAST_LINE not in said.read_text():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() - began < START_S, log.read_text()
            time.sleep(0.02)
        yield Serving(process, data_dir, said.read_text(), log, time.monotonic() - began)
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(timeout=25)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def directory() -> Iterator[Path]:
    """A data directory, gone afterwards with its server. Not pytest's, which the server's user may not enter."""
    root = Path(tempfile.mkdtemp(prefix="bursar-test-"))
    try:
        yield root / "data"
    finally:
        with suppress(Exception):
            EmbeddedServer(root / "data").kill()
        subprocess.run(["rm", "-rf", str(root)], check=False)
