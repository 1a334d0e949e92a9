"""The clients' own log: every request and every reply, in a file outside the database. The judge believes it."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO


class Witness:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: TextIO = path.open("a", buffering=1)
        self._numbers = itertools.count(1)

    def note(self, kind: str, **facts: Any) -> int:
        number = next(self._numbers)
        self._file.write(json.dumps({"n": number, "kind": kind, "at": time.time(), **facts}) + "\n")
        return number

    def close(self) -> None:
        self._file.close()


def read(path: Path) -> Iterator[dict[str, Any]]:
    with path.open() as lines:
        for line in lines:
            yield json.loads(line)
