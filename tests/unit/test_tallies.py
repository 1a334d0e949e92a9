"""Tallies: a list's total is what counting its rows would say, at every moment, whoever writes, deletes or dies."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from bursar.db import tallies
from bursar.db.embedded import Urls
from bursar.db.listing import Listing, page
from bursar.db.pool import Database
from bursar.features.accounts.connected_queries import CONNECTED
from bursar.features.accounts.queries import ACCOUNTS
from bursar.features.compliance.queries import ALL_REQUESTS
from bursar.features.deliveries.queries import DELIVERIES
from bursar.features.events.queries import OF_CONNECTED, OF_MERCHANT, OF_PLATFORM
from bursar.features.identity.queries import ALL_LINKS
from bursar.features.operator.routes import AUDIT
from bursar.features.payment_links.queries import LINKS
from bursar.features.payments.queries import HOSTED, TRANSACTIONS
from bursar.features.support.queries import ALL_TICKETS
from bursar.features.wallets.queries import ROWS
from bursar.ledger import audit, journals
from bursar.ledger.lines import Journal
from bursar.ledger.post import post

pytestmark = pytest.mark.asyncio

SHOP = 1
# Every list with a tally, and whose: the sandbox's merchant, its platform, and the merchant connected to that.
LISTS: list[tuple[str, Listing, tuple[int, ...]]] = [
    ("transactions", TRANSACTIONS, (1,)),
    ("hosted", HOSTED, (1,)),
    ("payment_links", LINKS, (1,)),
    ("wallet_rows", ROWS, (1,)),
    ("deliveries", DELIVERIES, (1,)),
    ("events", OF_MERCHANT, (1,)),
    ("events_told", OF_PLATFORM, (2,)),
    ("events_shared", OF_CONNECTED, (3, 2)),
    ("connected_accounts", CONNECTED, (2,)),
    ("all_accounts", ACCOUNTS, ()),
    ("all_verification_links", ALL_LINKS, ()),
    ("all_compliance_requests", ALL_REQUESTS, ()),
    ("all_tickets", ALL_TICKETS, ()),
    ("audit_trail", AUDIT, ()),
]


@pytest_asyncio.fixture
async def owner(urls: Urls) -> AsyncIterator[asyncpg.Connection[Any]]:
    connection = await asyncpg.connect(urls.owner)
    yield connection
    await connection.close()


async def _copies(owner: asyncpg.Connection[Any], table: str, first: int, **values: str) -> None:
    """A hundred copies of each of the table's rows, or of their accounts, with other ids."""
    pairs = ", ".join(f"'{name}', {expression}" for name, expression in values.items())
    await owner.execute(
        f"""
        INSERT INTO {table}
        SELECT (jsonb_populate_record(NULL::{table}, to_jsonb(t) || jsonb_build_object({pairs}))).*
        FROM (SELECT t.*, $1 + row_number() OVER () AS new FROM {table} AS t CROSS JOIN generate_series(1, 100)) AS t
        """,
        first,
    )


async def _told(db: Database | asyncpg.Connection[Any], listing: Listing, scope: tuple[int, ...]) -> tuple[int, int]:
    """The total that a page tells, and the number of rows, by one statement."""
    rows = f"{listing.select.replace('{order}', '')} WHERE {listing.scope}"
    row = await db.fetchrow(
        f"SELECT {listing.total} AS told, (SELECT count(*) FROM ({rows}) AS listed) AS there", *scope
    )
    assert row is not None
    return row["told"], row["there"]


async def _fill(owner: asyncpg.Connection[Any], db: Database) -> None:
    """Hundreds of rows for every list."""
    await _copies(owner, "account", 5000, account_id="new", public_id="'acc' || new")
    await _copies(owner, "payment", 10**6, id="new", identifier="'order-' || new")
    await _copies(owner, "payment_link", 10**6, id="new")
    await _copies(owner, "event", 10**6, id="new", event_id="'evt_' || new")
    await _copies(owner, "delivery", 10**6, id="new", event_id="'evt_' || new")
    for table in ("verification_link", "compliance_request", "support_ticket"):
        await _copies(owner, table, 10**6, id="new", account_id="5001 + new % 100")
    await owner.execute(
        """
        INSERT INTO operator_audit (account_id, id, actor, break_glass, action, target, status, request_id, at)
        SELECT 0, nextval('operator_audit_id'), 'test', false, 'test', 'test', 200, 'req', now()
        FROM generate_series(1, 500)
        """
    )
    await post(db, [_payment(number) for number in range(100)])


def _payment(number: int, account_id: int = SHOP, currency: str = "GBP") -> Journal:
    return journals.payment(
        account_id=account_id, transaction_id=number, currency=currency, amount=1_000, processing_fee=30,
        settles_at=None,
    )  # fmt: skip


