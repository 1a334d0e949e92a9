"""However a process ends, the service comes back or goes away whole, and the data stays."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from bursar.db.embedded import EmbeddedServer
from tests.lifecycle.serving import Serving, alive, children, directory, serving, wait_until


@pytest.fixture(scope="module")
def data_dir() -> Iterator[Path]:
    """One directory for all: every test is a later start of the same instance."""
    with directory() as made:
        yield made


@pytest.fixture
def up(data_dir: Path) -> Iterator[Serving]:
    with serving(data_dir) as running:
        yield running


@pytest.fixture(scope="class")
def shared(data_dir: Path) -> Iterator[Serving]:
    with serving(data_dir) as running:
        yield running


def server_pid(data_dir: Path) -> int:
    return int((data_dir / "postgres" / "postmaster.pid").read_text().split()[0])


def secret_key(up: Serving) -> str:
    key = json.loads((up.data_dir / "demo.json").read_bytes())["merchant"]["secret_key"]
    assert key in up.banner
    return str(key)


def reads_account(up: Serving) -> bool:
    try:
        return up.get("/v2/account", Authorization=f"Bearer {secret_key(up)}").status_code == 200
    except httpx.HTTPError:
        return False


def test_ctrl_c_stops_everything(up: Serving) -> None:
    started = [*children(up.process.pid), server_pid(up.data_dir)]
    assert all(alive(pid) for pid in started)
    assert up.interrupt() == 0
    assert [pid for pid in started if alive(pid)] == []
    assert "Traceback" not in up.log.read_text()


def test_a_second_start_keeps_data_and_keys(up: Serving, data_dir: Path) -> None:
    before, demo = up.banner, (data_dir / "demo.json").read_bytes()
    assert reads_account(up)
    assert up.interrupt() == 0
    with serving(data_dir) as again:
        assert (data_dir / "demo.json").read_bytes() == demo
        assert re.findall(r"sk_live_\w+", again.banner) == re.findall(r"sk_live_\w+", before)
        assert "shown this once" not in again.banner
        assert reads_account(again)
        assert again.process.poll() is None


def test_a_demo_of_another_database_is_made_anew(up: Serving, data_dir: Path) -> None:
    assert up.interrupt() == 0
    kept = json.loads((data_dir / "demo.json").read_bytes())
    kept["merchant"]["account_id"] = "acc0000000000000000_1001"
    (data_dir / "demo.json").write_text(json.dumps(kept))
    with serving(data_dir) as again:
        made = json.loads((data_dir / "demo.json").read_bytes())
        assert made["run"] != kept["run"]
        assert reads_account(again)


class TestKilled:
    """One service, of which each part is killed in turn."""

    def test_api_process_is_started_again(self, shared: Serving) -> None:
        (killed,) = shared.pids("api")
        os.kill(killed, signal.SIGKILL)
        wait_until(lambda: shared.pids("api") not in ([], [killed]) and shared.answers(), 10, "no new API process")
        assert reads_account(shared)
        assert "child.died" in shared.log.read_text()

    def test_worker_is_started_again(self, shared: Serving) -> None:
        (killed,) = shared.pids("worker")
        os.kill(killed, signal.SIGKILL)
        wait_until(lambda: shared.pids("worker") not in ([], [killed]), 10, "no new worker")

    def test_database_is_started_again(self, shared: Serving) -> None:
        assert reads_account(shared)
        EmbeddedServer(shared.data_dir).kill()
        wait_until(lambda: shared.answers() and reads_account(shared), 20, "the database did not come back")


def test_a_killed_supervisor_takes_its_processes_along(up: Serving, data_dir: Path) -> None:
    orphans = children(up.process.pid)
    database = server_pid(data_dir)
    up.process.kill()
    up.process.wait()
    # The database stays for the next start, which may come at once.
    with serving(data_dir) as again:
        assert server_pid(data_dir) == database
        assert reads_account(again)
        wait_until(lambda: not any(alive(pid) for pid in orphans), 5, "processes were left behind")
