"""Doors in the tests' own routes: a request stops at one until the test lets it on, so that no test has to guess how
long something takes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.support.service import new_key


@dataclass
class Door:
    name: str
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    opened: asyncio.Event = field(default_factory=asyncio.Event)


_DOORS: dict[str, Door] = {}


@contextmanager
def closed_door() -> Iterator[Door]:
    """Whoever is sent to it waits until it is opened, at the latest at the end of this block."""
    door = Door(new_key())
    _DOORS[door.name] = door
    try:
        yield door
    finally:
        door.opened.set()
        del _DOORS[door.name]


async def pass_door(name: str) -> None:
    if (door := _DOORS.get(name)) is not None:
        door.reached.set()
        await door.opened.wait()
