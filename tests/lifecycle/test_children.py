"""How often, and how fast, a child is started again."""

from __future__ import annotations

import os
import time

import pytest

from bursar.supervisor import children
from bursar.supervisor.children import Program, delay_s, keep_running
from bursar.supervisor.errors import GaveUp


def test_pauses_grow_and_are_bounded() -> None:
    pauses = [delay_s(deaths) for deaths in range(1, 9)]
    assert pauses == sorted(pauses)
    assert pauses[0] <= 0.1
    assert pauses[-1] == 5.0


async def test_gives_up_on_a_program_that_only_dies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "delay_s", lambda _: 0.0)
    ended: list[int] = []
    began = time.monotonic()
    program = Program("odd", ("version", "--no-such"), environment=dict(os.environ))
    with pytest.raises(GaveUp, match="the odd process ended 5 times right after its start"):
        await keep_running(program, ended.append)
    assert len(ended) == children.QUICK_DEATHS_MOST
    assert time.monotonic() - began < 20
