"""The deep audit: one file of plain SQL per invariant, written without the functions and views that posting uses.

A file's first comment is its rule; its query returns a row wherever the rule does not hold, on any snapshot of a
running instance. The names begin with the invariant's number in docs/reliability.md.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files

from bursar.ledger.audit import Check


@lru_cache(maxsize=1)
def checks() -> tuple[Check, ...]:
    folder = files("bursar.ledger") / "deep"
    found = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    return tuple(_check(file.name.removesuffix(".sql"), file.read_text()) for file in found)


def _check(name: str, text: str) -> Check:
    lines = text.splitlines()
    first = next(number for number, line in enumerate(lines) if not line.startswith("--"))
    rule = " ".join(line.removeprefix("--").strip() for line in lines[:first])
    return Check(name, rule, "\n".join(lines[first:]))
