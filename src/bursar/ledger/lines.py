"""Journals and their lines, as values. A line says how much and by which policy; what it draws on, or goes back to,
is decided where the wallets are locked.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final, Literal

import msgspec

from bursar.ledger.kinds import KINDS, SERVICE_ACCOUNTS

Op = Literal["service", "credit", "draw", "hold", "release", "settle"]

# How an amount is drawn: from main alone; from the source's own unsettled part, then main; from main, then the parts
# that settle soonest; from the parts that settle soonest, then main; from the part that the same journal opens for the
# source, then main.
Draw = Literal["main", "own", "oldest", "pending", "opened"]

# What each line adds to its wallet as a whole. A hold or a settlement stays within the wallet.
_SIGN: Final[dict[Op, int]] = {"service": 1, "credit": 1, "draw": -1, "hold": 0, "release": 0, "settle": 0}


class Line(msgspec.Struct, frozen=True):
    op: Op
    kind: str  # of the wallet entry; for the service's own accounts, the account
    amount: int  # positive; signed for the service's own accounts; 0 for settle, which takes what is left
    account_id: int = 0  # whose wallet
    via: str = ""
    source: str = ""
    settles_at: datetime | None = None


class Journal(msgspec.Struct, frozen=True):
    """One balanced movement. (account_id, kind, ref) is its natural key: the same fact twice is one posting."""

    account_id: int
    kind: str
    ref: str
    currency: str
    related: str  # type:id of the business object
    lines: tuple[Line, ...]
    note: str = ""
    event_at: datetime | None = None

    def __post_init__(self) -> None:
        total = 0
        for line in self.lines:
            total += _SIGN[line.op] * line.amount
            names = SERVICE_ACCOUNTS if line.op == "service" else KINDS
            if line.kind not in names:
                raise ValueError(f"journal {self.key} has a line of an unknown kind: {line.kind}")
            if line.op not in ("service", "settle") and not (line.amount > 0 < line.account_id):
                raise ValueError(f"journal {self.key} has a line without an amount or a wallet")
        if total:
            raise ValueError(f"journal {self.key} does not balance")
        if not self.lines:
            raise ValueError(f"journal {self.key} moves nothing")

    @property
    def key(self) -> tuple[int, str, str]:
        return self.account_id, self.kind, self.ref


def journal(
    account_id: int,
    kind: str,
    ref: int | str,
    currency: str,
    lines: Iterable[Line],
    *,
    related: str,
    note: str = "",
    event_at: datetime | None = None,
) -> Journal:
    """A journal of the lines that move something: a fee of nothing leaves no trace."""
    moving = tuple(line for line in lines if line.amount or line.op == "settle")
    return Journal(account_id, kind, str(ref), currency, related, moving, note, event_at)


def service(account: str, amount: int) -> Line:
    """A leg of one of the service's own accounts; positive is a credit."""
    return Line("service", account, amount)


def credit(account_id: int, kind: str, amount: int) -> Line:
    """Money at once."""
    return Line("credit", kind, amount, account_id, "main")


def credit_unsettled(account_id: int, kind: str, amount: int, source: str, settles_at: datetime | None) -> Line:
    """Money that settles later, as a part of its own; without a date, money at once."""
    if settles_at is None:
        return credit(account_id, kind, amount)
    return Line("credit", kind, amount, account_id, "new", source, settles_at)


def credit_own(account_id: int, kind: str, amount: int, source: str) -> Line:
    """Money of a source: into its unsettled part, or to main if that has settled."""
    return Line("credit", kind, amount, account_id, "own", source)


def credit_back(account_id: int, kind: str, amount: int) -> Line:
    """Money that the journal's business object had drawn, to where it came from."""
    return Line("credit", kind, amount, account_id, "back")


def draw(account_id: int, kind: str, amount: int, via: Draw, source: str = "") -> Line:
    return Line("draw", kind, amount, account_id, via, source)


def hold(account_id: int, kind: str, amount: int, via: Draw, source: str = "") -> Line:
    """Money set aside for the journal's business object."""
    return Line("hold", kind, amount, account_id, via, source)


def release(account_id: int, kind: str, amount: int) -> Line:
    """Money set aside for the journal's business object, back to where it came from."""
    return Line("release", kind, amount, account_id, "back")


def release_to_spend(account_id: int, kind: str, amount: int) -> Line:
    """Money set aside, to main: for a journal that draws it from there at once."""
    return Line("release", kind, amount, account_id, "main")


def settle(account_id: int, source: str) -> Line:
    """Whatever is left of the source's unsettled part, to main."""
    return Line("settle", "settlement", 0, account_id, "own", source)
