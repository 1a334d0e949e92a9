"""Places at which a test instance can be made to die, to show that nothing is lost or doubled wherever it happens.

A point costs a comparison while nothing is armed, and nothing can be armed on a live instance (`settings`).
`BURSAR_CRASHPOINT` is a point's name, or `name:3` for the third passing; or `@file` for a file that holds such a
name, or nothing, and is read at every passing, so that a running process can be armed. Every passing is then noted
in `file.passed`.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path


class _Armed:
    def __init__(self, order: str) -> None:
        self._file = Path(order[1:]) if order.startswith("@") else None
        self._order = "" if self._file else order
        self._passed = 0

    def reached(self, name: str) -> None:
        if self._file is not None:
            self._note(self._file, name)
            self._read(self._file)
        wanted, _, nth = self._order.partition(":")
        if name != wanted:
            return
        self._passed += 1
        if self._passed >= int(nth or 1):
            os.kill(os.getpid(), signal.SIGKILL)  # no clean-up of any kind, as when power is lost

    def _read(self, file: Path) -> None:
        order = ""
        with suppress(FileNotFoundError):
            order = file.read_text().strip()
        if order != self._order:
            self._order, self._passed = order, 0

    @staticmethod
    def _note(file: Path, name: str) -> None:
        with open(f"{file}.passed", "a") as passed:
            passed.write(f"{name}\n")


_armed: _Armed | None = None


def arm(order: str) -> None:
    global _armed  # noqa: PLW0603 - one process, one order
    _armed = _Armed(order) if order else None


def is_armed() -> bool:
    return _armed is not None


def crashpoint(point: str, where: str = "") -> None:
    """Dies here, if that was ordered. `where` comes before the point's name, so that a shared place has many names."""
    if _armed is not None:
        _armed.reached(f"{where}.{point}" if where else point)
