"""A small ledger in Python, written from the rules alone, to hold the real one against."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field


@dataclass
class Part:
    amount: int
    order: tuple[object, str]


@dataclass
class Purse:
    """One wallet."""

    main: int = 0
    reserve: int = 0
    parts: dict[str, Part] = field(default_factory=dict)
    # What a claim has taken, by where it came from ('' for main). Kept for money set aside, and for money that left.
    aside: dict[str, dict[str, int]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(int)))
    gone: dict[str, dict[str, int]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(int)))

    @property
    def pending(self) -> int:
        return sum(part.amount for part in self.parts.values())

    @property
    def available(self) -> int:
        return self.main + self.pending

    @property
    def balances(self) -> tuple[int, int, int]:
        return self.main, self.pending, self.reserve

    def pay_in(self, amount: int, source: str, settles: object) -> None:
        self.parts[source] = Part(amount, (settles, source))

    def take_own(self, amount: int, source: str, taken: dict[str, int]) -> None:
        part = self.parts.get(source)
        from_part = min(amount, part.amount) if part else 0
        if part and from_part:
            part.amount -= from_part
            taken[source] += from_part
        self._take_main(amount - from_part, taken)

    def take_oldest(self, amount: int, taken: dict[str, int]) -> None:
        from_main = max(0, min(self.main, amount))
        left = amount - from_main
        for source, part in sorted(self.parts.items(), key=lambda item: item[1].order):
            given = min(part.amount, left)
            if given:
                part.amount -= given
                taken[source] += given
                left -= given
        self._take_main(from_main + left, taken)

    def _take_main(self, amount: int, taken: dict[str, int]) -> None:
        if amount:
            self.main -= amount
            taken[""] += amount

    def give_back(self, amount: int, taken: dict[str, int]) -> None:
        """To the parts that are still there first; everything else is main's."""
        for source in sorted(taken):
            part = self.parts.get(source)
            if part is not None:
                given = min(amount, taken[source])
                part.amount += given
                taken[source] -= given
                amount -= given
        self.main += amount
        for source in sorted(taken):  # whatever went to main came, for the books, from what has settled
            if source not in self.parts:
                used = min(amount, taken[source])
                taken[source] -= used
                amount -= used

    def settle(self, source: str) -> int | None:
        part = self.parts.pop(source, None)
        if part is None:
            return None
        self.main += part.amount
        return part.amount
