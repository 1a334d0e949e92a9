"""Staff ask, see the answers, and decide."""

from __future__ import annotations

from bursar.core.errors import AccountNotFound
from bursar.db import listing
from bursar.features.accounts import service as accounts
from bursar.features.compliance import queries, service
from bursar.features.compliance.errors import ComplianceRequestClosed, ComplianceRequestNotFound
from bursar.features.compliance.schemas import (
    ComplianceRequest,
    ComplianceSearch,
    Decision,
    NewComplianceRequest,
    StaffView,
)
from bursar.http.context import Audit, Ctx
from bursar.http.envelope import Page
from bursar.http.families import OPERATOR
from bursar.http.routes import Local, Read, Route


async def ask(ctx: Ctx, new: NewComplianceRequest) -> ComplianceRequest:
    account = await accounts.required(ctx.db, str(new.merchant))
    request = await service.ask(ctx, account, new)
    ctx.audit = Audit(account.account_id, after=new.model_dump(mode="json"))
    return request


async def list_requests(ctx: Ctx, search: ComplianceSearch) -> Page:
    merchant = (await accounts.required(ctx.db, search.merchant)).account_id if search.merchant else None
    rows, total = await listing.page(
        ctx.db, queries.ALL_REQUESTS, (), number=search.page, size=search.per_page, sort="-id",
        filters={"status": search.status, "type": search.type, "merchant": merchant},
    )  # fmt: skip
    return Page([service.as_reply(row, row["public_id"], []) for row in rows], search.page, search.per_page, total)


async def show_request(ctx: Ctx, _: None) -> StaffView:
    request_id = ctx.path_id(missing=ComplianceRequestNotFound)
    account = await service.required_account(ctx.db, request_id)
    row = await queries.find(ctx.db, account.account_id, request_id)
    assert row is not None
    answers = await queries.responses(ctx.db, account.account_id, request_id)
    ctx.audit = Audit(account.account_id)
    return StaffView(
        await service.full_reply(ctx.db, row, account.public_id),
        account.account_id,
        [dict(answer) for answer in answers],
    )


async def decide(ctx: Ctx, body: Decision) -> ComplianceRequest:
    request_id = ctx.path_id(missing=ComplianceRequestNotFound)
    account = await service.required_account(ctx.db, request_id)
    before, reply = await service.decide(ctx, account, request_id, body.decision, body.notes)
    ctx.audit = Audit(
        account.account_id, before={"status": before["status"]}, after={"status": reply.status, "notes": body.notes}
    )
    return reply


ROUTES = (
    Route(
        method="POST",
        path="/compliance-requests",
        name="operator_ask_compliance",
        summary="Ask an account for something.",
        tag="Operator: cases",
        family=OPERATOR,
        body=NewComplianceRequest,
        reply=ComplianceRequest,
        wrap="compliance_request",
        status=201,
        errors=(AccountNotFound,),
        handler=Local(ask),
    ),
    Route(
        method="GET",
        path="/compliance-requests",
        name="operator_list_compliance_requests",
        summary="Compliance requests of all accounts, newest first.",
        tag="Operator: cases",
        family=OPERATOR,
        query=ComplianceSearch,
        reply=ComplianceRequest,
        is_list=True,
        errors=(AccountNotFound,),
        handler=Read(list_requests),
    ),
    Route(
        method="GET",
        path="/compliance-requests/{id}",
        name="operator_show_compliance_request",
        summary="One compliance request, with its answers.",
        tag="Operator: cases",
        family=OPERATOR,
        reply=StaffView,
        errors=(ComplianceRequestNotFound,),
        handler=Read(show_request),
    ),
    Route(
        method="POST",
        path="/compliance-requests/{id}/decide",
        name="operator_decide_compliance_request",
        summary="Approve or reject an answer, or withdraw the request.",
        tag="Operator: cases",
        family=OPERATOR,
        body=Decision,
        reply=ComplianceRequest,
        wrap="compliance_request",
        errors=(ComplianceRequestNotFound, ComplianceRequestClosed),
        handler=Local(decide),
    ),
)
