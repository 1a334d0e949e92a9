"""The judge: what must hold after every fault, checked by code of its own.

It reads the database by SQL and the clients' log, and imports nothing of the service. The SQL that holds on any
snapshot is the same that `bursar audit verify --deep` runs (`bursar/ledger/deep`, plain files); what holds only when
nothing is due is in `quiet`. Numbers are those of docs/reliability.md.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg

from tests.faults.invariants import events, replies
from tests.faults.invariants.log import Log

ROOT = Path(__file__).parents[3]
DEEP = ROOT / "src" / "bursar" / "ledger" / "deep"
QUIET = Path(__file__).parent / "quiet"
PLACES_SHOWN = 4


Part = Callable[[Any, Log], Awaitable[list[str]]]


@dataclass
class Verdict:
    """What was looked at, and what did not hold."""

    checks: int = 0
    broken: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return not self.broken


async def judge(url: str, log: Path | None, *, quiet: bool = True, memory: Memory | None = None) -> Verdict:
    """Everything that must hold now. `url` logs in as someone who may read all; `quiet`: nothing is due any more."""
    verdict = Verdict()
    session = await asyncpg.connect(url)
    try:
        async with session.transaction(isolation="repeatable_read", readonly=True):
            for folder in (DEEP, QUIET) if quiet else (DEEP,):
                for file in sorted(folder.glob("*.sql")):
                    verdict.checks += 1
                    verdict.broken += await _places(session, file.stem, file.read_text())
            if memory is not None:
                verdict.checks += 1
                verdict.broken += await memory.compare(session)
            if log is not None:
                read = memory.log if memory is not None else Log()
                read.read_on(log)
                parts: Sequence[Part] = (*replies.PARTS, *(events.PARTS if quiet else ()))
                for part in parts:
                    verdict.checks += 1
                    verdict.broken += await part(session, read)
    finally:
        await session.close()
    return verdict


async def _places(session: Any, name: str, query: str) -> list[str]:
    rows = await session.fetch(query)
    shown = [f"{name}: {row['place']}" for row in rows[:PLACES_SHOWN]]
    return shown + ([f"{name}: and {len(rows) - PLACES_SHOWN} more"] if len(rows) > PLACES_SHOWN else [])


@dataclass
class Memory:
    """L4 between two judgements: journals and entries that were there are still there, as they were.

    The clients' log is remembered, too, as far as it was read.
    """

    journals: dict[tuple[int, int], str] = field(default_factory=dict)
    entries: dict[tuple[int, int], str] = field(default_factory=dict)
    log: Log = field(default_factory=Log)

    async def compare(self, session: Any) -> list[str]:
        broken = []
        for name, known in (("journal", self.journals), ("wallet_entry", self.entries)):
            rows = await session.fetch(f"SELECT account_id, id, md5(t::text) AS print FROM {name} AS t")
            found = {(row["account_id"], row["id"]): row["print"] for row in rows}
            gone = [place for place, print_ in known.items() if found.get(place) != print_]
            broken += [f"L4: {name} {place[1]} of account {place[0]} changed or vanished" for place in gone[:3]]
            known.clear()
            known.update(found)
        return broken
