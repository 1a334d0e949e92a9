"""Verification links: made, opened, answered, decided; and what a decision means for the account."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from bursar.db.pool import Record
from bursar.features.accounts import activation
from bursar.features.identity import queries
from bursar.features.identity.errors import (
    IdentityAlreadyVerified,
    VerificationLinkExpired,
    VerificationLinkNotFound,
)
from bursar.features.identity.schemas import LastError, NewVerificationLink, VerificationLink
from bursar.features.identity.states import FINAL, OPEN, WAITING, Status, move
from bursar.features.uploads import service as uploads
from bursar.features.uploads.inspection import Inspected
from bursar.http.caller import load_account
from bursar.http.context import Ctx
from bursar.settings import Settings

PAGE = "verify"
Outcome = Literal["verified", "rejected", "requires_input"]

# What the person is told when nothing more precise is known.
ERRORS: dict[str, tuple[str, str]] = {
    "requires_input": ("document_unreadable", "The pictures could not be read. Please take them again."),
    "rejected": ("identity_rejected", "The identity could not be confirmed."),
}


@dataclass(frozen=True, slots=True)
class Submission:
    """What the person sent on the page."""

    document_type: str
    document: Inspected
    selfie: Inspected
    simulated_outcome: str | None = None


async def create(ctx: Ctx, new: NewVerificationLink) -> VerificationLink:
    account = await load_account(ctx.db, ctx.account.account_id)
    assert account is not None
    if account.kyc_status == "verified" and new.purpose == "onboarding":
        raise IdentityAlreadyVerified
    row = await queries.insert(
        ctx.db,
        account.account_id,
        {**new.model_dump(exclude={"expires_in"}), "expires_at": ctx.now + timedelta(seconds=new.expires_in)},
        ctx.now,
    )
    happened = "reverification" if new.purpose == "reverification" else "link_created"
    await activation.kyc_event(ctx, account.account_id, happened)
    reply = as_reply(row, ctx.account.public_id, ctx.settings)
    ctx.emit("kyc.link_created", {"verification_link": reply})
    return reply


async def cancel(ctx: Ctx, link_id: int) -> VerificationLink:
    row = await queries.lock(ctx.db, ctx.account.account_id, link_id)
    if row is None:
        raise VerificationLinkNotFound
    status = move(row["status"], "cancel")
    after = await queries.set_status(ctx.db, row, status, ctx.now, final=True)
    return as_reply(after, ctx.account.public_id, ctx.settings)


async def open_page(ctx: Ctx, link_id: int) -> Record:
    """The link as its page shows it: opening it is noted, and past its time it is expired whatever the sweep did."""
    row = await queries.lock(ctx.db, ctx.account.account_id, link_id)
    if row is None:
        raise VerificationLinkNotFound
    if row["status"] in WAITING and row["expires_at"] <= ctx.now:
        return await queries.set_status(ctx.db, row, move(row["status"], "expire"), ctx.now, final=True)
    if row["status"] == "pending":
        return await queries.set_status(ctx.db, row, move("pending", "open"), ctx.now, final=False)
    return row


async def submit(ctx: Ctx, link_id: int, sent: Submission) -> Record:
    """Keeps what was sent and has it checked: by the simulator on a test instance, by staff otherwise."""
    row = await open_page(ctx, link_id)
    if row["status"] == "expired":
        raise VerificationLinkExpired
    move(row["status"], "submit")
    account_id, subject = row["account_id"], f"verification_link:{link_id}"
    document = await uploads.keep(ctx, account_id, sent.document, purpose="identity_document", subject=subject)
    selfie = await uploads.keep(ctx, account_id, sent.selfie, purpose="identity_selfie", subject=subject)
    simulated = sent.simulated_outcome if ctx.settings.is_test else None
    return await queries.set_submitted(
        ctx.db,
        row,
        {
            "document_type": sent.document_type,
            "document_upload_id": document.id,
            "selfie_upload_id": selfie.id,
            "simulated_outcome": simulated,
            "check_due_at": ctx.now if simulated else None,
        },
        ctx.now,
    )


async def decide(
    ctx: Ctx, account_id: int, link_id: int, outcome: Outcome, error: tuple[str | None, str | None] = (None, None)
) -> Record:
    """The outcome of a check, by whoever made it, and what follows for the account."""
    row = await queries.lock(ctx.db, account_id, link_id)
    if row is None:
        raise VerificationLinkNotFound
    status = move(row["status"], outcome)
    problem = None
    if outcome in ERRORS:
        code, message = ERRORS[outcome]
        problem = (error[0] or code, error[1] or message)
    after = await queries.set_status(ctx.db, row, status, ctx.now, final=status in FINAL, error=problem)
    account = await load_account(ctx.db, account_id)
    assert account is not None
    reply = as_reply(after, account.public_id, ctx.settings)
    ctx.emit_for(account, f"kyc.{outcome}", {"verification_link": reply}, previous={"status": row["status"]})
    if outcome != "requires_input":
        await activation.kyc_event(ctx, account_id, outcome)
    return after


def page_url(settings: Settings, account_id: int, link_id: int) -> str:
    return f"{settings.public_url}/{PAGE}/{settings.page_keys.token(PAGE, account_id, link_id)}"


def as_reply(row: Record, public_id: str, settings: Settings) -> VerificationLink:
    status: Status = row["status"]
    return VerificationLink(
        id=row["id"],
        account_id=public_id,
        url=page_url(settings, row["account_id"], row["id"]) if status in OPEN else None,
        status=status,
        purpose=row["purpose"],
        person_reference=row["person_reference"],
        return_url=row["return_url"],
        last_error=LastError(row["error_code"], row["error_message"]) if row["error_code"] else None,
        metadata=row["metadata"],
        expires_at=row["expires_at"],
        completed_at=row["completed_at"],
        created_at=row["created_at"],
    )
