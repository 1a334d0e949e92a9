"""The service on a PostgreSQL that is not its own."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys

import httpx

from bursar.db.embedded import Urls
from tests.lifecycle.serving import bursar, directory, environment, serving, wait_until


def test_a_database_elsewhere(empty: Urls) -> None:
    """Migrated as its owner, served as its service role; nothing embedded. Here with /ops on its own address."""
    settings = {"database_url": empty.service, "migration_url": empty.owner, "ops_listen": "127.0.0.1:0"}
    with directory() as data_dir, serving(data_dir, **settings) as up:
        assert not (data_dir / "postgres").exists()
        assert up.get("/v2/account").status_code == 401
        assert up.get("/ops/v1/clock").status_code == 404
        listed = up.banner.partition("Operator   ")[2].partition("/ops/v1")[0]
        ran = bursar("accounts", "list", "--json", "--url", listed, "--data-dir", str(data_dir))
        assert len(json.loads(ran.stdout)) == 4
        assert httpx.get(f"{listed}/v2/account").status_code == 404
        for pid in (*up.pids("api"), *up.pids("worker")):
            assert empty.owner not in up.environ(pid).values()
        assert up.interrupt() == 0
        again = bursar("migrate", **settings)
        assert (again.returncode, again.stdout) == (0, "Nothing to do: the schema is up to date.\n")


def test_a_live_instance(urls: Urls) -> None:
    """No demo, no clock; without the owner's login the schema is only checked."""
    with directory() as data_dir, serving(data_dir, env="live", database_url=urls.service) as up:
        assert "a live instance" in up.banner
        assert "Demo" not in up.banner
        assert not (data_dir / "demo.json").exists()
        ran = bursar("clock", "show", "--url", up.url, "--data-dir", str(data_dir))
        assert (ran.returncode, ran.stdout) == (1, "")
        assert "for test instances" in ran.stderr


def test_processes_on_their_own(urls: Urls) -> None:
    """As in a deployment of many machines: each is told what it needs, and ends cleanly when it is told to."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
    made = json.loads(bursar("secrets", "--json").stdout)
    told = {name.removeprefix("BURSAR_").lower(): value for name, value in made.items()}
    operator_key, private = told.pop("operator_key"), told.pop("seal_private_key")
    settings = {"env": "test", "database_url": urls.service, "port": url.rpartition(":")[2], **told}
    commands = {"api": environment(**settings), "worker": environment(**settings, seal_private_key=private)}
    processes = {
        name: subprocess.Popen([sys.executable, "-m", "bursar", name], env=env, stderr=subprocess.PIPE)
        for name, env in commands.items()
    }
    try:
        wait_until(lambda: _answers(url), 20, "the API process does not answer")
        ran = bursar("clock", "advance", "1d", "--json", "--url", url, operator_key=operator_key)
        assert json.loads(ran.stdout)["now"], ran.stderr
    finally:
        for process in processes.values():
            process.send_signal(signal.SIGTERM)
        said = {name: process.communicate(timeout=20)[1].decode() for name, process in processes.items()}
    assert {name: process.returncode for name, process in processes.items()} == {"api": 0, "worker": 0}, said
    assert "Traceback" not in "".join(said.values())


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health/ready").status_code == 200
    except httpx.TransportError:
        return False
