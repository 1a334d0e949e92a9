"""Lists that callers page, filter and sort. SQL is put together here, and only from declared pieces.

A page knows its list's total, by a tally where the list may be long; a cursor reads on by id and counts nothing.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any

from bursar.core.calendar import london_day_bounds
from bursar.core.errors import InvalidCursor, ValidationFailed
from bursar.db.pool import Queryable, Record

# What differs whenever a row does. The transaction that wrote it would do, but that its number may come again: after a
# failover that lost it, or when the numbers have gone round.
VERSION = "xidsend(xmin) || timestamptz_send(updated_at) AS version"
DEEP = 500  # rows to pass over, from which on it is worth not to look at them


@dataclass(frozen=True, slots=True)
class Listing:
    """What may be asked of a list. Filters are conditions with one `{}` for their value."""

    select: str  # SELECT … FROM …, without a condition; `{order}` where a part of it must be in the order asked for
    scope: str  # the condition that bounds it, with $1, $2, … for the values given as `scope`
    id: str = "id"
    sorts: Mapping[str, str] = field(default_factory=lambda: {"id": "id", "created_at": "created_at"})
    filters: Mapping[str, str] = field(default_factory=dict)
    search: tuple[str, ...] = ()  # columns that `q` looks into, for any part of them
    search_newest: int | None = None  # … of so many of the newest rows, where there may be too many to look into
    named: tuple[str, ...] = ()  # then also: conditions for what `q` names in full, each with an index
    number_of: Callable[[str], int | None] = lambda _: None  # … and the id that `q` stands for
    total: str | None = None  # how many rows the scope has, as an expression, where that need not be counted
    versioned: str | None = None  # the table, if a row's version covers all that the list shows of it


@dataclass(slots=True)
class _Conditions:
    parts: list[str]
    values: list[Any]

    def add(self, condition: str, value: Any) -> None:
        self.values.append(value)
        self.parts.append(condition.replace("{}", f"${len(self.values)}"))

    @property
    def sql(self) -> str:
        return " AND ".join(self.parts)


def _conditions(listing: Listing, scope: Sequence[Any], filters: Mapping[str, Any], q: str | None) -> _Conditions:
    conditions = _Conditions([listing.scope], list(scope))
    for name, value in filters.items():
        if value is not None:
            conditions.add(listing.filters[name], value)
    if q:
        _search(listing, conditions, q)
    return conditions


def _search(listing: Listing, conditions: _Conditions, q: str) -> None:
    pattern = "%" + re.sub(r"([\\%_])", r"\\\1", q) + "%"
    contains = "(" + " OR ".join(f"{column} ILIKE {{}}" for column in listing.search) + ")"
    if listing.search_newest is None:
        conditions.add(contains, pattern)
        return
    rows = f"{listing.select} WHERE {listing.scope}"
    newest = f"({rows} ORDER BY {listing.id} DESC LIMIT {listing.search_newest})"
    ways = _Conditions([], conditions.values)
    ways.add(f"SELECT {listing.id} FROM {newest} AS newest WHERE {contains}", pattern)  # noqa: S608 - declared pieces
    for condition in listing.named:
        ways.add(f"SELECT {listing.id} FROM ({rows} AND {condition}) AS named", q)  # noqa: S608
    if (number := listing.number_of(q)) is not None:
        ways.add("SELECT {}::bigint", number)
    conditions.parts.append(f"{listing.id} IN ({' UNION ALL '.join(ways.parts)})")


async def page(
    db: Queryable,
    listing: Listing,
    scope: Sequence[Any],
    *,
    number: int,
    size: int,
    sort: str,
    filters: Mapping[str, Any] | None = None,
    q: str | None = None,
    versions: bool = False,
) -> tuple[list[Record], int]:
    """The rows of one page, or only their ids and versions, and how many there are in all."""
    conditions = _conditions(listing, scope, filters or {}, q)
    offset = (number - 1) * size
    order, part = _order(listing, sort), f"LIMIT {size} OFFSET {offset}"
    if versions:
        select = f"SELECT {listing.id}, {VERSION} FROM {listing.versioned}"  # noqa: S608 - declared pieces
    else:
        select = listing.select.replace("{order}", f"ORDER BY {order}")
    query = f"{select} WHERE {conditions.sql} ORDER BY {order} {part}"
    # The planner may be wrong about where in their order few rows are; then they are found first, and sorted.
    few = _lies_back(filters or {}, sort) or (q is not None and listing.search_newest is not None)
    if few or offset >= DEEP:
        # First which rows, by an index alone where there is one for it: what is passed over is not looked at.
        found = f"({select} WHERE {conditions.sql} {'OFFSET 0' if few else ''}) AS found"
        ids = f"SELECT {_bare(listing.id)} FROM {found} ORDER BY {_bare(order)} {part}"  # noqa: S608 - declared pieces
        query = f"{select} WHERE {listing.scope} AND {listing.id} IN ({ids}) ORDER BY {order}"
    tallied = listing.total is not None and len(conditions.parts) == 1
    if tallied:  # with the rows: a second statement would cost as much as the first
        query = f"SELECT page.*, {listing.total} AS in_all FROM ({query}) AS page"  # noqa: S608 - declared pieces
    rows = await db.fetch(query, *conditions.values)
    if len(rows) < size and (rows or number == 1):
        return rows, offset + len(rows)
    if tallied:
        return rows, rows[0]["in_all"] if rows else await db.fetchval(f"SELECT {listing.total}", *scope)
    every = f"{listing.select.replace('{order}', '')} WHERE {conditions.sql}"
    total = await db.fetchval(f"SELECT count(*) FROM ({every}) AS counted", *conditions.values)  # noqa: S608 - declared
    return rows, total


async def by_id(db: Queryable, listing: Listing, scope: Sequence[Any], numbers: Sequence[int]) -> list[Record]:
    """Rows of a versioned list by their ids, each with its version, in no order."""
    conditions = _Conditions([listing.scope], list(scope))
    conditions.add(f"{listing.id} = ANY({{}}::bigint[])", list(numbers))
    select = listing.select.replace(" FROM ", f", {VERSION} FROM ", 1)
    return await db.fetch(f"{select} WHERE {conditions.sql}", *conditions.values)


def _lies_back(filters: Mapping[str, Any], sort: str) -> bool:
    """Whether a list by id is of a period that others follow in that order.

    The planner, to whom times and ids are unrelated, would look for its rows one by one, from the wrong end.
    """
    if sort == "-id":
        until = filters.get("until")
        return until is not None and until <= datetime.now(UTC)
    return sort == "id" and filters.get("since") is not None


def _bare(columns: str) -> str:
    """Columns as they are called outside the query that has them from its tables."""
    return re.sub(r"\b[a-z]+\.", "", columns)


def _order(listing: Listing, sort: str) -> str:
    name = sort.removeprefix("-")
    if name not in listing.sorts:
        known = ", ".join(sorted(listing.sorts))
        raise ValidationFailed(details={"sort": [f"must be one of {known}, with a leading minus to descend"]})
    direction = "DESC" if sort.startswith("-") else "ASC"
    column = listing.sorts[name]
    return f"{column} {direction}" if column == listing.id else f"{column} {direction}, {listing.id} {direction}"


async def read_on(
    db: Queryable,
    listing: Listing,
    scope: Sequence[Any],
    *,
    after: str | None,
    limit: int,
    filters: Mapping[str, Any] | None = None,
    opaque: bool = True,
) -> tuple[list[Record], str | None]:
    """Rows in the order of their ids after a cursor, and the cursor to read on from."""
    conditions = _conditions(listing, scope, filters or {}, None)
    if after is not None:
        conditions.add(f"{listing.id} > {{}}", decode_cursor(after, opaque=opaque))
    rows = await db.fetch(
        f"{listing.select} WHERE {conditions.sql} ORDER BY {listing.id} LIMIT {limit + 1}", *conditions.values
    )
    if len(rows) <= limit:
        return rows, None
    rows = rows[:limit]
    last = int(rows[-1][listing.id.rpartition(".")[2]])
    return rows, encode_cursor(last, opaque=opaque)


def encode_cursor(last_id: int, *, opaque: bool = True) -> str:
    if not opaque:
        return str(last_id)
    return base64.urlsafe_b64encode(b"after:%d" % last_id).decode().rstrip("=")


def decode_cursor(cursor: str, *, opaque: bool = True) -> int:
    text = cursor
    if opaque:
        try:
            text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode()
        except (binascii.Error, ValueError):
            raise InvalidCursor from None
        if not text.startswith("after:"):
            raise InvalidCursor
    digits = text.removeprefix("after:") if opaque else text
    if not re.fullmatch(r"[0-9]{1,18}", digits, re.ASCII):
        raise InvalidCursor
    return int(digits)


def since(value: date | datetime | None) -> datetime | None:
    """The first moment that `from` includes: a day is a London day."""
    if value is None or isinstance(value, datetime):
        return value
    return london_day_bounds(value)[0]


def until(value: date | datetime | None) -> datetime | None:
    """The first moment that `to` no longer includes."""
    if value is None:
        return None
    if isinstance(value, datetime):
        return value + timedelta(microseconds=1)
    return london_day_bounds(value)[1]
