"""Acting once. Notifications repeat, and arrive late and out of order; an order is fulfilled once, and stays paid.

The guard is a small SQLite file: what it answered is on disk before it answers.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path


class Step(Enum):
    """What to do about an update."""

    FULFIL = "the order is paid now, for the first time: fulfil it"
    RECORD = "an attempt failed: note it, and keep waiting for the same order"
    IGNORE = "seen before, or older than what is known: acknowledge it, and do nothing"


class OrderGuard:
    def __init__(self, path: str | Path) -> None:
        self._path = str(path)
        with self._open() as db:
            db.execute("CREATE TABLE IF NOT EXISTS seen (channel_event TEXT PRIMARY KEY)")
            db.execute("CREATE TABLE IF NOT EXISTS paid (order_reference TEXT PRIMARY KEY)")

    def apply(self, order: str | None, event_id: str, outcome: str | None) -> Step:
        """Takes note of an update of an order (`outcome`: success or failed), and says what to do about it."""
        if order is None or outcome is None:
            return Step.IGNORE
        with self._open() as db:
            db.execute("BEGIN IMMEDIATE")
            new = db.execute("INSERT OR IGNORE INTO seen VALUES (?)", (f"{outcome}:{event_id}",)).rowcount
            if outcome == "success":
                first = db.execute("INSERT OR IGNORE INTO paid VALUES (?)", (order,)).rowcount
                return Step.FULFIL if first else Step.IGNORE
            paid = db.execute("SELECT 1 FROM paid WHERE order_reference = ?", (order,)).fetchone()
            return Step.RECORD if new and not paid else Step.IGNORE

    def is_paid(self, order: str) -> bool:
        with self._open() as db:
            return db.execute("SELECT 1 FROM paid WHERE order_reference = ?", (order,)).fetchone() is not None

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """A connection for one call, so that threads and processes can share the file."""
        db = sqlite3.connect(self._path, timeout=30)
        try:
            with db:
                yield db
        finally:
            db.close()
