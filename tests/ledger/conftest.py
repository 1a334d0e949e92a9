"""An empty ledger: these tests count every journal, so the sandbox's money is taken out of their databases."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from bursar.db.embedded import Urls

TABLES = "journal, wallet, wallet_entry, unsettled, drawn, seal"
SEQUENCES = ("journal_id", "wallet_id", "wallet_entry_id")


@pytest.fixture
def urls(urls: Urls) -> Urls:
    asyncio.run(empty_ledger(urls.owner))
    return urls


async def empty_ledger(owner_url: str) -> None:
    connection = await asyncpg.connect(owner_url)
    try:
        await connection.execute(f"TRUNCATE {TABLES}")
        for sequence in SEQUENCES:
            await connection.execute(f"ALTER SEQUENCE {sequence} RESTART")
    finally:
        await connection.close()
