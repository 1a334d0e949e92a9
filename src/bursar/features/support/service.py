"""Support tickets: opened, written to, closed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from bursar.db.pool import Queryable, Record
from bursar.features.support import queries
from bursar.features.support.errors import TicketNotFound
from bursar.features.support.schemas import Author, Message, NewMessage, NewTicket, Related, StaffMessage, Ticket
from bursar.features.support.states import Status, move
from bursar.features.uploads import service as uploads
from bursar.features.uploads.inspection import Inspected, inspect_all
from bursar.http.caller import load_account
from bursar.http.context import Account, Ctx


def author_of(ctx: Ctx) -> Author:
    assert ctx.caller is not None
    return "platform" if ctx.caller.is_platform else "merchant"


async def open_ticket(ctx: Ctx, new: NewTicket) -> Ticket:
    files = await inspect_all(new.attachments, field="attachments")
    row = await queries.insert(
        ctx.db,
        ctx.account.account_id,
        {
            "subject": new.subject,
            "category": new.category,
            "priority": new.priority,
            "related_type": new.related.type if new.related else None,
            "related_id": new.related.id if new.related else None,
        },
        ctx.now,
    )
    await _write(ctx, ctx.account.account_id, row["id"], author_of(ctx), new.body, files)
    reply = await full_reply(ctx.db, row, ctx.account.public_id)
    ctx.emit("support.ticket_created", {"ticket": reply})
    return reply


async def add_message(ctx: Ctx, ticket_id: int, new: NewMessage) -> Ticket:
    row = await queries.lock(ctx.db, ctx.account.account_id, ticket_id)
    if row is None:
        raise TicketNotFound
    status = move(row["status"], "account_writes")
    files = await inspect_all(new.attachments, field="attachments")
    await _write(ctx, ctx.account.account_id, ticket_id, author_of(ctx), new.body, files)
    after = await queries.set_status(ctx.db, row, status, ctx.now)
    return await _tell(ctx, ctx.account, row, after)


async def close(ctx: Ctx, ticket_id: int) -> Ticket:
    row = await queries.lock(ctx.db, ctx.account.account_id, ticket_id)
    if row is None:
        raise TicketNotFound
    after = await queries.set_status(ctx.db, row, move(row["status"], "account_closes"), ctx.now)
    return await full_reply(ctx.db, after, ctx.account.public_id)


async def answer(ctx: Ctx, account: Account, ticket_id: int, message: StaffMessage) -> tuple[Record, Ticket]:
    """Staff write; the ticket then waits for the account, or is in the state they chose."""
    row = await queries.lock(ctx.db, account.account_id, ticket_id)
    if row is None:
        raise TicketNotFound
    status: Status = move(row["status"], "staff_writes")
    await _write(ctx, account.account_id, ticket_id, "staff", message.body, [])
    after = await queries.set_status(ctx.db, row, message.status or status, ctx.now)
    return row, await _tell(ctx, account, row, after)


async def _write(
    ctx: Ctx, account_id: int, ticket_id: int, author: Author, body: str, files: Sequence[Inspected]
) -> None:
    message_id = await queries.insert_message(ctx.db, account_id, ticket_id, author, body, ctx.now)
    for file in files:
        await uploads.keep(ctx, account_id, file, purpose="support", subject=_subject(message_id))


async def _tell(ctx: Ctx, account: Account, before: Record, after: Record) -> Ticket:
    reply = await full_reply(ctx.db, after, account.public_id)
    previous = {"status": before["status"]} if before["status"] != after["status"] else {}
    ctx.emit_for(account, "support.ticket_replied", {"ticket": reply}, previous=previous)
    if after["status"] in ("resolved", "closed") and previous:
        ctx.emit_for(account, "support.ticket_resolved", {"ticket": reply}, previous=previous)
    return reply


def _subject(message_id: int) -> str:
    return f"support_message:{message_id}"


async def required_account(db: Queryable, ticket_id: int) -> Account:
    """The account of a ticket, for staff."""
    account_id = await queries.account_of(db, ticket_id)
    account = await load_account(db, account_id) if account_id is not None else None
    if account is None:
        raise TicketNotFound
    return account


async def full_reply(db: Queryable, row: Record, public_id: str) -> Ticket:
    [reply] = await full_replies(db, [row], row["account_id"], public_id)
    return reply


async def full_replies(db: Queryable, rows: Sequence[Record], account_id: int, public_id: str) -> list[Ticket]:
    """Tickets of one account with their messages and attachments, in two queries."""
    written = await queries.messages(db, account_id, [row["id"] for row in rows]) if rows else []
    files = await uploads.documents_of(db, account_id, [_subject(message["id"]) for message in written])
    messages: dict[int, list[Message]] = defaultdict(list)
    for message in written:
        shown = Message(
            message["id"], message["author"], message["body"], files[_subject(message["id"])], message["created_at"]
        )
        messages[message["ticket_id"]].append(shown)
    return [as_reply(row, public_id, messages[row["id"]]) for row in rows]


def as_reply(row: Record, public_id: str, messages: list[Message]) -> Ticket:
    return Ticket(
        id=row["id"],
        ticket_ref=f"TKT-{row['id']}",
        account_id=public_id,
        subject=row["subject"],
        category=row["category"],
        priority=row["priority"],
        status=row["status"],
        related=Related(row["related_type"], row["related_id"]) if row["related_type"] else None,
        messages=messages,
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )
