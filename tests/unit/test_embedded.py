"""The embedded server and its roles, on a real PostgreSQL in a directory of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest

from bursar.db.embedded import EmbeddedServer, EmbeddedServerError, Urls, binaries
from bursar.db.roles import create_database, drop_database, ensure_roles, scram_verifier, with_database

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs to become other users")


@pytest.fixture(scope="module")
def made() -> Iterator[Path]:
    """A directory with a server that has been made and stopped, to copy: making one takes most of a second."""
    # Not pytest's own directory: every run of pytest closes that to others again, and the server is another user.
    root = Path(tempfile.mkdtemp(prefix="bursar-test-"))
    server = EmbeddedServer(root / "data")
    server.start()
    server.stop()
    yield root / "data"
    shutil.rmtree(root)


@pytest.fixture
def directory() -> Iterator[Path]:
    root = Path(tempfile.mkdtemp(prefix="bursar-test-"))
    yield root / "data"
    EmbeddedServer(root / "data").kill()
    shutil.rmtree(root)


@pytest.fixture
def stopped(made: Path, directory: Path) -> EmbeddedServer:
    # With its owners, so by the tool that keeps them.
    subprocess.run(["cp", "-a", made, directory], check=True)
    return EmbeddedServer(directory)


@pytest.fixture
def server(stopped: EmbeddedServer) -> EmbeddedServer:
    stopped.start()
    return stopped


@pytest.fixture
def urls(server: EmbeddedServer) -> Urls:
    return server.urls()


@pytest.fixture(scope="module")
def shared(made: Path) -> Iterator[Urls]:
    """For tests that leave the server and its roles as they were."""
    directory = made.with_name("shared")
    subprocess.run(["cp", "-a", made, directory], check=True)
    server = EmbeddedServer(directory)
    yield server.start()
    server.kill()


async def run(url: str, *statements: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


async def value(url: str, query: str) -> Any:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


def postmaster(server: EmbeddedServer) -> int:
    return int((server.data_dir / "postgres" / "postmaster.pid").read_text().split()[0])


def python(code: str, directory: Path, uid: int | None = None) -> subprocess.Popen[str]:
    """Another process with `server` for that directory; it changes user only once Python has found its modules."""
    become = f"os.setgroups([]); os.setgid({uid}); os.setuid({uid})" if uid else ""
    program = f"""
