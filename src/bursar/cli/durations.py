"""Lengths of time as people write them: 45d, 36h, 90m, 30s, 2w, or several together as in 1d12h."""

from __future__ import annotations

import re

SECONDS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_PART = re.compile(r"(\d{1,9})([wdhms])", re.ASCII)
_WHOLE = re.compile(rf"(?:{_PART.pattern})+", re.ASCII)


def seconds(text: str) -> int:
    """Raises ValueError, which says what is wanted."""
    compact = text.strip().lower()
    if not _WHOLE.fullmatch(compact):
        raise ValueError(f"{text!r} is not a length of time; write 45d, 36h, 90m, 30s or 2w")
    return sum(int(number) * SECONDS[unit] for number, unit in _PART.findall(compact))
