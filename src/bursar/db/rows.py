"""Many rows in one INSERT, from one array of rows.

Each is a tuple of a composite type of the database, which costs both sides half of what an array per column does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """A table's columns that are given, and those that follow from them, each an expression.

    The given ones are the attributes of the type `new_<table>`, in its order; a test holds the two together.
    """

    table: str
    given: tuple[str, ...]
    derived: Mapping[str, str] = field(default_factory=dict)
    order: str = "place"  # of insertion; `place` is the order in which they are given
    unless: str = ""  # ON CONFLICT …, for those that are left out
    row: Callable[[Mapping[str, Any]], tuple[Any, ...]] = field(init=False)  # from its columns by name

    def __post_init__(self) -> None:
        object.__setattr__(self, "row", itemgetter(*self.given))

    def insert(self, parameter: int = 1, after: str = "") -> str:
        """The statement, whose rows are `$parameter`; `after` is something that must come before it."""
        source = f"unnest(${parameter}::new_{self.table}[]) WITH ORDINALITY AS new ({', '.join(self.given)}, place)"
        return (
            f"INSERT INTO {self.table} ({', '.join((*self.given, *self.derived))})\n"
            f"SELECT {', '.join((*self.given, *self.derived.values()))}\n"
            f"FROM {f'{after} CROSS JOIN ' if after else ''}{source}\n"
            f"ORDER BY {self.order}\n{self.unless}"
        )
