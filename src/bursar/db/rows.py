"""Many rows in one INSERT, from one array per column."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


def plain_array(values: Iterable[int | str]) -> str:
    """A long array as PostgreSQL writes it, for `$1::text::bigint[]`: asyncpg takes longer over each element of a list
    than PostgreSQL over its digits. Of numbers and our own words alone; nothing is quoted.
    """
    return f"{{{','.join(map(str, values))}}}"


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """A table's columns that are given, with their types, and those that follow from them, each an expression."""

    table: str
    given: Mapping[str, str]
    derived: Mapping[str, str] = field(default_factory=dict)
    order: str = "n"  # of insertion; `n` is the order in which they are given
    unless: str = ""  # ON CONFLICT …, for those that are left out

    def insert(self, first: int = 1, after: str = "") -> str:
        """The statement, with its parameters from `$first` on; `after` is something that must come before it."""
        columns, arrays = ", ".join(self.given), []
        for position, type_ in enumerate(self.given.values(), first):
            arrays.append(f"${position}::{type_}[]")
        source = f"unnest({', '.join(arrays)}) WITH ORDINALITY AS new ({columns}, n)"
        return (
            f"INSERT INTO {self.table} ({', '.join((*self.given, *self.derived))})\n"
            f"SELECT {', '.join((*self.given, *self.derived.values()))}\n"
            f"FROM {f'{after} CROSS JOIN ' if after else ''}{source}\n"
            f"ORDER BY {self.order}\n{self.unless}"
        )

    def arrays(self, rows: Sequence[Mapping[str, Any]]) -> list[list[Any]]:
        return [[row[name] for row in rows] for name in self.given]
