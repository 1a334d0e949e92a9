"""Installs a peer into its own directory, once; says why when that is not possible."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HOME = Path(__file__).parents[1] / ".peers"
LONGEST_S = 300


class NotInstalled(Exception):
    """Why a peer is not there, in one line."""


@dataclass(frozen=True)
class Python:
    """A peer from the Python package registry: its environment's interpreter."""

    name: str
    packages: tuple[str, ...]

    def install(self) -> Path:
        place = HOME / self.name
        python = place / "bin" / "python"
        if not (place / "installed").exists():
            shutil.rmtree(place, ignore_errors=True)
            _run([sys.executable, "-m", "venv", str(place)])
            _run([str(python), "-m", "pip", "--disable-pip-version-check", "--quiet", "install", *self.packages])
            (place / "installed").touch()
        return python


@dataclass(frozen=True)
class Node:
    """A peer from Node's package registry: the directory to start node in."""

    name: str
    packages: tuple[str, ...]

    def install(self) -> Path:
        for program in ("node", "npm"):
            if shutil.which(program) is None:
                raise NotInstalled(f"{program} is not installed")
        place = HOME / self.name
        if not (place / "installed").exists():
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir(parents=True)
            options = ("--prefix", str(place), "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel", "error")
            _run(["npm", "install", *options, *self.packages])
            (place / "installed").touch()
        return place


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LONGEST_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotInstalled(str(error)) from None
    if done.returncode:
        lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise NotInstalled(lines[-1] if lines else f"{command[0]} ended with {done.returncode}")
