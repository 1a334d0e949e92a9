"""Uploads in the database."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import cast

from bursar.db.pool import Queryable, Record


async def next_id(db: Queryable) -> int:
    return cast("int", await db.fetchval("SELECT nextval('upload_id')"))


async def insert(
    db: Queryable, account_id: int, upload_id: int, *, purpose: str, subject: str, name: str, mime: str, size: int,
    sha256: bytes, chunks: int, salt: bytes, key_version: int, now: datetime,
) -> None:  # fmt: skip
    await db.execute(
        """
        INSERT INTO upload
            (account_id, id, purpose, subject, name, mime, size, sha256, chunks, salt, key_version, created_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
        """,
        account_id, upload_id, purpose, subject, name, mime, size, sha256, chunks, salt, key_version, now,
    )  # fmt: skip


async def of_subjects(db: Queryable, account_id: int, subjects: Sequence[str]) -> list[Record]:
    """The files of some objects of one account."""
    return await db.fetch(
        """
        SELECT id, subject, name, mime, size
        FROM upload
        WHERE account_id = $1 AND subject = ANY($2::text[])
        ORDER BY id
        """,
        account_id,
        list(subjects),
    )


async def find_anywhere(db: Queryable, upload_id: int) -> Record | None:
    """For staff, who are not bound to an account."""
    return await db.fetchrow("SELECT * FROM upload WHERE id = $1", upload_id)
