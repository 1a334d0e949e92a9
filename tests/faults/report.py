"""What one part of the suite did, and whether everything held."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Report:
    """`done` counts what was tried; `held` is False as soon as one thing did not hold, and `notes` say which."""

    name: str
    done: dict[str, int] = field(default_factory=dict)
    held: bool = True
    notes: list[str] = field(default_factory=list)

    def count(self, what: str, times: int = 1) -> None:
        self.done[what] = self.done.get(what, 0) + times

    def broke(self, what: str) -> None:
        self.held = False
        self.notes.append(what)

    def expect(self, holds: bool, otherwise: str) -> bool:
        if not holds:
            self.broke(otherwise)
        return holds
