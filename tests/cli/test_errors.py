"""Whatever goes wrong is one line and a status; never a traceback."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from bursar.cli.errors import one_line
from bursar.supervisor.errors import CannotServe
from tests.cli.conftest import Run
from tests.support.service import Service


@pytest.mark.parametrize(
    "arguments",
    [
        ("no-such",),
        ("accounts", "no-such"),
        ("accounts", "create"),
        ("accounts", "show"),
        ("accounts", "list", "--page", "0"),
        ("serve", "--port", "many"),
        ("serve", "--no-such"),
    ],
)
async def test_wrong_calls(run: Run, arguments: tuple[str, ...]) -> None:
    result = await run(*arguments)
    assert (result.status, result.out) == (2, "")
    assert result.err.startswith("bursar: ")
    assert "--help`" in result.err
    assert result.err.count("\n") == 1


async def test_a_group_alone_shows_its_help(run: Run) -> None:
    assert "create" in (await run("accounts")).out
    result = await run()
    assert result.status == 0
    assert "serve" in result.out


async def test_no_service(run: Run, bare: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    bare.setenv("BURSAR_OPERATOR_KEY", "some-key")
    result = await run("accounts", "list", "--url", f"http://127.0.0.1:{port}")
    assert result.status == 1
    assert result.err == (
        f"bursar: cannot reach http://127.0.0.1:{port}: Connection refused; is the service running?\n"
    )
    assert "not an http" in (await run("accounts", "list", "--url", "localhost:1")).err


async def test_no_operator_key(run: Run, tmp_path: Path) -> None:
    result = await run("accounts", "list", "--data-dir", str(tmp_path))
    assert result.status == 1
    assert "no operator key" in result.err


async def test_operator_key_of_the_data_directory(service: Service, run: Run, tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "operator_key").write_text("wrong\n")
    options = ("--url", service.base_url, "--data-dir", str(tmp_path))
    result = await run("accounts", "list", *options)
    assert result.status == 1
    assert "not the one of this instance" in result.err
    key = service.settings.operator_key.get_secret_value()
    (tmp_path / "secrets" / "operator_key").write_text(f"{key}\n")
    assert (await run("accounts", "list", *options)).status == 0


async def test_not_there(bursar: Run) -> None:
    result = await bursar("accounts", "show", "4711")
    assert result.status == 1
    assert "account_not_found" in result.err
    assert (await bursar("accounts", "show", "../audit/log")).status == 1


def test_unexpected_errors_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BURSAR_LOG_LEVEL", raising=False)
    assert one_line(CannotServe("so it is")) == "so it is"
    assert one_line(NotADirectoryError(20, "Not a directory", "/x")) == "cannot use /x: Not a directory"
    assert "unexpected KeyError" in one_line(KeyError("a\nb"))
    assert "\n" not in one_line(ValueError("a\nb"))
