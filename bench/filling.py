"""Fills a database by COPY, as years of trade would have left it, with everything in balance.

One merchant has all the payments. One in ten was paid: it has its journals and wallet entries, settled but for the
newest. The others were left or declined. One platform has all the connected accounts.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bursar.features.payments import reference

CHUNK = 10_000  # rows that are sent in one go
PER_TRANSACTION = 1_000  # rows that share a transaction's number, as a busy service's do
PAID_EVERY = 10
EVENT_EVERY = 10
UNSETTLED = 2_000
CURRENCY = "GBP"
NEWEST = datetime(2026, 1, 1, tzinfo=UTC)

_PAYMENT = ("account_id", "id", "kind", "channel", "payment_reference", "identifier", "amount_minor", "currency",
            "details", "ipn_url", "success_url", "cancel_url", "customer_name", "customer_email", "metadata", "status",
            "remark", "key_account_id", "key_id", "fee_payer", "started_at", "processor_reference", "attempts",
            "fee_minor", "expires_at", "paid_at", "cancelled_at", "created_at", "updated_at", "txid")  # fmt: skip
_JOURNAL = ("account_id", "id", "kind", "ref", "currency", "owners", "accounts", "amounts", "related", "note",
            "event_at", "created_at", "txid")  # fmt: skip
_ENTRY = ("account_id", "id", "currency", "seq", "journal_account_id", "journal_id", "kind", "fact", "main", "pending",
          "reserve", "balance_before", "balance_after", "related", "note", "created_at")  # fmt: skip
_EVENT = ("account_id", "id", "event_id", "type", "platform_id", "body", "created_at", "fanned_out", "txid")
_ACCOUNT = ("account_id", "public_id", "kind", "platform_id", "platform_public_id", "business_company_name", "email",
            "country_code", "currency", "status", "kyc_status", "public_key", "client_key", "created_at",
            "updated_at", "txid")  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """What is written, and under which numbers."""

    merchant_id: int
    rows: int
    first_payment: int
    first_journal: int
    first_entry: int
    first_event: int
    first_txid: int

    @property
    def paid(self) -> int:
        return self.rows // PAID_EVERY

    @property
    def settled(self) -> int:
        return max(0, self.paid - UNSETTLED)

    @property
    def journals(self) -> int:
        return self.paid + self.settled

    @property
    def entries(self) -> int:
        return 2 * self.paid + self.settled

    def amount(self, n: int) -> int:
        return 500 + n % 9_500

    def fee(self, n: int) -> int:
        return 20 + self.amount(n) * 15 // 1000

    def moment(self, n: int) -> str:
        """Created a second apart, the newest on New Year's Day."""
        return f"{NEWEST - timedelta(seconds=self.rows - n):%Y-%m-%d %H:%M:%S+00}"


def _payments(plan: Plan) -> Iterator[str]:
    merchant, gone = plan.merchant_id, r"\N"
    for n in range(plan.rows):
        number, at, paid = plan.first_payment + n, plan.moment(n), n % PAID_EVERY == 0
        status = "succeeded" if paid else "failed" if n % 7 == 0 else "cancelled"
        fee, paid_at = (plan.fee(n), at) if paid else (0, gone)
        cancelled_at, remark = (at, "checkout_expired") if status == "cancelled" else (gone, gone)
        yield (
            f"{merchant}\t{number}\thosted\tapi\t{reference.make(reference.PAYMENT, number)}\torder-{n}\t"
            f"{plan.amount(n)}\t{CURRENCY}\tTwo books\thttps://shop.example/ipn\thttps://shop.example/paid\t"
            f"https://shop.example/cancelled\tCustomer {n}\tcustomer{n}@example.com\t{{}}\t{status}\t"
            f"{remark}\t{merchant}\t1\tconnected_account\t{at}\tsim_{number:020d}\t1\t{fee}\t{at}\t{paid_at}\t"
            f"{cancelled_at}\t{at}\t{at}\t{plan.first_txid + n // PER_TRANSACTION}\n"
        )


def _posted(plan: Plan) -> Iterator[tuple[int, str, int, int]]:
    """Journals in order: the number of its payment, its kind, and its numbers of journal and first entry."""
    journal, entry = plan.first_journal, plan.first_entry
    for k in range(plan.paid):
        yield k * PAID_EVERY, "payment", journal, entry
        journal, entry = journal + 1, entry + 2
        if k < plan.settled:
            yield k * PAID_EVERY, "settlement", journal, entry
            journal, entry = journal + 1, entry + 1


