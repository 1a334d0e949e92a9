"""The clients' log, read back: requests with what was answered, endpoints with what they were sent."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Exchange:
    """One try: a request, and what came of it: a reply, or nothing that could be understood."""

    n: int
    at: float
    who: int
    op: str
    method: str
    path: str
    key: str
    body: str
    status: int | None = None  # None: lost
    replayed: bool = False
    type: str | None = None
    reply: str = ""
    heard: int = 0  # the number of the reply's own note

    @property
    def ok(self) -> bool:
        return self.status is not None and 200 <= self.status < 300

    @property
    def code(self) -> str | None:
        if not self.reply or self.ok:
            return None
        error = json.loads(self.reply).get("error")
        return str(error["code"]) if error else None

    @property
    def final(self) -> bool:
        settled = self.status is not None and self.status < 500 and self.status not in (401, 429)
        return settled and self.code != "duplicate_request"

    @property
    def data(self) -> Any:
        return json.loads(self.reply)["data"]


@dataclass
class Log:
    exchanges: list[Exchange] = field(default_factory=list)
    endpoints: dict[str, dict[str, Any]] = field(default_factory=dict)  # by path
    deliveries: list[dict[str, Any]] = field(default_factory=list)
    secrets: set[str] = field(default_factory=set)
    moves: list[tuple[int, int]] = field(default_factory=list)  # (n, seconds) of the clock
    wrong_clocks: list[tuple[float, float]] = field(default_factory=list)  # when a process had a wrong one
    read_to: int = 0
    _by_number: dict[int, Exchange] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Log:
        log = cls()
        log.read_on(path)
        return log

    def read_on(self, path: Path) -> None:
        """What was written since the last time."""
        with path.open("rb") as lines:
            lines.seek(self.read_to)
            for line in lines:
                self.read_to += len(line)
                self._take(json.loads(line))

    def _take(self, note: dict[str, Any]) -> None:
        match note["kind"]:
            case "request":
                facts = {name: note[name] for name in ("n", "at", "who", "op", "method", "path", "key", "body")}
                self._by_number[note["n"]] = Exchange(**facts)
                self.exchanges.append(self._by_number[note["n"]])
            case "reply":
                made = self._by_number[note["request"]]
                made.status, made.replayed = note["status"], note["replayed"]
                made.type, made.reply, made.heard = note["type"], note["body"], note["n"]
            case "endpoint":
                self.endpoints["/" + note["url"].split("/", 3)[3]] = note
            case "delivery":
                self.deliveries.append(note)
            case "secret":
                self.secrets.add(note["value"])
            case "wrong_clock":
                self.wrong_clocks.append((note["since"], note["until"]))
            case "clock":
                self.moves.append((note["n"], note["seconds"]))

    def keyed(self) -> dict[tuple[int, str, str, str], list[Exchange]]:
        """Tries by what their key is bound to: caller, method, path and key."""
        groups: dict[tuple[int, str, str, str], list[Exchange]] = defaultdict(list)
        for one in self.exchanges:
            if one.key:
                groups[one.who, one.method, one.path, one.key].append(one)
        return groups

    def moved_since(self, n: int) -> int:
        return sum(seconds for number, seconds in self.moves if number > n)
