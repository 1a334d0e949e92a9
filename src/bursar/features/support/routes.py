"""/support/tickets: list, open, read, write, close. A ticket is named by its number or its TKT- reference."""

from __future__ import annotations

from bursar.core.errors import AccountBanned, FileTooLarge
from bursar.db import listing
from bursar.features.support import queries, service
from bursar.features.support.errors import TicketClosed, TicketNotFound
from bursar.features.support.schemas import NewMessage, NewTicket, Ticket, TicketQuery
from bursar.features.uploads.errors import UnsupportedFileType
from bursar.http.caller import Gate
from bursar.http.context import LARGEST_ID, Ctx
from bursar.http.envelope import Page
from bursar.http.routes import Local, Read, Route


def ticket_id_of(ctx: Ctx) -> int:
    digits = ctx.path["id"].removeprefix("TKT-")
    if not (digits.isascii() and digits.isdigit() and 0 < int(digits) <= LARGEST_ID):
        raise TicketNotFound
    return int(digits)


async def list_tickets(ctx: Ctx, query: TicketQuery) -> Page:
    account_id = ctx.account.account_id
    filters = {"status": query.status, "category": query.category, "priority": query.priority}
    rows, total = await listing.page(
        ctx.db, queries.TICKETS, (account_id,), number=query.page, size=query.size, sort=query.sort, filters=filters,
        q=query.q,
    )  # fmt: skip
    return Page(
        await service.full_replies(ctx.db, rows, account_id, ctx.account.public_id), query.page, query.size, total
    )


async def open_ticket(ctx: Ctx, new: NewTicket) -> Ticket:
    return await service.open_ticket(ctx, new)


async def show_ticket(ctx: Ctx, _: None) -> Ticket:
    row = await queries.find(ctx.db, ctx.account.account_id, ticket_id_of(ctx))
    if row is None:
        raise TicketNotFound
    return await service.full_reply(ctx.db, row, ctx.account.public_id)


async def add_message(ctx: Ctx, new: NewMessage) -> Ticket:
    return await service.add_message(ctx, ticket_id_of(ctx), new)


async def close_ticket(ctx: Ctx, _: None) -> Ticket:
    return await service.close(ctx, ticket_id_of(ctx))


ROUTES = (
    Route(
        method="GET",
        path="/support/tickets",
        name="list_support_tickets",
        summary="The account's support tickets.",
        tag="Support",
        scope="support:read",
        query=TicketQuery,
        reply=Ticket,
        is_list=True,
        handler=Read(list_tickets),
    ),
    Route(
        method="POST",
        path="/support/tickets",
        name="open_support_ticket",
        summary="Open a ticket with its first message.",
        tag="Support",
        scope="support:write",
        gate=Gate.WRITE,
        body=NewTicket,
        uploads=True,
        reply=Ticket,
        wrap="ticket",
        status=201,
        errors=(AccountBanned, UnsupportedFileType, FileTooLarge),
        handler=Local(open_ticket),
    ),
    Route(
        method="GET",
        path="/support/tickets/{id}",
        name="show_support_ticket",
        summary="One ticket with its messages.",
        tag="Support",
        scope="support:read",
        reply=Ticket,
        wrap="ticket",
        errors=(TicketNotFound,),
        handler=Read(show_ticket),
    ),
    Route(
        method="POST",
        path="/support/tickets/{id}/messages",
        name="add_support_message",
        summary="Write to a ticket; this opens a resolved one again.",
        tag="Support",
        scope="support:write",
        gate=Gate.WRITE,
        body=NewMessage,
        uploads=True,
        reply=Ticket,
        wrap="ticket",
        status=201,
        errors=(AccountBanned, TicketNotFound, TicketClosed, UnsupportedFileType, FileTooLarge),
        handler=Local(add_message),
    ),
    Route(
        method="POST",
        path="/support/tickets/{id}/close",
        name="close_support_ticket",
        summary="Close a ticket for good.",
        tag="Support",
        scope="support:write",
        gate=Gate.WRITE,
        reply=Ticket,
        wrap="ticket",
        errors=(AccountBanned, TicketNotFound, TicketClosed),
        handler=Local(close_ticket),
    ),
)