def _journals(plan: Plan) -> Iterator[str]:
    merchant = plan.merchant_id
    for n, kind, journal, _ in _posted(plan):
        at, number, net = plan.moment(n), plan.first_payment + n, plan.amount(n) - plan.fee(n)
        if kind == "payment":
            ref, legs = str(number), ("processor_clearing,pending,fees", f"{-plan.amount(n)},{net},{plan.fee(n)}", 3)
        else:
            ref, legs = f"transaction:{number}", ("main,pending", f"{net},{-net}", 2)
        owners = ",".join([str(merchant)] * legs[2])
        yield (
            f"{merchant}\t{journal}\t{kind}\t{ref}\t{CURRENCY}\t{{{owners}}}\t{{{legs[0]}}}\t{{{legs[1]}}}\t"
            f"transaction:{number}\t\t{at}\t{at}\t"
            f"{plan.first_txid + (journal - plan.first_journal) // PER_TRANSACTION}\n"
        )


def _entries(plan: Plan) -> Iterator[str]:
    merchant, balance, seq = plan.merchant_id, 0, 0
    for n, kind, journal, entry in _posted(plan):
        amount, fee = plan.amount(n), plan.fee(n)
        lines = [("payment", 0, amount), ("processing_fee", 0, -fee)]
        if kind == "settlement":
            lines = [("settlement", amount - fee, fee - amount)]
        for place, (name, main, pending) in enumerate(lines):
            seq += 1
            after = balance + main + pending
            yield (
                f"{merchant}\t{entry + place}\t{CURRENCY}\t{seq}\t{merchant}\t{journal}\t{name}\tt\t{main}\t{pending}\t"
                f"0\t{balance}\t{after}\ttransaction:{plan.first_payment + n}\t\t{plan.moment(n)}\n"
            )
            balance = after


