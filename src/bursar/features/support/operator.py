"""Staff read tickets and answer them."""

from __future__ import annotations

from bursar.core.errors import AccountNotFound
from bursar.db import listing
from bursar.features.accounts import service as accounts
from bursar.features.support import queries, service
from bursar.features.support.errors import TicketClosed, TicketNotFound
from bursar.features.support.routes import ticket_id_of
from bursar.features.support.schemas import StaffMessage, Ticket, TicketSearch
from bursar.http.context import Audit, Ctx
from bursar.http.envelope import Page
from bursar.http.families import OPERATOR
from bursar.http.routes import Local, Read, Route


async def list_tickets(ctx: Ctx, search: TicketSearch) -> Page:
    merchant = (await accounts.required(ctx.db, search.merchant)).account_id if search.merchant else None
    rows, total = await listing.page(
        ctx.db, queries.ALL_TICKETS, (), number=search.page, size=search.per_page, sort="-id",
        filters={"status": search.status, "category": search.category, "merchant": merchant},
    )  # fmt: skip
    return Page([service.as_reply(row, row["public_id"], []) for row in rows], search.page, search.per_page, total)


async def show_ticket(ctx: Ctx, _: None) -> Ticket:
    ticket_id = ticket_id_of(ctx)
    account = await service.required_account(ctx.db, ticket_id)
    row = await queries.find(ctx.db, account.account_id, ticket_id)
    assert row is not None
    ctx.audit = Audit(account.account_id)
    return await service.full_reply(ctx.db, row, account.public_id)


async def answer_ticket(ctx: Ctx, message: StaffMessage) -> Ticket:
    ticket_id = ticket_id_of(ctx)
    account = await service.required_account(ctx.db, ticket_id)
    before, reply = await service.answer(ctx, account, ticket_id, message)
    ctx.audit = Audit(account.account_id, before={"status": before["status"]}, after={"status": reply.status})
    return reply


ROUTES = (
    Route(
        method="GET",
        path="/support-tickets",
        name="operator_list_support_tickets",
        summary="Support tickets of all accounts, newest first.",
        tag="Operator: cases",
        family=OPERATOR,
        query=TicketSearch,
        reply=Ticket,
        is_list=True,
        errors=(AccountNotFound,),
        handler=Read(list_tickets),
    ),
    Route(
        method="GET",
        path="/support-tickets/{id}",
        name="operator_show_support_ticket",
        summary="One ticket with its messages.",
        tag="Operator: cases",
        family=OPERATOR,
        reply=Ticket,
        wrap="ticket",
        errors=(TicketNotFound,),
        handler=Read(show_ticket),
    ),
    Route(
        method="POST",
        path="/support-tickets/{id}/messages",
        name="operator_answer_support_ticket",
        summary="Answer a ticket, and set its status.",
        tag="Operator: cases",
        family=OPERATOR,
        body=StaffMessage,
        reply=Ticket,
        wrap="ticket",
        status=201,
        errors=(TicketNotFound, TicketClosed),
        handler=Local(answer_ticket),
    ),
)
