"""The published check of United Kingdom account numbers: weighted sums of sort code and account number.

A table gives each range of sort codes one or two checks, some with a numbered exception. A sort code that the table
does not list cannot be checked and passes, as the method says. The table that comes along, `modulus_weights.txt`, has
the ranges of the published examples; the setting `modulus_table` names a full one, which is published in this format.

The fourteen digits are called u v w x y z (sort code) and a b c d e f g h (account number).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

A, B, C, G, H = 6, 7, 8, 12, 13
FOREIGN = frozenset("45678")
UNCHECKED = frozenset({5})  # needs a second table of substitutions; its sort codes pass
EITHER = frozenset({2, 10, 12})  # first checks whose failure leaves it to the second

_EXCEPTION_2 = (0, 0, 1, 2, 5, 3, 6, 4, 8, 7, 10, 9, 3, 1)
_EXCEPTION_2_NINE = (0, 0, 0, 0, 0, 0, 0, 0, 8, 7, 10, 9, 3, 1)
_SUBSTITUTES = {8: "090126", 9: "309634"}


@dataclass(frozen=True, slots=True)
class Check:
    first: str
    last: str
    method: str  # MOD10, MOD11 or DBLAL
    weights: tuple[int, ...]
    exception: int


def is_valid(sort_code: str, account_number: str, table: Path | None = None) -> bool:
    """Whether the pair could exist."""
    checks = [check for check in _table(table) if check.first <= sort_code <= check.last]
    if not checks or any(check.exception in UNCHECKED for check in checks):
        return True
    first = checks[0]
    if first.exception == 6 and account_number[0] in FOREIGN and account_number[6] == account_number[7]:
        return True  # a foreign currency account, which has no check
    passed = _passes(first, sort_code, account_number)
    if not passed and first.exception == 14:
        passed = _fourteen(first, sort_code, account_number)
    if len(checks) == 1:
        return passed
    second = checks[1]
    if first.exception in EITHER:
        return passed or _passes(second, sort_code, account_number)
    if second.exception == 3 and account_number[2] in "69":
        return passed
    return passed and _passes(second, sort_code, account_number)


def _passes(check: Check, sort_code: str, account_number: str) -> bool:
    digits = _SUBSTITUTES.get(check.exception, sort_code) + account_number
    products = [int(digit) * weight for digit, weight in zip(digits, _weights(check, digits), strict=True)]
    if check.method == "DBLAL":
        total = sum(product // 10 + product % 10 for product in products) + (27 if check.exception == 1 else 0)
        return total % 10 == 0
    remainder = sum(products) % (10 if check.method == "MOD10" else 11)
    return remainder == (int(digits[G:]) if check.exception == 4 else 0)


def _weights(check: Check, digits: str) -> Sequence[int]:
    weights, nine = check.weights, digits[G] == "9"
    if check.exception == 2 and digits[A] != "0":
        return _EXCEPTION_2_NINE if nine else _EXCEPTION_2
    if nine and (check.exception == 7 or (check.exception == 10 and digits[A:C] in ("09", "99"))):
        return (0,) * C + weights[C:]
    return weights


def _fourteen(check: Check, sort_code: str, account_number: str) -> bool:
    """A number that ends in 0, 1 or 9 may be a shorter one: drop its end and look again."""
    return account_number[7] in "019" and _passes(replace(check, exception=0), sort_code, "0" + account_number[:7])


@lru_cache(maxsize=4)
def _table(path: Path | None) -> tuple[Check, ...]:
    text = path.read_text() if path else files(__package__).joinpath("modulus_weights.txt").read_text()
    return tuple(_check(line.split()) for line in text.splitlines() if line.strip())


def _check(columns: list[str]) -> Check:
    first, last, method, *numbers = columns
    weights = tuple(int(number) for number in numbers[:14])
    return Check(first, last, method, weights, int(numbers[14]) if len(numbers) > 14 else 0)
