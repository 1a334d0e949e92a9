"""Rows of lists as they were last shown: what has not changed since is neither read in full nor rendered again.

A versioned list is asked which rows are on a page, and which version of each. So the database says every
time what is current, whoever changed it; a process only remembers what that looks like.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from bursar.db import listing as listings
from bursar.db.listing import Listing
from bursar.db.pool import Record
from bursar.http.envelope import Page, encode
from bursar.http.schemas import PageQuery

if TYPE_CHECKING:
    from bursar.http.context import Ctx

LARGEST = 16 * 2**20  # bytes that a process remembers
_OVERHEAD = 400  # of each row: its key, its version and the places they take

# How rows look on the wire, in their order. It may use the account's number and public id, the settings, and what a
# row's version covers; whatever else it showed would not be seen to change.
Show: TypeAlias = "Callable[[Ctx, Sequence[Record]], Awaitable[Sequence[Any]]]"
_Key: TypeAlias = tuple[tuple[Show, int, str], int]


class Shown:
    """Rows by key, each in the version that was shown last. The half that was not asked for lately is dropped."""

    def __init__(self, largest: int = LARGEST) -> None:
        self._recent: dict[_Key, tuple[bytes, bytes]] = {}
        self._older: dict[_Key, tuple[bytes, bytes]] = {}
        self._half = largest // 2
        self._size = 0  # of the recent ones

    def get(self, key: _Key, version: bytes) -> bytes | None:
        known = self._recent.get(key)
        if known is None and (known := self._older.get(key)) is not None:
            self.put(key, *known)
        return known[1] if known is not None and known[0] == version else None

    def put(self, key: _Key, version: bytes, row: bytes) -> None:
        size = len(row) + _OVERHEAD
        if self._size + size > self._half:
            self._older, self._recent, self._size = self._recent, {}, 0
        self._recent[key] = (version, row)
        self._size += size


async def page(
    ctx: Ctx,
    listing: Listing,
    scope: Sequence[Any],
    query: PageQuery,
    show: Show,
    *,
    filters: Mapping[str, Any] | None = None,
    q: str | None = None,
) -> Page:
    """A page of a list. What is remembered helps where it is sorted by id and not searched."""
    ask = partial(
        listings.page, ctx.db, listing, scope, number=query.page, size=query.size, sort=query.sort, filters=filters, q=q
    )
    if ctx.shown is not None and listing.versioned and not q and query.sort in ("id", "-id"):
        found, total = await ask(versions=True)
        items = await _items(ctx, ctx.shown, listing, scope, show, {row["id"]: row["version"] for row in found})
        if items is not None:
            return Page(items, query.page, query.size, total)
    rows, total = await ask()
    return Page(await show(ctx, rows), query.page, query.size, total)


async def _items(
    ctx: Ctx, shown: Shown, listing: Listing, scope: Sequence[Any], show: Show, versions: Mapping[int, bytes]
) -> Sequence[Any] | None:
    """Rows in these versions, in this order; None when one that had to be read has changed meanwhile."""
    of = (show, ctx.account.account_id, ctx.account.public_id)
    items = {number: shown.get((of, number), version) for number, version in versions.items()}
    missing = [number for number, item in items.items() if item is None]
    if missing:
        rows = await listings.by_id(ctx.db, listing, scope, missing)
        if {row["id"]: row["version"] for row in rows} != {number: versions[number] for number in missing}:
            return None
        for row, item in zip(rows, await show(ctx, rows), strict=True):
            items[row["id"]] = rendered = encode(item)
            shown.put((of, row["id"]), row["version"], rendered)
    return [msgspec.Raw(item) for item in items.values() if item is not None]
