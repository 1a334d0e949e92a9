"""From pending to active, in the transaction of whatever cleared the last obstacle; and the identity status."""

from __future__ import annotations

from bursar.db.pool import Record
from bursar.features.accounts import connected_queries, queries, readiness
from bursar.features.accounts.replies import full_reply
from bursar.http.caller import load_account
from bursar.http.context import Ctx

# (identity status, what happened) → identity status. What is not listed changes nothing: once an identity is
# verified, another link that was still open cannot undo it.
KYC = {
    ("pending", "verified"): "verified",
    ("pending", "rejected"): "rejected",
    ("rejected", "verified"): "verified",
    ("rejected", "link_created"): "pending",
    ("rejected", "reverification"): "pending",
    ("verified", "reverification"): "pending",
}


async def kyc_event(ctx: Ctx, account_id: int, happened: str) -> None:
    """Moves the account's identity status, and activates the account if that was the last obstacle."""
    row = await queries.lock_account(ctx.db, account_id)
    assert row is not None
    status = KYC.get((row["kyc_status"], happened))
    if status is not None:
        await connected_queries.set_kyc_status(ctx.db, account_id, status, ctx.now)
        ctx.account_changed(account_id)
    await activate_if_ready(ctx, account_id)


async def activate_if_ready(ctx: Ctx, account_id: int) -> Record | None:
    """The account if it became active just now. Its row is locked first, so two who clear the last obstacles meet."""
    row = await queries.lock_account(ctx.db, account_id)
    assert row is not None
    if row["status"] != "pending" or row["kyc_status"] != "verified":
        return None
    known = await readiness.facts(ctx.db, [account_id])
    if not readiness.may_activate(row, known[account_id]):
        return None
    after = await connected_queries.set_active(ctx.db, account_id, ctx.now)
    ctx.account_changed(account_id)
    account = await load_account(ctx.db, account_id)
    assert account is not None
    connected = account.platform_id is not None
    data = {"account": await full_reply(ctx.db, after, for_platform=connected)}
    type_ = "connected_account.activated" if connected else "account.update"
    ctx.emit_for(account, type_, data, previous={"status": "pending"})
    return after