class TestTotals:
    async def test_are_exact_before_and_after_counting(self, owner: asyncpg.Connection[Any], db: Database) -> None:
        await _fill(owner, db)
        before = {name: await _told(db, listing, scope) for name, listing, scope in LISTS}
        assert {name: told - there for name, (told, there) in before.items()} == {name: 0 for name, _, _ in LISTS}
        while await tallies.count_all(db, least=1):
            pass
        counted = {row["list"] for row in await db.fetch("SELECT DISTINCT list FROM tally WHERE n > 0")}
        assert counted == {tally.list for tally in tallies.TALLIES}
        assert {name: await _told(db, listing, scope) for name, listing, scope in LISTS} == before
        await owner.execute("DELETE FROM payment WHERE account_id = 1")  # a page does not count what was counted
        _, total = await page(db, TRANSACTIONS, (1,), number=2, size=25, sort="-id")
        assert total == before["transactions"][0]

    async def test_of_short_lists_have_no_tally(self, owner: asyncpg.Connection[Any], db: Database) -> None:
        await _fill(owner, db)
        while await tallies.count_all(db, least=501):
            pass
        long = {(row["list"], row["account_id"]) for row in await db.fetch("SELECT list, account_id FROM tally")}
        assert ("transactions", 1) in long
        assert ("payment_links", 1) not in long

    async def test_ignore_filters_that_are_not_given(self, owner: asyncpg.Connection[Any], db: Database) -> None:
        await _fill(owner, db)
        filters = {"status": None, "since": None, "until": None}
        _, total = await page(db, TRANSACTIONS, (1,), number=1, size=5, sort="-id", filters=filters)
        _, failed = await page(
            db, TRANSACTIONS, (1,), number=1, size=5, sort="-id", filters={**filters, "status": "failed"}
        )
        assert (total, failed) == (11 * 101, 101)


class TestCounting:
    async def test_waits_for_transactions_that_are_still_open(self, urls: Urls, db: Database) -> None:
        slow = await asyncpg.connect(urls.service)
        open_one = slow.transaction()
        await open_one.start()
        await _deliver(slow, 40)
        await _deliver(db, 40)
        await tallies.count(db, tallies.DELIVERIES, least=1)
        assert await db.fetchval("SELECT n FROM tally") == 4  # the sandbox's: older than the open one
        await open_one.commit()
        await slow.close()
        await _deliver(db, 40)
        async with asyncio.timeout(30):  # on a server with other databases it waits for their transactions, too
            while await db.fetchval("SELECT n FROM tally") != 4 + 3 * 40:
                await db.execute("UPDATE tally_mark SET reached = 0")  # looks at all of them again
                await tallies.count(db, tallies.DELIVERIES, least=1)
                await asyncio.sleep(0.02)
        assert await _deliveries(db) == 4 + 3 * 40

    async def test_of_a_list_is_done_by_one_at_a_time(self, urls: Urls, db: Database) -> None:
        other = await asyncpg.connect(urls.service)
        await _deliver(db, 40)
        async with other.transaction():
            await tallies.hold(other, tallies.DELIVERIES)
            assert await tallies.count(db, tallies.DELIVERIES, least=1) == 0
        assert await tallies.count(db, tallies.DELIVERIES, least=1) > 0
        await other.close()

    async def test_begins_anew_where_transaction_numbers_went_back(
        self, owner: asyncpg.Connection[Any], db: Database
    ) -> None:
        await _deliver(db, 40)
        while await tallies.count_all(db, least=1):
            pass
        # As on another server, whose transactions have lower numbers than those that were counted.
        await owner.execute("UPDATE tally_mark SET horizon = horizon + 1000000000")
        await owner.execute("UPDATE tally SET upto = upto + 1000000000")
        await _deliver(db, 5)
        while await tallies.count_all(db, least=1):
            pass
        told, there = await _told(db, DELIVERIES, (SHOP,))
        assert told == there == 49

    async def test_is_audited(self, urls: Urls, owner: asyncpg.Connection[Any], db: Database) -> None:
        await _deliver(db, 40)
        await tallies.count(db, tallies.DELIVERIES, least=1)
        assert await _audited(urls) == (True, "every list has as many rows as were counted")
        await owner.execute("UPDATE tally SET n = n - 1 WHERE list = 'deliveries'")
        ok, detail = await _audited(urls)
        assert not ok
        assert "deliveries of account 1" in detail


async def _audited(urls: Urls) -> tuple[bool, str]:
    async with audit.session(urls.service) as session:
        report = await audit.verify(session)
    return next((check.ok, check.detail) for check in report.checks if check.name == "tallies_match_rows")


# Everything at once --------------------------------------------------------------------------------------------


