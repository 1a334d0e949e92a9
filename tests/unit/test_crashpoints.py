"""Crash points: a process dies where it was told to, and nowhere else; a live instance cannot be told to."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bursar.settings import SettingsError, load

PROGRAM = """
import sys
from bursar.core.crashpoints import arm, crashpoint
arm(sys.argv[1])
for n in range(3):
    print(n, flush=True)
    crashpoint("one")
    crashpoint("before_commit", "two")
"""


def run(order: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", PROGRAM, order], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("order", "printed"), [("one", 1), ("one:2", 2), ("two.before_commit", 1), ("two.before_commit:3", 3)]
)
def test_a_process_dies_where_it_was_told_to(order: str, printed: int) -> None:
    ended = run(order)
    assert ended.returncode == -signal.SIGKILL
    assert ended.stdout.split() == [str(n) for n in range(printed)]


@pytest.mark.parametrize("order", ["", "elsewhere", "one:4", "two"])
def test_it_goes_on_where_it_was_not(order: str) -> None:
    ended = run(order)
    assert (ended.returncode, ended.stdout.split()) == (0, ["0", "1", "2"]), ended.stderr


def test_a_file_may_hold_the_order_and_all_passings_are_noted(tmp_path: Path) -> None:
    order = tmp_path / "order"
    assert run(f"@{order}").returncode == 0
    assert (tmp_path / "order.passed").read_text().split() == ["one", "two.before_commit"] * 3
    order.write_text("two.before_commit:2\n")
    assert run(f"@{order}").returncode == -signal.SIGKILL


def test_a_live_instance_refuses_it() -> None:
    with pytest.raises(SettingsError, match=r"BURSAR_CRASHPOINT: .*test instances"):
        load({"BURSAR_CRASHPOINT": "local.before_commit"})
    assert load({"BURSAR_CRASHPOINT": "one", "BURSAR_ENV": "test"}).crashpoint == "one"
