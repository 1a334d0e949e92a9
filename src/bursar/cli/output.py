"""What commands print: calm tables for people, exact JSON for scripts."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bursar.cli.client import Reply

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

WIDE = 240  # where nobody's terminal sets the width


def console() -> Console:
    from rich.console import Console

    return Console(highlight=False, soft_wrap=False, width=None if sys.stdout.isatty() else WIDE)


def say(line: str) -> None:
    console().print(line, markup=False, soft_wrap=True)


def json(raw: bytes) -> None:
    import msgspec

    sys.stdout.write(msgspec.json.format(raw, indent=2).decode() + "\n")


def encoded(value: Any) -> bytes:
    import msgspec

    return msgspec.json.encode(value)


def record(values: Mapping[str, Any]) -> None:
    """One thing: a line per field."""
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in values.items():
        table.add_row(name, shown(value))
    _print(table)


def rows(columns: Sequence[str], entries: Iterable[Mapping[str, Any]]) -> None:
    """Many things: a line each."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for name in columns:
        table.add_column(name, overflow="fold")
    for entry in entries:
        table.add_row(*(shown(entry.get(name)) for name in columns))
    _print(table)


def _print(table: Table) -> None:
    """Without the blanks that a table pads its lines and its edges with."""
    target = console()
    with target.capture() as drawn:
        target.print(table)
    lines = [line.rstrip() for line in drawn.get().splitlines()]
    sys.stdout.write("\n".join(line for line in lines if line) + "\n")


def page(reply: Reply, columns: Sequence[str], empty: str) -> None:
    """A page of a list, and how much more there is."""
    if not reply.data:
        say(empty)
        return
    rows(columns, reply.data)
    paging = reply.meta.get("pagination", {})
    if paging.get("last_page", 1) > 1:
        say(f"Page {paging['current_page']} of {paging['last_page']}, {paging['total']} in all.")


def shown(value: Any) -> str:
    from rich.markup import escape

    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return escape(", ".join(f"{name}={shown(entry)}" for name, entry in value.items()))
    if isinstance(value, list | tuple):
        return escape(", ".join(shown(entry) for entry in value))
    return escape(str(value))