async def _deliver(db: Database | asyncpg.Connection[Any], n: int) -> None:
    await db.execute(
        """
        INSERT INTO delivery (account_id, id, channel, place, webhook_id, source_account_id, source_id, event_id, type,
                              created_at, updated_at)
        SELECT $1, nextval('delivery_id'), 'webhook', 'webhook:1', 1, $1, 1, gen_random_uuid()::text, 'test', now(),
               now()
        FROM generate_series(1, $2::integer)
        """,
        SHOP,
        n,
    )


async def _deliveries(db: Database) -> int:
    told, there = await _told(db, DELIVERIES, (SHOP,))
    assert told == there
    return told


class _Crowd:
    """Writers, deleters, counters and readers of one list, until each has done its share."""

    def __init__(self, urls: Urls, db: Database, seed: int) -> None:
        self._urls = urls
        self._db = db
        self._random = random.Random(seed)
        self._busy = True
        self.reads = 0
        self.counted = 0

    async def run(self) -> None:
        watchers = [asyncio.create_task(self._read()) for _ in range(2)]
        watchers += [asyncio.create_task(self._count()) for _ in range(2)]
        try:
            async with asyncio.timeout(60):
                await asyncio.gather(*(self._work(self._write, 25) for _ in range(4)), self._work(self._delete, 25))
        finally:
            self._busy = False
            await asyncio.gather(*watchers)

    async def _work(self, step: Any, times: int) -> None:
        for _ in range(times):
            connection = await asyncpg.connect(self._urls.service)
            try:
                await self._end(connection, step)
            finally:
                connection.terminate()

    async def _end(self, connection: asyncpg.Connection[Any], step: Any) -> None:
        """A transaction that commits, rolls back, or is killed before or while it commits."""
        transaction = connection.transaction()
        await transaction.start()
        await step(connection)
        await asyncio.sleep(self._random.random() * 0.02)
        match self._random.choice(("commit", "commit", "commit", "rollback", "kill", "commit and kill")):
            case "commit":
                await transaction.commit()
            case "rollback":
                await transaction.rollback()
            case "commit and kill":
                asyncio.get_running_loop().call_later(self._random.random() * 0.002, connection.terminate)
                with contextlib.suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
                    await transaction.commit()  # or not: nobody knows which it was

    async def _write(self, connection: asyncpg.Connection[Any]) -> None:
        for _ in range(self._random.randint(1, 3)):
            await _deliver(connection, self._random.randint(1, 60))

    async def _delete(self, connection: asyncpg.Connection[Any]) -> None:
        await tallies.hold(connection, tallies.DELIVERIES)
        gone = await connection.fetch(
            """
            DELETE FROM delivery
            WHERE (account_id, id) IN (
                SELECT account_id, id FROM delivery WHERE account_id = $1 ORDER BY random() LIMIT $2
            )
            RETURNING account_id, txid
            """,
            SHOP,
            self._random.randint(1, 80),
        )
        await tallies.deleted(connection, tallies.DELIVERIES, [(row["account_id"], row["txid"]) for row in gone])

    async def _count(self) -> None:
        while self._busy:
            self.counted += await tallies.count(self._db, tallies.DELIVERIES, least=1)
            await asyncio.sleep(0.005)

    async def _read(self) -> None:
        while self._busy:
            await _deliveries(self._db)
            self.reads += 1


class TestUnderLoad:
    @pytest.mark.parametrize("seed", range(3))
    async def test_a_total_is_exact_at_every_moment(self, urls: Urls, db: Database, seed: int) -> None:
        crowd = _Crowd(urls, db, seed)
        await crowd.run()
        assert crowd.reads > 5
        assert crowd.counted > 0
        await tallies.count(db, tallies.DELIVERIES, least=1)
        assert await db.fetchval("SELECT n FROM tally WHERE list = 'deliveries'") > 0
        await _deliveries(db)
        assert (await _audited(urls))[0]

    async def test_so_is_that_of_a_wallet(self, urls: Urls, db: Database) -> None:
        busy = True

        async def write(worker: int) -> None:
            for n in range(15):
                numbers = range(worker * 1000 + n * 10, worker * 1000 + n * 10 + 10)
                await post(db, [_payment(number, currency=random.choice(("GBP", "EUR"))) for number in numbers])

        async def watch() -> int:
            seen = 0
            while busy:
                await tallies.count(db, tallies.WALLET_ROWS, least=1)
                told, there = await _told(db, ROWS, (SHOP,))
                assert told == there
                seen += 1
            return seen

        watcher = asyncio.create_task(watch())
        try:
            await asyncio.gather(*(write(worker) for worker in range(3)))
        finally:
            busy = False
        assert await watcher > 2
        assert await db.fetchval("SELECT sum(n) FROM tally WHERE list = 'wallet_rows'") > 500
        assert (await _audited(urls))[0]
