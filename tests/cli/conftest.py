"""Runs commands as the shell would, against a service of the test's own."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from bursar.cli import main
from tests.support.service import OPERATOR_KEY, Service


@dataclass(frozen=True)
class Result:
    status: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        assert self.status == 0, self.err
        return json.loads(self.out)


Run = Callable[..., Awaitable[Result]]


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment without any setting of ours."""
    for name in [name for name in os.environ if name.startswith("BURSAR_")]:
        monkeypatch.delenv(name)
    return monkeypatch


@pytest.fixture
def run(bare: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """A command, in a thread, as it blocks."""

    async def call(*arguments: str) -> Result:
        capsys.readouterr()
        status = await asyncio.to_thread(main, arguments)
        said = capsys.readouterr()
        return Result(status, said.out, said.err)

    return call


@pytest.fixture
def bursar(service: Service, run: Run, bare: pytest.MonkeyPatch) -> Run:
    """A command that finds the running service and its operator key in the environment."""
    bare.setenv("BURSAR_BASE_URL", service.base_url)
    bare.setenv("BURSAR_OPERATOR_KEY", OPERATOR_KEY)
    return run
