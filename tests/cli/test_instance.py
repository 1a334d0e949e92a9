"""`bursar clock`, `jobs` and `audit log` against a running service; `settings`, `secrets`, `version` without one."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

import pytest
from pydantic import SecretStr

from bursar import __version__
from bursar.cli.instance import HIDDEN, masked, masked_url
from bursar.core.crypto import lookup_hash
from bursar.settings import Settings
from tests.cli.conftest import Run
from tests.support.service import Service, running_service


class TestClock:
    async def test_advance(self, bursar: Run) -> None:
        before = datetime.fromisoformat((await bursar("clock", "show", "--json")).data["now"])
        moved = (await bursar("clock", "advance", "45d", "--json")).data
        assert datetime.fromisoformat(moved["now"]) - before >= timedelta(days=45)
        assert "offset_seconds" in (await bursar("clock", "show")).out
        assert "It is now " in (await bursar("clock", "advance", "30s")).out

    async def test_a_length_of_time_that_is_none(self, bursar: Run) -> None:
        result = await bursar("clock", "advance", "soon")
        assert result.status == 2
        assert "write 45d" in result.err
        assert result.err.count("\n") == 1

    async def test_not_on_a_live_instance(self, run: Run, service: Service, bare: pytest.MonkeyPatch) -> None:
        async with running_service(service.urls, env="live") as live:
            bare.setenv("BURSAR_OPERATOR_KEY", live.settings.operator_key.get_secret_value())
            result = await run("clock", "show", "--url", live.base_url)
        assert result.status == 1
        assert "for test instances" in result.err


async def test_jobs_run(bursar: Run) -> None:
    counts = (await bursar("jobs", "run", "--json")).data
    assert counts
    assert next(iter(counts)) in (await bursar("jobs", "run")).out


async def test_audit_log(bursar: Run, service: Service) -> None:
    party = await service.open_account()
    log = (await bursar("audit", "log", "--action", "operator_open_account", "--json")).data
    assert [entry["account_id"] for entry in log] == [party.merchant_id]
    for_people = await bursar("audit", "log", "--merchant", str(party.merchant_id))
    assert "operator_open_account" in for_people.out


class TestSettings:
    async def test_lists_them_all_without_secrets(self, run: Run, bare: pytest.MonkeyPatch) -> None:
        bare.setenv("BURSAR_DATABASE_URL", "postgresql://bursar_app:hunter2@db.example/bursar?sslmode=require")
        bare.setenv("BURSAR_OPERATOR_KEY", "hunter3")
        bare.setenv("BURSAR_KEY_PEPPER", "ab" * 32)
        for options in ((), ("--json",)):
            result = await run("settings", *options)
            assert result.status == 0
            assert not any(secret in result.out for secret in ("hunter", "abab"))
        listed = {entry["name"]: entry for entry in json.loads(result.out)}
        assert set(listed) == {f"BURSAR_{name.upper()}" for name in Settings.model_fields}
        assert listed["BURSAR_DATABASE_URL"]["value"] == "postgresql://bursar_app:***@db.example/bursar?sslmode=require"
        assert listed["BURSAR_OPERATOR_KEY"]["value"] == HIDDEN
        assert listed["BURSAR_PORT"]["default"] == "8484"
        assert all(entry["description"] for entry in listed.values())

    async def test_a_wrong_one(self, run: Run, bare: pytest.MonkeyPatch) -> None:
        for name, value in (("BURSAR_PORT", "many"), ("BURSAR_NO_SUCH", "1")):
            bare.setenv(name, value)
            result = await run("settings")
            assert result.status == 1
            assert name in result.err
            assert result.err.count("\n") == 1
            bare.delenv(name)

    @pytest.mark.parametrize(
        ("url", "expected"),
        [
            ("", ""),
            ("postgresql://app@db/bursar", "postgresql://app@db/bursar"),
            ("postgresql://app:p%40ss@db:5432/bursar", "postgresql://app:***@db:5432/bursar"),
            ("postgresql://app:a@b@db/bursar", "postgresql://app:***@db/bursar"),
            (
                "postgresql:///bursar?host=/run&password=x&user=app",
                "postgresql:///bursar?host=/run&password=***&user=app",
            ),
        ],
    )
    def test_of_an_address_the_password_is_hidden(self, url: str, expected: str) -> None:
        assert masked_url(url) == expected

    def test_masking(self) -> None:
        assert masked("operator_key", SecretStr("")) == ""
        assert masked("operator_key", SecretStr("x")) == HIDDEN
        assert masked("seal_private_key", b"x") == HIDDEN
        assert masked("seal_public_key", b"\x01") == "01"
        assert masked("currencies", ("GBP", "EUR")) == "GBP,EUR"
        assert masked("access_log", True) == "true"


async def test_secrets_fit_together(run: Run) -> None:
    made = (await run("secrets", "--json")).data
    pepper = bytes.fromhex(made["BURSAR_KEY_PEPPER"])
    assert made["BURSAR_OPERATOR_KEY_HASH"] == lookup_hash(pepper, made["BURSAR_OPERATOR_KEY"])
    plain = await run("secrets")
    assert "BURSAR_SEAL_PRIVATE_KEY=" in plain.out


async def test_version(run: Run) -> None:
    assert (await run("version")).out == f"bursar {__version__}\n"
    assert (await run("version", "--json")).data == {"version": __version__}


async def test_openapi(run: Run) -> None:
    document = (await run("openapi")).data
    assert document["openapi"].startswith("3.1")
    assert "/v2/account" in document["paths"]
