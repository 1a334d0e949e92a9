"""Staff see verification links and decide them."""

from __future__ import annotations

import msgspec
from pydantic import Field

from bursar.core.errors import AccountNotFound
from bursar.db import listing
from bursar.features.accounts import service as accounts
from bursar.features.identity import queries, service
from bursar.features.identity.errors import VerificationLinkClosed, VerificationLinkNotFound
from bursar.features.identity.schemas import Decision, VerificationLink
from bursar.features.identity.states import Status
from bursar.features.uploads import service as uploads
from bursar.features.uploads.schemas import Document
from bursar.http.caller import load_account
from bursar.http.context import Audit, Ctx
from bursar.http.envelope import Page
from bursar.http.families import OPERATOR
from bursar.http.routes import Local, Read, Route
from bursar.http.schemas import StrictQuery


class OperatorLink(msgspec.Struct):
    """A verification link with what was sent, for staff."""

    link: VerificationLink
    merchant_id: int
    document_type: str | None
    documents: list[Document]


class LinkSearch(StrictQuery):
    page: int = Field(1, ge=1, le=1_000_000)
    per_page: int = Field(25, ge=1, le=100)
    status: Status | None = None
    merchant: str | None = Field(None, max_length=40)


async def _link_of_path(ctx: Ctx) -> tuple[int, int]:
    link_id = ctx.path_id(missing=VerificationLinkNotFound)
    account_id = await queries.account_of(ctx.db, link_id)
    if account_id is None:
        raise VerificationLinkNotFound
    return account_id, link_id


async def list_links(ctx: Ctx, search: LinkSearch) -> Page:
    merchant = (await accounts.required(ctx.db, search.merchant)).account_id if search.merchant else None
    rows, total = await listing.page(
        ctx.db, queries.ALL_LINKS, (), number=search.page, size=search.per_page, sort="-id",
        filters={"status": search.status, "merchant": merchant},
    )  # fmt: skip
    links = [service.as_reply(row, row["public_id"], ctx.settings) for row in rows]
    return Page(links, search.page, search.per_page, total)


async def show_link(ctx: Ctx, _: None) -> OperatorLink:
    account_id, link_id = await _link_of_path(ctx)
    row = await queries.find(ctx.db, account_id, link_id)
    account = await load_account(ctx.db, account_id)
    assert row is not None
    assert account is not None
    ctx.audit = Audit(account_id)
    subject = f"verification_link:{link_id}"
    documents = await uploads.documents_of(ctx.db, account_id, [subject])
    link = service.as_reply(row, account.public_id, ctx.settings)
    return OperatorLink(link, account_id, row["document_type"], documents[subject])


async def decide_link(ctx: Ctx, body: Decision) -> VerificationLink:
    account_id, link_id = await _link_of_path(ctx)
    before = await queries.find(ctx.db, account_id, link_id)
    after = await service.decide(ctx, account_id, link_id, body.outcome, (body.code, body.message))
    account = await load_account(ctx.db, account_id)
    assert account is not None
    assert before is not None
    ctx.audit = Audit(account_id, before={"status": before["status"]}, after={"status": after["status"]})
    return service.as_reply(after, account.public_id, ctx.settings)


ROUTES = (
    Route(
        method="GET",
        path="/verification-links",
        name="operator_list_verification_links",
        summary="Verification links of all accounts, newest first.",
        tag="Operator: cases",
        family=OPERATOR,
        query=LinkSearch,
        reply=VerificationLink,
        is_list=True,
        errors=(AccountNotFound,),
        handler=Read(list_links),
    ),
    Route(
        method="GET",
        path="/verification-links/{id}",
        name="operator_show_verification_link",
        summary="One verification link, with what was sent.",
        tag="Operator: cases",
        family=OPERATOR,
        reply=OperatorLink,
        errors=(VerificationLinkNotFound,),
        handler=Read(show_link),
    ),
    Route(
        method="POST",
        path="/verification-links/{id}/decide",
        name="operator_decide_verification_link",
        summary="Decide an identity check.",
        tag="Operator: cases",
        family=OPERATOR,
        body=Decision,
        reply=VerificationLink,
        wrap="verification_link",
        errors=(VerificationLinkNotFound, VerificationLinkClosed),
        handler=Local(decide_link),
    ),
)
