"""Copies of the checkout with a mistake in them, and trials of a plan there."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.planted.bugs import Patch

ROOT = Path(__file__).resolve().parents[3]
COPIED = ("src", "tests", "bench", "pyproject.toml")
LIMIT_S = 300.0
CLEARING_UP_S = 40.0


class DoesNotFit(Exception):
    """The text that a patch replaces is not there exactly once: the code has changed since."""


@dataclass(frozen=True)
class Outcome:
    """What a trial said; `failure` is why it said nothing."""

    seconds: float
    held: bool = False
    notes: Sequence[str] = field(default_factory=tuple)
    failure: str | None = None


@contextmanager
def copy(patches: Sequence[Patch] = (), of: Path = ROOT) -> Iterator[Path]:
    """A directory with the patched code, gone afterwards."""
    place = Path(tempfile.mkdtemp(prefix="bursar-planted-"))
    try:
        for name in COPIED:
            if (of / name).is_dir():
                shutil.copytree(of / name, place / name, ignore=shutil.ignore_patterns(".peers"))
            else:
                shutil.copy2(of / name, place / name)
        for patch in patches:
            _apply(place, patch)
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _apply(place: Path, patch: Patch) -> None:
    file = place / patch.file
    file.write_text(patched(file.read_text(), patch))


def patched(text: str, patch: Patch) -> str:
    if (times := text.count(patch.old)) != 1:
        raise DoesNotFit(f"{patch.file} has the text to replace {times} times: {patch.old.strip()[:80]}")
    return text.replace(patch.old, patch.new)


def try_out(place: Path, plan: str, seed: int) -> Outcome:
    """Runs a plan with the code of the copy alone."""
    began = time.monotonic()
    said = place / "said"
    with said.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.planted.trial", plan, str(seed)],
            cwd=place,
            env=_environment(place),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        process.wait(LIMIT_S)
    except subprocess.TimeoutExpired:
        return Outcome(LIMIT_S, failure=f"not done within {LIMIT_S:.0f} s")
    finally:
        _end(process)
    took_s = time.monotonic() - began
    last = said.read_text(errors="replace").rstrip().rpartition("\n")[2]
    if process.returncode != 0 or not last.startswith("{"):
        return Outcome(took_s, failure=f"could not be run: {last[:300]}")
    told = json.loads(last)
    return Outcome(took_s, told["held"], told["notes"])


def _environment(place: Path) -> dict[str, str]:
    passed = {name: value for name, value in os.environ.items() if not name.startswith("BURSAR_")}
    return passed | {"PYTHONPATH": f"{place / 'src'}{os.pathsep}{place}"}


def _end(process: subprocess.Popen[bytes]) -> None:
    """Told to stop, it takes its servers with it; one that does not stop is killed."""
    if process.poll() is not None:
        return
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(CLEARING_UP_S)
        return
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