import os, pathlib, signal, sys
from bursar.db.embedded import EmbeddedServer, EmbeddedServerError
{become}
server = EmbeddedServer(pathlib.Path(sys.argv[1]))
{textwrap.dedent(code)}
"""
    return subprocess.Popen([sys.executable, "-c", program, directory], stdout=subprocess.PIPE, text=True)


def output(process: subprocess.Popen[str]) -> str:
    said, _ = process.communicate(timeout=60)
    return said.strip()


class TestStart:
    async def test_makes_the_server_with_its_secrets_private(self, directory: Path) -> None:
        server = EmbeddedServer(directory)
        urls = server.start()

        assert server.is_running()
        assert await value(urls.service, "SELECT current_user || '/' || current_database()") == "bursar_app/bursar"
        assert await value(urls.owner, "SELECT current_user || '/' || current_database()") == "bursar_owner/bursar"
        assert await value(urls.admin, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user") is True
        assert (directory / "secrets").stat().st_mode & 0o777 == 0o700
        secrets = list((directory / "secrets").iterdir())
        assert len(secrets) == 3
        assert {path.stat().st_mode & 0o777 for path in secrets} == {0o600}
        assert not [secret for secret in secrets if secret.read_text() in repr(urls)]

    async def test_is_durable_and_listens_on_no_port(self, shared: Urls) -> None:
        settings = ("fsync", "full_page_writes", "synchronous_commit", "listen_addresses", "TimeZone", "data_checksums")
        shown = [await value(shared.service, f"SHOW {name}") for name in settings]
        assert shown == ["on", "on", "on", "", "UTC", "on"]

    async def test_takes_settings_but_none_that_loses_payments(self, stopped: EmbeddedServer) -> None:
        urls = EmbeddedServer(stopped.data_dir, {"shared_buffers": "32MB"}).start()
        assert await value(urls.service, "SHOW shared_buffers") == "32MB"
        with pytest.raises(ValueError, match="fsync"):
            EmbeddedServer(stopped.data_dir, {"fsync": "off"})

    async def test_refuses_a_wrong_password(self, shared: Urls) -> None:
        for url in (shared.admin, shared.owner, shared.service):
            password = urlsplit(url).password
            assert password
            with pytest.raises(asyncpg.InvalidPasswordError):
                await asyncpg.connect(url.replace(password, "wrong"))

    def test_urls_suit_the_tools_of_postgresql(self, shared: Urls) -> None:
        command = [str(binaries() / "psql"), shared.owner, "-Atc", "SELECT 41 + 1"]
        assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "42\n"

    async def test_keeps_the_data_and_is_quick(self, server: EmbeddedServer, urls: Urls) -> None:
        await run(urls.owner, "CREATE TABLE kept AS SELECT 7 AS n")
        server.stop()
        assert not server.is_running()
        began = time.monotonic()
        assert server.start() == urls
        assert time.monotonic() - began < 10  # under a second, on an idle machine
        assert await value(urls.owner, "SELECT n FROM kept") == 7

    @pytest.mark.parametrize("name", ["long " * 20 + "name", "a, b", 'a b "100%" $HOME+é'])
    async def test_works_in_a_path_too_long_or_too_odd_for_a_socket(self, stopped: EmbeddedServer, name: str) -> None:
        server = EmbeddedServer(stopped.data_dir.rename(stopped.data_dir.with_name(name)))
        urls = server.start()
        try:
            assert await value(urls.service, "SELECT 1") == 1
            socket_dir = Path(parse_qs(urlsplit(urls.service).query)["host"][0])
            assert os.stat(socket_dir).st_mode & 0o777 == 0o700
            assert (socket_dir.parent == server.data_dir) == ("100%" in name)
        finally:
            server.kill()
            shutil.rmtree(socket_dir)


class TestStartAfterAnAccident:
    async def test_adopts_the_server_of_a_supervisor_that_was_killed(self, stopped: EmbeddedServer) -> None:
        killed = python("server.start(); os.kill(os.getpid(), signal.SIGKILL)", stopped.data_dir)
        output(killed)
        assert killed.returncode == -signal.SIGKILL
        before = postmaster(stopped)
        urls = stopped.start()
        assert postmaster(stopped) == before
        assert await value(urls.service, "SELECT 1") == 1

    async def test_recovers_what_was_committed_before_a_kill(self, server: EmbeddedServer, urls: Urls) -> None:
        await run(urls.owner, "CREATE TABLE paid (n int)")
        connection = await asyncpg.connect(urls.owner)
        await connection.execute("INSERT INTO paid SELECT generate_series(1, 1000)")
        await connection.execute("BEGIN; INSERT INTO paid VALUES (1001)")
        server.kill()
        assert not server.is_running()
        connection.terminate()
        server.start()
        assert await value(urls.owner, "SELECT count(*) FROM paid") == 1000

    def test_waits_for_sessions_that_outlive_a_killed_postmaster(self, server: EmbeddedServer, urls: Urls) -> None:
        busy = subprocess.Popen(
            [binaries() / "psql", urls.owner, "-c", "SELECT sum(n) FROM generate_series(1, 5000000) AS n"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.kill(postmaster(server), signal.SIGKILL)
        server.start()
        assert server.is_running()
        busy.wait()

    def test_is_not_misled_by_a_reused_process_number(self, server: EmbeddedServer) -> None:
        owner = (server.data_dir / "postgres").stat()
        stranger = subprocess.Popen(["sleep", "60"], user=owner.st_uid if os.geteuid() == 0 else None)
        pid_file = server.data_dir / "postgres" / "postmaster.pid"
        stale = pid_file.read_text().replace(str(postmaster(server)), str(stranger.pid))
        server.kill()
        pid_file.write_text(stale)
        assert not server.is_running()
        server.start()
        assert server.is_running()
        assert stranger.poll() is None
        stranger.kill()
        stranger.wait()

    def test_begins_again_after_half_an_initdb(self, directory: Path) -> None:
        half = directory / "postgres.init-half" / "cluster"
        half.mkdir(parents=True)
        (half / "PG_VERSION").write_text("18\n")
        EmbeddedServer(directory).start()
        assert not list(directory.glob("postgres.init-*"))

    def test_two_at_once_make_one_server(self, directory: Path) -> None:
        both = [python("print(server.start().service)", directory) for _ in range(2)]
        first, second = [output(process) for process in both]
        assert first.startswith("postgresql://bursar_app:")
        assert first == second
        assert (directory / "postgres.log").read_text().count("starting PostgreSQL") == 1

    def test_starts_while_another_stops(self, server: EmbeddedServer) -> None:
        stopping = python("server.stop()", server.data_dir)
        deadline = time.monotonic() + 30
        while server.is_running() and time.monotonic() < deadline:
            pass
        server.start()
        assert server.is_running()
        output(stopping)
        assert stopping.returncode == 0
        assert server.is_running()


class TestStartRefused:
    def test_where_the_directory_cannot_be_written(self, directory: Path) -> None:
        directory.write_text("a file, not a directory")
        with pytest.raises(EmbeddedServerError, match=r"^cannot use .*: File exists") as caught:
            EmbeddedServer(directory).start()
        assert "\n" not in str(caught.value)

    @as_root
    def test_where_the_directory_belongs_to_another_user(self, stopped: EmbeddedServer) -> None:
        code = """
        try:
            server.start()
        except EmbeddedServerError as error:
            print(error)
        """
        stopped.data_dir.parent.chmod(0o711)
        said = output(python(code, stopped.data_dir, uid=NOBODY))
        assert said.startswith(f"cannot use {stopped.data_dir}: ")
        assert len(said.splitlines()) == 1

    def test_by_data_of_another_major_version(self, stopped: EmbeddedServer) -> None:
        (stopped.data_dir / "postgres" / "PG_VERSION").write_text("12\n")
        with pytest.raises(EmbeddedServerError, match=r"was made by PostgreSQL 12 and this is \d+"):
            stopped.start()

    def test_by_something_else_in_its_place(self, directory: Path) -> None:
        (directory / "postgres").mkdir(parents=True)
        (directory / "postgres" / "notes.txt").touch()
        with pytest.raises(EmbeddedServerError, match="not a PostgreSQL data directory"):
            EmbeddedServer(directory).start()

    def test_by_a_live_server_of_somebody_else(self, stopped: EmbeddedServer, directory: Path) -> None:
        directory.parent.chmod(0o711)
        owner = (directory / "postgres").stat()
        foreign = subprocess.Popen(
            [str(binaries() / "postgres"), "-D", "postgres", "-k", directory / "postgres", "-h", ""],
            cwd=directory,
            stderr=subprocess.DEVNULL,
            user=owner.st_uid if os.geteuid() == 0 else None,
            group=owner.st_gid if os.geteuid() == 0 else None,
        )
        while not stopped.is_running():
            assert foreign.poll() is None
        with pytest.raises(EmbeddedServerError, match=rf"another live process \(pid {foreign.pid}\)"):
            stopped.start()
        foreign.terminate()
        foreign.wait()

    def test_by_a_setting_that_does_not_exist(self, stopped: EmbeddedServer) -> None:
        with pytest.raises(EmbeddedServerError, match=r"did not start; the reason is in .*postgres\.log$"):
            EmbeddedServer(stopped.data_dir, {"no_such_setting": "1"}).start()
        assert "no_such_setting" in stopped.log.read_text()

    def test_by_a_password_that_is_not_the_servers(self, server: EmbeddedServer) -> None:
        (server.data_dir / "secrets" / "postgres-admin").unlink()
        with pytest.raises(EmbeddedServerError, match="is not the server's"):
            server.start()


class TestUsers:
    @as_root
    def test_as_root_the_server_runs_as_another_user_who_can_only_pass(self, server: EmbeddedServer) -> None:
        assert Path(f"/proc/{postmaster(server)}").stat().st_uid != 0
        assert server.data_dir.stat().st_mode & 0o777 == 0o701
        assert server.data_dir.parent.stat().st_mode & 0o777 == 0o701
        owners = {path.name for path in server.data_dir.iterdir() if path.stat().st_uid != 0}
        assert owners == {"postgres", "run"}

    @as_root
    def test_as_root_takes_back_a_directory_restored_by_root(self, stopped: EmbeddedServer) -> None:
        subprocess.run(["chown", "-R", "root:root", stopped.data_dir], check=True)
        stopped.start()
        assert (stopped.data_dir / "postgres" / "base").stat().st_uid != 0

    @as_root
    def test_as_an_ordinary_user(self, directory: Path) -> None:
        os.chown(directory.parent, NOBODY, NOBODY)
        code = """
        first = server.start()
        server.kill()
        assert server.start() == first
        server.stop()
        print(os.geteuid(), server.is_running())
        """
        assert output(python(code, directory, uid=NOBODY)) == f"{NOBODY} False"
        assert {path.stat().st_uid for path in directory.rglob("*")} == {NOBODY}
        assert directory.stat().st_mode & 0o777 == 0o700


class TestRoles:
    async def test_neither_role_is_more_than_it_must_be(self, shared: Urls) -> None:
        connection = await asyncpg.connect(shared.admin)
        rows = await connection.fetch(
            """
            SELECT rolname, rolcanlogin, rolsuper, rolcreatedb, rolcreaterole, rolreplication, rolbypassrls
            FROM pg_roles
            WHERE rolname IN ('bursar_owner', 'bursar_app')
            ORDER BY rolname
            """
        )
        await connection.close()
        assert [tuple(row) for row in rows] == [
            ("bursar_app", True, False, False, False, False, False),
            ("bursar_owner", True, False, True, False, False, False),
        ]
        owner = "SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = 'bursar'"
        assert await value(shared.admin, owner) == "bursar_owner"

    async def test_the_service_makes_nothing_and_waits_for_nothing_long(self, shared: Urls) -> None:
        for statement in ("CREATE TABLE mine ()", "CREATE TEMPORARY TABLE mine ()", "SET ROLE bursar_owner"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await run(shared.service, statement)
        limits = ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout")
        assert [await value(shared.service, f"SHOW {name}") for name in limits] == ["2s", "5s", "10s"]
        assert await value(shared.owner, "SHOW statement_timeout") == "0"

    async def test_others_do_not_get_in(self, shared: Urls) -> None:
        await run(shared.admin, f"CREATE ROLE stranger LOGIN PASSWORD '{scram_verifier('known')}'")
        stranger = f"postgresql://stranger:known@/bursar?{shared.service.partition('?')[2]}"
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="permission denied for database"):
            await asyncpg.connect(stranger)

    async def test_are_put_right_and_take_new_passwords(self, urls: Urls) -> None:
        await run(urls.admin, "ALTER ROLE bursar_app SUPERUSER CREATEDB")
        await ensure_roles(urls.admin, "owner's new", "it's \\ new")
        service = urls.service.replace(str(urlsplit(urls.service).password), "it%27s%20%5C%20new")
        assert (
            await value(service, "SELECT rolsuper OR rolcreatedb FROM pg_roles WHERE rolname = current_user") is False
        )

    async def test_are_made_by_an_administrator_who_is_no_superuser(self, urls: Urls) -> None:
        """As on a hosted PostgreSQL, whose superuser nobody is given."""
        await drop_database(urls.admin, "bursar")
        await run(
            urls.admin,
            "DROP ROLE bursar_owner, bursar_app",
            f"CREATE ROLE hosted LOGIN CREATEROLE CREATEDB PASSWORD '{scram_verifier('known')}'",
        )
        hosted = f"postgresql://hosted:known@/postgres?{urls.admin.partition('?')[2]}"
        for _ in range(2):
            await ensure_roles(hosted, "o", "s", "elsewhere")
        service = f"postgresql://bursar_app:s@/elsewhere?{urls.admin.partition('?')[2]}"
        assert await value(service, "SELECT current_database()") == "elsewhere"


class TestDatabases:
    async def test_the_owner_clones_and_drops_even_below_the_services_sessions(self, shared: Urls) -> None:
        await run(shared.owner, "CREATE TABLE kept AS SELECT 7 AS n", "GRANT SELECT ON kept TO bursar_app")
        name = 'a "copy" % of it'
        maintenance = with_database(shared.owner, "postgres")
        await create_database(maintenance, name, template="bursar")
        connection = await asyncpg.connect(with_database(shared.service, name))
        assert await connection.fetchval("SELECT n FROM kept") == 7
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute("CREATE TEMPORARY TABLE mine ()")
        await drop_database(maintenance, name)
        await drop_database(maintenance, name)
        with pytest.raises(asyncpg.InvalidCatalogNameError):
            await asyncpg.connect(with_database(shared.service, name))
        connection.terminate()

    async def test_the_administrator_makes_databases_of_the_owner(self, shared: Urls) -> None:
        await create_database(shared.admin, "fresh")
        await run(with_database(shared.owner, "fresh"), "CREATE TABLE mine ()")

    @pytest.mark.parametrize(
        ("url", "expected"),
        [
            ("postgresql://u:p@/a?host=/run/x%20y&port=5432", "postgresql://u:p@/b%2Fc?host=/run/x%20y&port=5432"),
            ("postgres://u:p%40@h1:5432,h2:5433/a", "postgres://u:p%40@h1:5432,h2:5433/b%2Fc"),
            ("postgresql:///a?sslmode=require&dbname=z", "postgresql:///b%2Fc?sslmode=require"),
            ("postgresql://h", "postgresql://h/b%2Fc"),
        ],
    )
    def test_a_url_for_another_database(self, url: str, expected: str) -> None:
        assert with_database(url, "b/c") == expected
