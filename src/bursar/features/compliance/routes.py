"""/compliance/requests: list, read, respond."""

from __future__ import annotations

from bursar.core.errors import AccountBanned, FileTooLarge
from bursar.db import listing
from bursar.features.compliance import queries, service
from bursar.features.compliance.errors import (
    ComplianceRequestClosed,
    ComplianceRequestNotFound,
    DocumentRequired,
)
from bursar.features.compliance.schemas import ComplianceQuery, ComplianceRequest, Response
from bursar.features.uploads.errors import UnsupportedFileType
from bursar.http.caller import Gate
from bursar.http.context import Ctx
from bursar.http.envelope import Page
from bursar.http.routes import Local, Read, Route


async def list_requests(ctx: Ctx, query: ComplianceQuery) -> Page:
    account_id = ctx.account.account_id
    rows, total = await listing.page(
        ctx.db, queries.REQUESTS, (account_id,), number=query.page, size=query.size, sort=query.sort,
        filters={"status": query.status, "type": query.type},
    )  # fmt: skip
    replies = await service.full_replies(ctx.db, rows, account_id, ctx.account.public_id)
    return Page(replies, query.page, query.size, total)


async def show_request(ctx: Ctx, _: None) -> ComplianceRequest:
    row = await queries.find(ctx.db, ctx.account.account_id, ctx.path_id(missing=ComplianceRequestNotFound))
    if row is None:
        raise ComplianceRequestNotFound
    return await service.full_reply(ctx.db, row, ctx.account.public_id)


async def respond(ctx: Ctx, sent: Response) -> ComplianceRequest:
    return await service.respond(ctx, ctx.path_id(missing=ComplianceRequestNotFound), sent)


ROUTES = (
    Route(
        method="GET",
        path="/compliance/requests",
        name="list_compliance_requests",
        summary="What the service asks of the account.",
        tag="Compliance",
        scope="compliance:read",
        query=ComplianceQuery,
        reply=ComplianceRequest,
        is_list=True,
        handler=Read(list_requests),
    ),
    Route(
        method="GET",
        path="/compliance/requests/{id}",
        name="show_compliance_request",
        summary="One compliance request.",
        tag="Compliance",
        scope="compliance:read",
        reply=ComplianceRequest,
        wrap="compliance_request",
        errors=(ComplianceRequestNotFound,),
        handler=Read(show_request),
    ),
    Route(
        method="POST",
        path="/compliance/requests/{id}/responses",
        name="respond_to_compliance_request",
        summary="Answer a compliance request, with files where it needs them.",
        tag="Compliance",
        scope="compliance:write",
        gate=Gate.WRITE,
        body=Response,
        uploads=True,
        reply=ComplianceRequest,
        wrap="compliance_request",
        status=201,
        errors=(
            AccountBanned,
            ComplianceRequestNotFound,
            ComplianceRequestClosed,
            DocumentRequired,
            UnsupportedFileType,
            FileTooLarge,
        ),
        handler=Local(respond),
    ),
)
