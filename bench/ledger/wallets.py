"""The wallets that payments are posted on: 5,000 shops and 5,000 platforms, and one platform for hot runs."""

from __future__ import annotations

from importlib.resources import files

from bench.stage import Stage
from bursar.db.pool import Database
from bursar.ledger import journals
from bursar.ledger.post import post

SHOPS = range(1_000_001, 1_005_001)
PLATFORMS = range(1_005_001, 1_010_001)
HOT_PLATFORM = 1_010_001
PEERS = ("by_hand.sql", "account_rows.sql")


async def open_wallets(staged: Stage, owners: list[int]) -> None:
    """Each with a first entry, and the peers' tables, so that nobody's first payment counts more than the others."""
    db = await Database.open(staged.urls.service, size=1)
    opening = [
        journals.adjustment(account_id=owner, adjustment_id=owner, currency="GBP", amount=1_000_000) for owner in owners
    ]
    for start in range(0, len(opening), 500):
        await post(db, opening[start : start + 500])
    await db.close()
    connection = await staged.connect()
    for name in PEERS:
        await connection.execute(files("bench.ledger").joinpath(name).read_text())
    await connection.close()