def _events(plan: Plan) -> Iterator[str]:
    body = b'{"type":"payment.created","data":{"payment":{"details":"' + b"x" * 600 + b'"}}}'
    for n in range(plan.rows // EVENT_EVERY):
        yield (
            f"{plan.merchant_id}\t{plan.first_event + n}\tevt_{n:024d}\tpayment.created\t\\N\t\\\\x{body.hex()}\t"
            f"{plan.moment(n * EVENT_EVERY)}\tt\t{plan.first_txid + n // PER_TRANSACTION}\n"
        )


def _accounts(platform: dict[str, Any], first: int, count: int, txid: int) -> Iterator[str]:
    for n in range(count):
        number = first + n
        at = f"{NEWEST - timedelta(seconds=count - n):%Y-%m-%d %H:%M:%S+00}"
        yield (
            f"{number}\tacc{number:016d}_{number}\tmerchant\t{platform['merchant_id']}\t{platform['account_id']}\t"
            f"Shop {n}\tshop{number}@example.com\tGB\tGBP\t{'review' if n % 50 == 0 else 'active'}\tverified\t"
            f"pk{number}\tck{number}\t{at}\t{at}\t{txid + n // PER_TRANSACTION}\n"
        )


# What readiness looks at: a link and a bank account for each.
_ONBOARDED = (
    """
    INSERT INTO verification_link
        (account_id, id, purpose, status, metadata, expires_at, completed_at, created_at, updated_at)
    SELECT n, nextval('verification_link_id'), 'onboarding', 'verified', '{}', now(), now(), now(), now()
    FROM generate_series($1::bigint, $2 - 1) AS n
    """,
    """
    INSERT INTO bank_account
        (account_id, id, account_name, bank_name, currency, country, last4, use_for, is_default, status, name_check,
         lookup, sealed, created_at, updated_at)
    SELECT n, nextval('bank_account_id'), 'Shop', 'Bank', 'GBP', 'GB', '0000', 'payout', true, 'active', 'matched',
           'x', '', now(), now()
    FROM generate_series($1::bigint, $2 - 1) AS n
    """,
)


async def fill_payments(url: str, merchant_id: int, rows: int) -> Plan:
    """Payments, journals, entries and events of one merchant, its wallet, and what is not settled yet."""
    connection = await asyncpg.connect(url)
    try:
        plan = await _planned(connection, merchant_id, rows)
        with _progress() as progress:
            for table, columns, lines, count in (
                ("payment", _PAYMENT, _payments(plan), plan.rows),
                ("journal", _JOURNAL, _journals(plan), plan.journals),
                ("wallet_entry", _ENTRY, _entries(plan), plan.entries),
                ("event", _EVENT, _events(plan), plan.rows // EVENT_EVERY),
            ):
                await _copy(connection, progress, table, columns, lines, count)
        await _write_wallet(connection, plan)
        await connection.execute("VACUUM ANALYZE payment, journal, wallet_entry, event, unsettled, wallet")
        return plan
    finally:
        await connection.close()


async def fill_accounts(url: str, platform: dict[str, Any], count: int) -> str:
    """Connected accounts; returns the id of one in the middle."""
    connection = await asyncpg.connect(url)
    try:
        first = await _taken(connection, "account_number", count)
        txid = await _numbers(connection, count // PER_TRANSACTION + 1)
        with _progress() as progress:
            await _copy(connection, progress, "account", _ACCOUNT, _accounts(platform, first, count, txid), count)
        for statement in _ONBOARDED:
            await connection.execute(statement, first, first + count)
        await connection.execute("VACUUM ANALYZE account, verification_link, bank_account, compliance_request")
        return f"acc{first + count // 2:016d}_{first + count // 2}"
    finally:
        await connection.close()


async def _planned(connection: asyncpg.Connection[Any], merchant_id: int, rows: int) -> Plan:
    return Plan(
        merchant_id,
        rows,
        first_payment=await _taken(connection, "payment_id", rows),
        first_journal=await _taken(connection, "journal_id", rows),
        first_entry=await _taken(connection, "wallet_entry_id", rows),
        first_event=await _taken(connection, "event_id", rows),
        first_txid=await _numbers(connection, rows // PER_TRANSACTION + 1),
    )


async def _taken(connection: asyncpg.Connection[Any], sequence: str, count: int) -> int:
    first: int = await connection.fetchval("SELECT nextval($1::text::regclass)", sequence)
    await connection.execute("SELECT setval($1::text::regclass, $2)", sequence, first + count)
    return first


async def _numbers(connection: asyncpg.Connection[Any], count: int) -> int:
    """Numbers of transactions that are over: the first of so many."""
    await connection.execute(
        f"DO $$ BEGIN FOR n IN 0..{count} LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$"
    )
    return int(await connection.fetchval("SELECT pg_current_xact_id()::text::bigint")) - count - 1


async def _write_wallet(connection: asyncpg.Connection[Any], plan: Plan) -> None:
    net = [plan.amount(k * PAID_EVERY) - plan.fee(k * PAID_EVERY) for k in range(plan.paid)]
    main, pending = sum(net[: plan.settled]), sum(net[plan.settled :])
    await connection.execute(
        """
        INSERT INTO wallet (account_id, currency, id, main, pending, seq, created_at, updated_at)
        VALUES ($1, $2, nextval('wallet_id'), $3, $4, $5, now(), now())
        """,
        plan.merchant_id, CURRENCY, main, pending, plan.entries,
    )  # fmt: skip
    await connection.copy_records_to_table(
        "unsettled",
        columns=["account_id", "currency", "source", "amount", "settles_at"],
        records=[
            (plan.merchant_id, CURRENCY, f"transaction:{plan.first_payment + k * PAID_EVERY}", net[k],
             datetime.now(UTC) + timedelta(days=365))
            for k in range(plan.settled, plan.paid)
        ],
    )  # fmt: skip


async def _copy(
    connection: asyncpg.Connection[Any], progress: Progress, table: str, columns: Iterable[str], lines: Iterator[str],
    count: int,
) -> None:  # fmt: skip
    """Writes the rows, and the indexes after them, all at once."""
    task = progress.add_task(table, total=count)

    async def chunks() -> AsyncIterator[bytes]:
        waiting: list[str] = []
        for line in lines:
            waiting.append(line)
            if len(waiting) == CHUNK:
                yield "".join(waiting).encode()
                progress.advance(task, CHUNK)
                waiting = []
        yield "".join(waiting).encode()
        progress.update(task, completed=count)

    async with _without_indexes(connection, table):
        await connection.copy_to_table(table, source=chunks(), columns=list(columns))
        progress.update(task, description=f"{table}, its indexes")


@asynccontextmanager
async def _without_indexes(connection: asyncpg.Connection[Any], table: str) -> AsyncIterator[None]:
    keys = await connection.fetch(
        """
        SELECT conname AS name, pg_get_constraintdef(oid) AS made_by
        FROM pg_constraint
        WHERE conrelid = $1::text::regclass AND contype IN ('p', 'u')
        """,
        table,
    )
    indexes = await connection.fetch(
        """
        SELECT i.indexrelid::regclass::text AS name, pg_get_indexdef(i.indexrelid) AS made_by
        FROM pg_index AS i
        WHERE i.indrelid = $1::text::regclass
          AND NOT EXISTS (SELECT FROM pg_constraint AS c WHERE c.conindid = i.indexrelid)
        """,
        table,
    )
    for key in keys:
        await connection.execute(f"ALTER TABLE {table} DROP CONSTRAINT {key['name']}")
    for index in indexes:
        await connection.execute(f"DROP INDEX {index['name']}")
    yield
    await connection.execute("SET maintenance_work_mem = '1GB'; SET max_parallel_maintenance_workers = 2")
    for key in keys:
        await connection.execute(f"ALTER TABLE {table} ADD CONSTRAINT {key['name']} {key['made_by']}")
    for index in indexes:
        await connection.execute(index["made_by"])


def _progress() -> Progress:
    return Progress(TextColumn("{task.description:24}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
