"""Events in the database, as those who may see them see them."""

from __future__ import annotations

from bursar.db import tallies
from bursar.db.listing import Listing
from bursar.db.pool import Queryable, Record

_FILTERS = {"type": "type = {}", "since": "created_at >= {}", "until": "created_at < {}"}
_SORTS = {"id": "event_id", "created_at": "event_id"}  # ids begin with the time

# An account sees what happened to it; a platform also what happened to the accounts connected to it.
OF_MERCHANT = Listing(
    select="SELECT event_id, created_at, body FROM event",
    scope="account_id = $1 AND audience <> 'platform'",
    id="event_id",
    sorts=_SORTS,
    filters=_FILTERS,
    total=tallies.EVENTS.total(),
)
OF_PLATFORM = Listing(
    # Its own and those it is told of: each half by its index, merged in their order.
    select="""
        SELECT event_id, created_at, body
        FROM (
            (SELECT * FROM event WHERE account_id = $1 AND audience <> 'platform' {order})
            UNION ALL
            (SELECT * FROM event WHERE platform_id = $1 AND audience IN ('both', 'platform') {order})
        ) AS event
    """,
    scope="true",
    id="event_id",
    sorts=_SORTS,
    filters=_FILTERS,
    total=f"{tallies.EVENTS.total()} + {tallies.EVENTS_TOLD.total()}",
)
# A platform that acts on a connected account sees what it would have been told of it.
OF_CONNECTED = Listing(
    select="SELECT event_id, created_at, body FROM event",
    scope="account_id = $1 AND platform_id = $2 AND audience IN ('both', 'platform')",
    id="event_id",
    sorts=_SORTS,
    filters=_FILTERS,
    total=tallies.EVENTS_SHARED.total("$1", "$2::bigint::text"),
)


async def find(db: Queryable, account_id: int, event_id: str) -> Record | None:
    """An event that the account, as itself or as a platform, may see."""
    return await db.fetchrow(
        """
        SELECT account_id, id, event_id, type, platform_id, audience, body, created_at
        FROM event
        WHERE account_id = $1 AND event_id = $2 AND audience <> 'platform'
        UNION ALL
        SELECT account_id, id, event_id, type, platform_id, audience, body, created_at
        FROM event
        WHERE platform_id = $1 AND event_id = $2 AND audience IN ('both', 'platform')
        LIMIT 1
        """,
        account_id,
        event_id,
    )


async def endpoints(db: Queryable, account_id: int) -> list[Record]:
    return await db.fetch(
        "SELECT * FROM webhook WHERE account_id = $1 AND status <> 'disabled' ORDER BY id", account_id
    )


async def events_after(
    db: Queryable, reader_id: int, account_id: int | None, event_id: str, limit: int
) -> list[Record]:
    """What a reader may see after an id, of one account or of all."""
    return await db.fetch(
        """
        SELECT * FROM (
            (SELECT event_id, type, body
             FROM event
             WHERE account_id = $1 AND event_id > $3 AND audience <> 'platform' AND account_id = coalesce($2, $1)
             ORDER BY event_id LIMIT $4)
            UNION ALL
            (SELECT event_id, type, body
             FROM event
             WHERE platform_id = $1 AND event_id > $3 AND audience IN ('both', 'platform')
               AND account_id = coalesce($2, account_id)
             ORDER BY event_id LIMIT $4)
        ) AS seen
        ORDER BY event_id
        LIMIT $4
        """,
        reader_id,
        account_id,
        event_id,
        limit,
    )


async def ipns_after(db: Queryable, reader_id: int, account_id: int | None, event_id: str, limit: int) -> list[Record]:
    """The IPNs that the reader's keys sign."""
    return await db.fetch(
        """
        SELECT event_id, type, url, amount, identifier, fields
        FROM ipn
        WHERE key_account_id = $1 AND event_id > $3 AND account_id = coalesce($2, account_id)
        ORDER BY event_id
        LIMIT $4
        """,
        reader_id,
        account_id,
        event_id,
        limit,
    )
