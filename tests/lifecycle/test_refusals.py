"""What cannot work is refused with one clear line and status 1, by each process alike."""

from __future__ import annotations

import asyncio
import secrets
import socket
from pathlib import Path
from subprocess import CompletedProcess

import asyncpg
import pytest

from bursar.core.crypto import new_sealing_pair
from bursar.db.embedded import Urls
from tests.lifecycle.serving import bursar, directory


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def process_settings() -> dict[str, str]:
    """What a process alone must be told, besides its database."""
    private, public = new_sealing_pair()
    return {
        "env": "test",
        "port": "0",
        "key_pepper": secrets.token_hex(32),
        "seal_public_key": public.hex(),
        "seal_private_key": private.hex(),
    }


def refused(ran: CompletedProcess[str], *words: str) -> None:
    assert ran.returncode == 1, (ran.stdout, ran.stderr)
    assert ran.stdout == ""
    assert ran.stderr.startswith("bursar: ")
    assert ran.stderr.count("\n") == 1, ran.stderr
    for word in words:
        assert word in ran.stderr


class TestAddress:
    def test_port_in_use(self, data_dir: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
            words = (f"127.0.0.1:{port}", "in use")
            refused(bursar("serve", "--port", port, "--data-dir", str(data_dir), env="test"), *words)
            settings = {**process_settings(), "port": port, "database_url": "postgresql://x@127.0.0.1:1/x"}
            refused(bursar("api", **settings), *words)
        assert not (data_dir / "postgres").exists()

    def test_a_test_instance_stays_on_loopback(self, data_dir: Path) -> None:
        options = ("--port", "0", "--host", "0.0.0.0", "--data-dir", str(data_dir))
        refused(bursar("serve", *options, env="test"), "0.0.0.0", "--public-test")

    def test_an_address_of_another_machine(self, data_dir: Path) -> None:
        refused(bursar("serve", "--host", "192.0.2.1", "--data-dir", str(data_dir)), "192.0.2.1")

    def test_a_wrong_operator_address(self, data_dir: Path) -> None:
        ran = bursar("serve", "--port", "0", "--data-dir", str(data_dir), env="test", ops_listen="nowhere")
        refused(ran, "BURSAR_OPS_LISTEN")


class TestDirectory:
    @pytest.mark.parametrize("command", ["serve", "migrate"])
    def test_not_to_be_written(self, tmp_path: Path, command: str) -> None:
        (tmp_path / "file").touch()  # also root cannot write below it
        ran = bursar(command, "--data-dir", str(tmp_path / "file" / "data"), env="test", port="0")
        refused(ran, "Not a directory", str(tmp_path / "file"))

    def test_damaged_secrets(self, data_dir: Path) -> None:
        (data_dir / "secrets").mkdir(parents=True)
        (data_dir / "secrets" / "key_pepper").write_text("short")
        ran = bursar("serve", "--port", "0", "--data-dir", str(data_dir), env="test")
        refused(ran, "key_pepper", "restore it")


class TestSettings:
    @pytest.mark.parametrize("command", ["serve", "api", "worker", "migrate"])
    def test_a_wrong_one(self, command: str) -> None:
        refused(bursar(command, pool_size="many"), "BURSAR_POOL_SIZE")

    @pytest.mark.parametrize("command", ["api", "worker"])
    def test_a_missing_one(self, command: str) -> None:
        refused(bursar(command), "BURSAR_DATABASE_URL is not set")
        refused(bursar(command, database_url="postgresql://x@127.0.0.1:1/x"), "BURSAR_KEY_PEPPER is not set")

    def test_sealing_keys_that_do_not_belong_together(self, data_dir: Path) -> None:
        public = new_sealing_pair()[1].hex()
        ran = bursar("serve", "--port", "0", "--data-dir", str(data_dir), env="test", seal_public_key=public)
        refused(ran, "BURSAR_SEAL_PUBLIC_KEY")

    def test_no_demo_on_a_live_instance(self, data_dir: Path) -> None:
        refused(bursar("serve", "--demo", "--port", "0", "--data-dir", str(data_dir)), "BURSAR_ENV=test")

    def test_migrating_elsewhere_needs_the_owner(self) -> None:
        refused(bursar("migrate", database_url="postgresql://x@127.0.0.1:1/x"), "BURSAR_MIGRATION_URL")


def run(command: str, data_dir: Path, **settings: str) -> CompletedProcess[str]:
    return bursar(command, **{**process_settings(), "data_dir": str(data_dir), **settings})


class TestDatabase:
    @pytest.mark.parametrize("command", ["serve", "api", "worker", "migrate"])
    def test_down(self, data_dir: Path, closed_port: int, command: str) -> None:
        url = f"postgresql://someone:hunter2@127.0.0.1:{closed_port}/bursar"
        ran = run(command, data_dir, database_url=url, migration_url=url)
        refused(ran, f"127.0.0.1:{closed_port}/bursar", "Connection refused")
        assert "hunter2" not in ran.stderr

    @pytest.mark.parametrize("command", ["serve", "api", "worker", "migrate"])
    def test_of_a_newer_schema(self, data_dir: Path, urls: Urls, command: str) -> None:
        async def age() -> None:
            connection = await asyncpg.connect(urls.owner)
            await connection.execute("INSERT INTO schema_migration VALUES (9999, 'later', '')")
            await connection.close()

        asyncio.run(age())
        refused(run(command, data_dir, database_url=urls.service, migration_url=urls.owner), "9999", "newer")

    @pytest.mark.parametrize("command", ["serve", "api", "worker"])
    def test_as_the_owner(self, data_dir: Path, urls: Urls, command: str) -> None:
        refused(run(command, data_dir, database_url=urls.owner), "must not log in as bursar_owner")

    @pytest.mark.parametrize("command", ["serve", "api", "worker"])
    def test_not_migrated(self, data_dir: Path, empty: Urls, command: str) -> None:
        refused(run(command, data_dir, database_url=empty.service), "bursar migrate")

    def test_wrong_password(self, data_dir: Path, urls: Urls) -> None:
        password = urls.service.split(":")[2].split("@")[0]
        ran = run("serve", data_dir, database_url=urls.service.replace(password, "wrong"))
        refused(ran, "password authentication failed")


def test_migrating_the_embedded_database() -> None:
    with directory() as data_dir:
        first = bursar("migrate", "--data-dir", str(data_dir))
        assert first.stdout.startswith("Applied foundation, "), first.stderr
        assert bursar("migrate", "--data-dir", str(data_dir)).stdout.startswith("Nothing to do")
        assert not (data_dir / "postgres" / "postmaster.pid").exists()
