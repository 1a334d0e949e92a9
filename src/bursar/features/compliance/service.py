"""Compliance requests: asked, answered, decided; and what they hold back meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any, Literal

from bursar.core.errors import ValidationFailed
from bursar.db.pool import Queryable, Record
from bursar.features.accounts import activation
from bursar.features.compliance import queries
from bursar.features.compliance.errors import ComplianceRequestNotFound, DocumentRequired
from bursar.features.compliance.schemas import ComplianceRequest, NewComplianceRequest, Response
from bursar.features.compliance.states import move
from bursar.features.uploads import service as uploads
from bursar.features.uploads.inspection import inspect_all
from bursar.features.uploads.schemas import Document
from bursar.http.caller import load_account
from bursar.http.context import Account, Ctx

DUE_AFTER = timedelta(days=14)
ANSWER_LONGEST = 5000


def subject(request_id: int) -> str:
    return f"compliance_request:{request_id}"


async def ask(ctx: Ctx, account: Account, new: NewComplianceRequest) -> ComplianceRequest:
    """Staff ask an account for something. What the request blocks is blocked from now on."""
    due_at = new.due_at or ctx.now + DUE_AFTER
    if due_at <= ctx.now:
        raise ValidationFailed(details={"due_at": ["must be in the future"]})
    row = await queries.insert(
        ctx.db,
        account.account_id,
        {
            "type": new.type,
            "title": new.title,
            "description": new.description,
            "fields": [field.model_dump() for field in new.fields],
            "blocking": sorted(set(new.blocking)),
            "due_at": due_at,
        },
        ctx.now,
    )
    await _renew_holds(ctx, account.account_id)
    reply = as_reply(row, account.public_id, [])
    ctx.emit_for(account, "compliance.requested", {"compliance_request": reply})
    return reply


async def respond(ctx: Ctx, request_id: int, sent: Response) -> ComplianceRequest:
    row = await queries.lock(ctx.db, ctx.account.account_id, request_id)
    if row is None:
        raise ComplianceRequestNotFound
    move(row["status"], "respond")
    _check_answers(row, sent)
    for file in await inspect_all(sent.files):
        await uploads.keep(ctx, ctx.account.account_id, file, purpose="compliance", subject=subject(request_id))
    await queries.insert_response(ctx.db, ctx.account.account_id, request_id, sent.answers, ctx.now)
    after = await queries.set_submitted(ctx.db, row, ctx.now)
    reply = await full_reply(ctx.db, after, ctx.account.public_id)
    ctx.emit("compliance.submitted", {"compliance_request": reply}, previous={"status": row["status"]})
    return reply


def _check_answers(row: Record, sent: Response) -> None:
    """Every required field answered, every answer of its field's type, nothing that was not asked."""
    fields: dict[str, dict[str, Any]] = {field["key"]: field for field in row["fields"]}
    problems: dict[str, list[str]] = {}
    for key, value in sent.answers.items():
        field = fields.get(key)
        if field is None or field["type"] == "file":
            problems[f"answers.{key}"] = ["is not a field of this request"]
        elif problem := _problem(field["type"], value):
            problems[f"answers.{key}"] = [problem]
    for key, field in fields.items():
        if field["type"] != "file" and field["required"] and sent.answers.get(key) in (None, ""):
            problems.setdefault(f"answers.{key}", ["is required"])
    if problems:
        raise ValidationFailed(details=problems)
    wanted = sum(field["type"] == "file" and field["required"] for field in fields.values())
    least = max(wanted, 1 if row["type"] == "document" else 0)
    if len(sent.files) < least:
        raise DocumentRequired(details={"files": [f"at least {least} needed"]})


def _problem(type_: str, value: Any) -> str | None:
    """Why the value does not answer a field of this type; numbers and truth values may come as text, in a form."""
    text = str(value)
    if isinstance(value, dict | list) or len(text) > ANSWER_LONGEST:
        return "must be a plain value of at most 5,000 characters"
    if type_ == "number" and not text.replace(".", "", 1).removeprefix("-").isdecimal():
        return "must be a number"
    if type_ == "boolean" and text.lower() not in ("true", "false"):
        return "must be true or false"
    if type_ == "date":
        try:
            date.fromisoformat(text)
        except ValueError:
            return "must be a date as YYYY-MM-DD"
    return None


async def decide(
    ctx: Ctx, account: Account, request_id: int, decision: Literal["approved", "rejected", "cancelled"],
    notes: str | None,
) -> tuple[Record, ComplianceRequest]:  # fmt: skip
    """The request before, and as decided. Clearing the last one that blocks activates the account."""
    row = await queries.lock(ctx.db, account.account_id, request_id)
    if row is None:
        raise ComplianceRequestNotFound
    status = move(row["status"], decision)
    after = await queries.set_decided(ctx.db, row, status, notes, ctx.now)
    await _renew_holds(ctx, account.account_id)
    reply = await full_reply(ctx.db, after, account.public_id)
    if decision != "cancelled":
        data = {"compliance_request": reply}
        ctx.emit_for(account, f"compliance.{decision}", data, previous={"status": row["status"]})
    await activation.activate_if_ready(ctx, account.account_id)
    return row, reply


async def overdue(ctx: Ctx, request_id: int) -> bool:
    """The time to answer is over; what the request blocks stays blocked until staff decide."""
    row = await queries.set_expired(ctx.db, ctx.account.account_id, request_id, ctx.now)
    if row is None:
        return False
    reply = await full_reply(ctx.db, row, ctx.account.public_id)
    ctx.emit("compliance.overdue", {"compliance_request": reply})
    return True


async def _renew_holds(ctx: Ctx, account_id: int) -> None:
    if await queries.renew_holds(ctx.db, account_id):
        ctx.account_changed(account_id)


async def full_reply(db: Queryable, row: Record, public_id: str) -> ComplianceRequest:
    [reply] = await full_replies(db, [row], row["account_id"], public_id)
    return reply


async def full_replies(
    db: Queryable, rows: Sequence[Record], account_id: int, public_id: str
) -> list[ComplianceRequest]:
    """Requests of one account with their documents."""
    documents = await uploads.documents_of(db, account_id, [subject(row["id"]) for row in rows])
    return [as_reply(row, public_id, documents[subject(row["id"])]) for row in rows]


def as_reply(row: Record, public_id: str, documents: list[Document]) -> ComplianceRequest:
    names = set(ComplianceRequest.__struct_fields__) - {"account_id", "documents"}
    return ComplianceRequest(account_id=public_id, documents=documents, **{name: row[name] for name in names})


async def required_account(db: Queryable, request_id: int) -> Account:
    """The account of a request, for staff."""
    account_id = await queries.account_of(db, request_id)
    account = await load_account(db, account_id) if account_id is not None else None
    if account is None:
        raise ComplianceRequestNotFound
    return account
