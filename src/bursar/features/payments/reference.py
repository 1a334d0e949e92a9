"""References that people read out: a prefix, the number in base 32, and a check character. Pure.

They are made from the number, so none is stored to be looked up, and a mistyped one names nothing.
"""

from __future__ import annotations

from bursar.core.ids import BASE32

_SHORTEST = 6
_LONGEST = 13
_VALUES = {letter: value for value, letter in enumerate(BASE32)} | {"i": 1, "l": 1, "o": 0}
_LETTERS = BASE32.upper()

PAYMENT = "PAY-"
LINK = "LNK-"


def make(prefix: str, number: int) -> str:
    digits = ""
    rest = number
    while rest:
        digits = _LETTERS[rest & 31] + digits
        rest >>= 5
    return prefix + digits.rjust(_SHORTEST, "0") + _LETTERS[_remainder(prefix, number)]


def number_of(prefix: str, reference: str) -> int | None:
    """The number behind a reference, or None for anything that is not one."""
    text = reference.upper()
    if not text.startswith(prefix) or not _SHORTEST < len(text) - len(prefix) <= _LONGEST + 1:
        return None
    letters = text[len(prefix) :].lower()
    if not all(letter in _VALUES for letter in letters):
        return None
    number = 0
    for letter in letters[:-1]:
        number = number * 32 + _VALUES[letter]
    return number if number < 2**63 and _VALUES[letters[-1]] == _remainder(prefix, number) else None


def _remainder(prefix: str, number: int) -> int:
    """One of a prime number of them, so that next to every slip of one or two characters shows.

    Weighted by place: 32 leaves 1 when divided by 31, so a plain remainder would not see digits change places.
    """
    total, weight = sum(prefix.encode()), 1
    while number:
        total += (number & 31) * weight
        weight = weight * 3 % 31
        number >>= 5
    return total % 31
