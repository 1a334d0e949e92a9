"""What is removed once it is old, and what never is; with the clock moved, and without walking over tables."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import asyncpg
import pytest

from bursar.db import tallies
from bursar.db.embedded import Urls
from bursar.db.pool import Database
from bursar.http.sweeps import EXPIRED_KEYS
from bursar.worker import retention
from tests.events import receivers
from tests.events.factories import advance, deliveries, detail, happen, register, run_jobs
from tests.events.receivers import Receiver
from tests.support.service import Party, Service, running_service

DAY = 86_400


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receivers.receiver() as listening:
        yield listening


async def _count(db: Database, table: str) -> int:
    found: int = await db.fetchval(f"SELECT count(*) FROM {table} WHERE account_id >= 1001")
    return found


async def _delivered(service: Service, receiver: Receiver) -> Party:
    merchant = await service.open_account()
    await register(service, merchant, receiver.url())
    await happen(service.db, merchant, 3)
    await run_jobs(service)
    return merchant


class TestDeliveries:
    async def test_are_kept_for_ninety_days_after_they_are_done(self, service: Service, receiver: Receiver) -> None:
        merchant = await _delivered(service, receiver)
        await advance(service, 89 * DAY)
        assert len(await deliveries(service, merchant)) == 3
        await advance(service, 2 * DAY)
        assert await deliveries(service, merchant) == []
        assert await _count(service.db, "delivery_attempt") == 0
        assert await _count(service.db, "event") == 3

    async def test_from_the_last_attempt_on(self, service: Service, receiver: Receiver) -> None:
        """One that was sent again by hand begins anew in this, too."""
        merchant = await _delivered(service, receiver)
        await advance(service, 80 * DAY)
        again, *_ = await deliveries(service, merchant)
        await service.send(merchant, "POST", f"/webhook-deliveries/{again['id']}/retry")
        await run_jobs(service)
        await advance(service, 20 * DAY)
        assert [one["id"] for one in await deliveries(service, merchant)] == [again["id"]]
        assert len((await detail(service, merchant, again["id"]))["history"]) == 2
        await advance(service, 71 * DAY)
        assert await deliveries(service, merchant) == []

    async def test_what_still_waits_stays_however_old(self, service: Service, receiver: Receiver) -> None:
        merchant = await service.open_account()
        webhook = await register(service, merchant, receiver.url())
        await service.send(merchant, "PATCH", f"/webhooks/{webhook['id']}", {"status": "paused"})
        await happen(service.db, merchant, 3)
        await advance(service, 400 * DAY)
        assert [one["status"] for one in await deliveries(service, merchant)] == ["pending"] * 3
        await service.send(merchant, "PATCH", f"/webhooks/{webhook['id']}", {"status": "active"})
        await run_jobs(service)
        assert [one["status"] for one in await deliveries(service, merchant)] == ["succeeded"] * 3

    async def test_an_event_can_be_sent_again_when_its_delivery_is_gone(
        self, service: Service, receiver: Receiver
    ) -> None:
        merchant = await _delivered(service, receiver)
        event_id = (await deliveries(service, merchant))[0]["event_id"]
        await advance(service, 91 * DAY)
        reply = await service.send(merchant, "POST", f"/events/{event_id}/resend")
        assert reply.status_code == 202, reply.text
        await run_jobs(service)
        assert [one["event_id"] for one in await deliveries(service, merchant)] == [event_id]
        assert len(receiver.requests) == 4

    async def test_for_as_long_as_the_setting_says(self, urls: Urls, receiver: Receiver) -> None:
        async with running_service(urls, delivery_log_days=7) as service:
            merchant = await _delivered(service, receiver)
            await advance(service, 8 * DAY)
            assert await deliveries(service, merchant) == []


class TestTheOthers:
    async def test_ipns_go_with_their_deliveries(self, service: Service) -> None:
        await _fill(service.urls, 3)
        assert (await _count(service.db, "ipn"), await _count(service.db, "delivery")) == (3, 3)
        await advance(service, 91 * DAY)
        assert (await _count(service.db, "ipn"), await _count(service.db, "delivery")) == (0, 0)

    async def test_notices_that_are_done(self, service: Service) -> None:
        await _fill(service.urls, 3)
        owner = await asyncpg.connect(service.urls.owner)
        await owner.execute("UPDATE notice SET next_attempt_at = '2126-01-01', status = 'pending' WHERE id = 1")
        await owner.close()
        await advance(service, 89 * DAY)
        assert await _count(service.db, "notice") == 3
        await advance(service, 2 * DAY)
        assert await _count(service.db, "notice") == 1

    async def test_callbacks_that_were_applied(self, service: Service) -> None:
        await _fill(service.urls, 3)
        owner = await asyncpg.connect(service.urls.owner)
        await owner.execute("UPDATE processor_inbox SET state = 'quarantined', reason = 'amount' WHERE event_id = '1'")
        await owner.close()
        await advance(service, 91 * DAY)
        assert await service.db.fetchval("SELECT array_agg(event_id) FROM processor_inbox") == ["1"]

    async def test_the_sandboxs_samples_stay(self, service: Service) -> None:
        merchant = await service.open_account()
        await advance(service, 91 * DAY)
        reply = await service.get(merchant.test_secret_key, "/sandbox/v2/webhook-deliveries")
        assert len(reply.json()["data"]) == 4


class TestManyRows:
    async def test_leave_the_total_of_their_list_right(self, service: Service, urls: Urls) -> None:
        merchant = await service.open_account()
        await _fill(urls, 600)
        tallied = "SELECT n FROM tally WHERE account_id = $1 AND list = 'deliveries'"
        async with asyncio.timeout(30):  # whatever transaction is open on the server, it waits for
            while await service.db.fetchval(tallied, merchant.merchant_id) != 600:
                await service.db.execute("UPDATE tally_mark SET reached = 0")  # looks at all of them again
                await tallies.count(service.db, tallies.DELIVERIES, least=1)
                await asyncio.sleep(0.02)
        await happen(service.db, merchant, 3)
        await advance(service, 91 * DAY)
        total = await service.db.fetchval(f"SELECT {tallies.DELIVERIES.total()}", merchant.merchant_id)
        assert total == await _count(service.db, "delivery") < 600

    async def test_are_removed_in_short_rounds(self, db: Database, urls: Urls) -> None:
        rows = 3 * retention.BATCH
        await _fill(urls, rows)
        async with db.transaction() as connection:
            before = await connection.fetchval("SELECT instance_now() + interval '1 day'")
            assert len(await connection.fetch(retention.DELIVERIES, before, retention.BATCH)) == retention.BATCH
        assert await _count(db, "delivery") == rows - retention.BATCH

    async def test_are_never_walked_over(self, urls: Urls) -> None:
        """As large tables are to a batch, so are these to a few rows."""
        few = retention.BATCH // 10
        await _fill(urls, 40_000)
        owner = await asyncpg.connect(urls.owner)
        now: datetime = await owner.fetchval("SELECT instance_now()")
        plans = [
            await _plan(owner, query, before, few)
            for query in (retention.DELIVERIES, retention.NOTICES, retention.CALLBACKS, EXPIRED_KEYS)
            for before in (now - timedelta(days=1), now)
        ]
        some = list(range(1, few + 1))
        plans += [await _plan(owner, query, [1001] * len(some), some) for query in (retention.ATTEMPTS, retention.IPNS)]
        await owner.close()
        assert [plan for plan in plans if "Seq Scan" in plan] == []


async def _plan(connection: asyncpg.Connection[Any], query: str, *arguments: Any) -> str:
    plan = json.loads(await connection.fetchval(f"EXPLAIN (FORMAT JSON) {query}", *arguments))
    return " ".join(_nodes(plan[0]["Plan"]))


def _nodes(node: dict[str, Any]) -> list[str]:
    below = [line for child in node.get("Plans", ()) for line in _nodes(child)]
    return [f"{node['Node Type']} on {node.get('Relation Name', '-')};", *below]


async def _fill(urls: Urls, rows: int) -> None:
    """Rows that were done just now, of every kind."""
    owner = await asyncpg.connect(urls.owner)
    now: datetime = await owner.fetchval("SELECT instance_now()")
    for statement in (
        """
        INSERT INTO ipn (account_id, id, event_id, type, url, fields, amount, identifier, key_account_id, key_id,
                         created_at, fanned_out)
        SELECT 1001, n, 'evt_' || n, 'transaction.failed', 'https://shop.example', '[]', '1', '1', 1001, 1, $2, true
        FROM generate_series(1, $1::bigint) n
        """,
        """
        INSERT INTO delivery (account_id, id, channel, place, source_account_id, source_id, event_id, type, status,
                              created_at, updated_at)
        SELECT 1001, n, 'ipn', 'ipn:', 1001, n, 'evt_' || n, 'transaction.failed', 'succeeded', $2, $2
        FROM generate_series(1, $1::bigint) n
        """,
        """
        INSERT INTO delivery_attempt (account_id, delivery_id, number, url, sent_at, at, duration_ms)
        SELECT 1001, n, 1, '', $2, $2, 1 FROM generate_series(1, $1::bigint) n
        """,
        """
        INSERT INTO notice (account_id, id, channel, template, recipient, subject, body_text, message_id, status,
                            created_at)
        SELECT 1001, n, 'email', 'payout.paid', 'a@example.com', '', '', '', 'sent', $2
        FROM generate_series(1, $1::bigint) n
        """,
        """
        INSERT INTO processor_inbox (account_id, provider, event_id, kind, raw, state, due_at, received_at, finished_at)
        SELECT 1001, 'simulator', n::text, 'payment', '', 'done', $2, $2, $2 FROM generate_series(1, $1::bigint) n
        """,
        """
        INSERT INTO idempotency_key (account_id, family, scope, key, fingerprint, status, created_at, expires_at)
        SELECT 1001, 'legacy', '', n::text, '', 201, $2, $2 FROM generate_series(1, $1::bigint) n
        """,
    ):
        await owner.execute(statement, rows, now)
    await owner.execute("ANALYZE")
    await owner.close()
