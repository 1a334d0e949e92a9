"""Webhooks in the database."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import cast

from bursar.db.listing import Listing
from bursar.db.pool import Queryable, Record
from bursar.events.fanout import webhook_place

WEBHOOKS = Listing(
    select="SELECT * FROM webhook", scope="account_id = $1", filters={"status": "status = {}"}, search=("url",)
)


async def next_id(db: Queryable) -> int:
    return cast("int", await db.fetchval("SELECT nextval('webhook_id')"))


async def count_under_lock(db: Queryable, account_id: int) -> int:
    """How many the account has, with its row locked so that two creations cannot both be the last."""
    await db.execute("SELECT 1 FROM account WHERE account_id = $1 FOR NO KEY UPDATE", account_id)
    return cast("int", await db.fetchval("SELECT count(*) FROM webhook WHERE account_id = $1", account_id))


async def insert(
    db: Queryable, account_id: int, webhook_id: int, url: str, events: Sequence[str], description: str, sealed: bytes,
    hint: str, include_additive: bool, ordered: bool, now: datetime,
) -> Record:  # fmt: skip
    row = await db.fetchrow(
        """
        INSERT INTO webhook
            (account_id, id, url, events, description, secret_sealed, secret_hint, include_additive, ordered,
             created_at, updated_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10)
        RETURNING *
        """,
        account_id, webhook_id, url, list(events), description, sealed, hint, include_additive, ordered, now,
    )  # fmt: skip
    assert row is not None
    await db.execute(
        "INSERT INTO destination (account_id, place) VALUES ($1, $2)", account_id, webhook_place(webhook_id)
    )
    return row


async def find(db: Queryable, account_id: int, webhook_id: int) -> Record | None:
    return await db.fetchrow("SELECT * FROM webhook WHERE account_id = $1 AND id = $2", account_id, webhook_id)


async def update(
    db: Queryable, account_id: int, webhook_id: int, url: str | None, events: Sequence[str] | None,
    description: str | None, include_additive: bool | None, ordered: bool | None, status: str | None, now: datetime,
) -> Record | None:  # fmt: skip
    return await db.fetchrow(
        """
        UPDATE webhook
        SET url = coalesce($3, url), events = coalesce($4, events), description = coalesce($5, description),
            include_additive = coalesce($6, include_additive), ordered = coalesce($7, ordered),
            status = coalesce($8, status), updated_at = $9,
            disabled_reason = CASE WHEN $8 IS NULL THEN disabled_reason END,
            disabled_at = CASE WHEN $8 IS NULL THEN disabled_at END
        WHERE account_id = $1 AND id = $2
        RETURNING *
        """,
        account_id, webhook_id, url, list(events) if events is not None else None, description, include_additive,
        ordered, status, now,
    )  # fmt: skip


async def open_destination(db: Queryable, account_id: int, webhook_id: int, *, paused: bool) -> None:
    """Pauses or resumes what goes to a webhook; one that is resumed is believed to be well again."""
    await db.execute(
        """
        UPDATE destination
        SET paused = $3,
            failing_since = CASE WHEN $3 THEN failing_since END,
            last_failure_at = CASE WHEN $3 THEN last_failure_at END
        WHERE account_id = $1 AND place = $2
        """,
        account_id,
        webhook_place(webhook_id),
        paused,
    )


async def disable(db: Queryable, account_id: int, webhook_id: int, reason: str, now: datetime) -> Record | None:
    """The webhook, if it was not disabled yet."""
    return await db.fetchrow(
        """
        UPDATE webhook
        SET status = 'disabled', disabled_reason = $3, disabled_at = $4, updated_at = $4
        WHERE account_id = $1 AND id = $2 AND status <> 'disabled'
        RETURNING *
        """,
        account_id,
        webhook_id,
        reason,
        now,
    )


async def insert_replay(
    db: Queryable, account_id: int, webhook_id: int, types: Sequence[str], since: datetime, until: datetime,
    now: datetime,
) -> Record:  # fmt: skip
    row = await db.fetchrow(
        """
        INSERT INTO replay (account_id, id, webhook_id, types, since, until, created_at)
        VALUES ($1, nextval('replay_id'), $2, $3, $4, $5, $6)
        RETURNING *
        """,
        account_id, webhook_id, list(types), since, until, now,
    )  # fmt: skip
    assert row is not None
    return row


async def find_replay(db: Queryable, account_id: int, replay_id: int) -> Record | None:
    return await db.fetchrow("SELECT * FROM replay WHERE account_id = $1 AND id = $2", account_id, replay_id)


async def lock_running_replay(db: Queryable) -> Record | None:
    """The oldest replay that is not done, for this transaction alone."""
    return await db.fetchrow(
        """
        SELECT *
        FROM replay
        WHERE (account_id, id) = (SELECT account_id, id FROM replay WHERE status = 'running' ORDER BY id LIMIT 1)
          AND status = 'running'
        FOR NO KEY UPDATE
        """
    )


async def events_to_replay(db: Queryable, replay: Record, limit: int) -> list[Record]:
    """The next events of a replay's period that the webhook's account may see, by id."""
    return await db.fetch(
        """
        SELECT * FROM (
            (SELECT account_id, id, event_id, type, platform_id, audience, created_at
             FROM event
             WHERE account_id = $1 AND event_id > $2 AND audience IN ('both', 'account')
               AND created_at BETWEEN $3 AND $4
             ORDER BY event_id LIMIT $5)
            UNION ALL
            (SELECT account_id, id, event_id, type, platform_id, audience, created_at
             FROM event
             WHERE platform_id = $1 AND event_id > $2 AND audience IN ('both', 'platform')
               AND created_at BETWEEN $3 AND $4
             ORDER BY event_id LIMIT $5)
        ) AS seen
        ORDER BY event_id
        LIMIT $5
        """,
        replay["account_id"], replay["reached"], replay["since"], replay["until"], limit,
    )  # fmt: skip


async def advance_replay(db: Queryable, replay: Record, reached: str, made: int, *, done: bool) -> None:
    await db.execute(
        """
        UPDATE replay
        SET reached = $3, events = events + $4, status = CASE WHEN $5 THEN 'done' ELSE status END
        WHERE account_id = $1 AND id = $2
        """,
        replay["account_id"], replay["id"], reached, made, done,
    )  # fmt: skip


async def replace_secret(
    db: Queryable, account_id: int, webhook_id: int, sealed: bytes, hint: str, previous_until: datetime, now: datetime
) -> Record | None:
    return await db.fetchrow(
        """
        UPDATE webhook
        SET previous_sealed = secret_sealed, previous_until = $5, secret_sealed = $3, secret_hint = $4, updated_at = $6
        WHERE account_id = $1 AND id = $2
        RETURNING *
        """,
        account_id, webhook_id, sealed, hint, previous_until, now,
    )  # fmt: skip


async def delete(db: Queryable, account_id: int, webhook_id: int) -> bool:
    done = await db.execute("DELETE FROM webhook WHERE account_id = $1 AND id = $2", account_id, webhook_id)
    return done == "DELETE 1"
