"""Keeping files and reading them back."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence

from bursar.db.pool import Queryable, Record
from bursar.features.uploads import queries
from bursar.features.uploads.inspection import Inspected
from bursar.features.uploads.schemas import Document
from bursar.features.uploads.store import KEY_VERSION, DatabaseStore, Store
from bursar.http.context import Ctx
from bursar.settings import Settings


def store_of(settings: Settings) -> Store:
    return DatabaseStore(settings.file_key)


async def keep(ctx: Ctx, account_id: int, file: Inspected, *, purpose: str, subject: str) -> Document:
    """Stores an inspected file in the caller's transaction. `subject` is type:id of what it belongs to."""
    upload_id = await queries.next_id(ctx.db)
    salt, chunks = await store_of(ctx.settings).put(ctx.db, account_id, upload_id, file.content)
    await queries.insert(
        ctx.db, account_id, upload_id, purpose=purpose, subject=subject, name=file.name, mime=file.mime,
        size=len(file.content), sha256=hashlib.sha256(file.content).digest(), chunks=chunks, salt=salt,
        key_version=KEY_VERSION, now=ctx.now,
    )  # fmt: skip
    return Document(upload_id, file.name, file.mime, len(file.content))


async def documents_of(db: Queryable, account_id: int, subjects: Sequence[str]) -> dict[str, list[Document]]:
    """The files of each of these objects."""
    found: dict[str, list[Document]] = defaultdict(list)
    if subjects:
        for row in await queries.of_subjects(db, account_id, subjects):
            found[row["subject"]].append(Document(row["id"], row["name"], row["mime"], row["size"]))
    return found


async def content(db: Queryable, settings: Settings, row: Record) -> bytes:
    return await store_of(settings).get(db, row["account_id"], row["id"], row["salt"], row["chunks"])
