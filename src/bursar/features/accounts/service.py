"""Opening and changing accounts."""

from __future__ import annotations

import msgspec

from bursar.core import ids
from bursar.core.errors import (
    AccountNotFound,
    ConnectedAccountDuplicate,
    CurrencyNotSupported,
    DuplicateResource,
    ValidationFailed,
)
from bursar.db.pool import Queryable, Record
from bursar.features.accounts import pricing, queries
from bursar.features.accounts.replies import as_reply
from bursar.features.accounts.schemas import (
    AccountBundle,
    AccountChanges,
    NewAccount,
    NewPartner,
)
from bursar.features.api_keys import service as api_keys
from bursar.http.caller import load_account
from bursar.http.context import Account, Ctx


async def open_account(ctx: Ctx, new: NewAccount) -> AccountBundle:
    """A new account with its first keys, in the caller's transaction."""
    if new.currency not in ctx.settings.currencies:
        raise CurrencyNotSupported
    platform = await _owning_platform(ctx, new)
    number = await queries.next_account_number(ctx.db)
    if platform is not None and not await queries.claim_email(ctx.db, number, new.email):
        raise ConnectedAccountDuplicate
    row = await queries.insert_account(
        ctx.db,
        {
            "account_id": number,
            "public_id": ids.new_account_id(number),
            "kind": new.kind,
            "platform_id": platform.account_id if platform else None,
            "platform_public_id": platform.public_id if platform else None,
            "business_company_name": new.name,
            "email": new.email,
            "country_code": new.country_code,
            "currency": new.currency,
            "status": new.status,
            "kyc_status": new.kyc_status,
            "connect_enabled": new.kind == "platform",
            "partner_enabled": new.partner_enabled,
            "fee_payer": new.fee_payer,
            "public_key": ids.new_key("public"),
            "client_key": ids.new_key("client"),
            "now": ctx.now,
        },
    )
    if platform is not None:
        await _tell_created(ctx, number)
    secret = await api_keys.issue(ctx, number, "secret")
    test = await api_keys.issue(ctx, number, "test")
    return AccountBundle(
        row["public_id"], number, row["kind"], secret.key, test.key, row["public_key"], row["client_key"]
    )


async def _owning_platform(ctx: Ctx, new: NewAccount) -> Account | None:
    if new.platform is None:
        return None
    account = await find_by_any_id(ctx.db, str(new.platform))
    if account is None or account.kind != "platform" or new.kind != "merchant":
        raise ValidationFailed(details={"platform": ["must name an existing platform, for a merchant"]})
    return account


async def _tell_created(ctx: Ctx, number: int) -> None:
    account = await load_account(ctx.db, number)
    row = await queries.find_account(ctx.db, number)
    assert account is not None
    assert row is not None
    ctx.emit_for(account, "connected_account.created", {"account": as_reply(row, for_platform=True)})


async def find_by_any_id(db: Queryable, named: str) -> Account | None:
    """An account by its full id or its merchant number, whoever owns it: for the operator alone."""
    parsed = ids.parse_account_id(named)
    if parsed is None or parsed[0] < 1001:
        return None
    account = await load_account(db, parsed[0])
    return account if account and parsed[1] in (None, account.public_id) else None


async def required(db: Queryable, named: str) -> Account:
    account = await find_by_any_id(db, named)
    if account is None:
        raise AccountNotFound("There is no such account.")
    return account


async def change_account(ctx: Ctx, account_id: int, changes: AccountChanges) -> tuple[Record, Record]:
    """The account before and after an operator's changes, with the events that tell of them."""
    before = await queries.lock_account(ctx.db, account_id)
    assert before is not None
    given = changes.model_dump(exclude_none=True)
    unknown = set(given.get("merchant_pricing", {})) - set(pricing.DEFAULTS)
    if unknown:
        raise ValidationFailed(details={f"merchant_pricing.{name}": ["is not a price"] for name in sorted(unknown)})
    for name in ("capabilities", "payout_hard_caps", "merchant_pricing"):
        if name in given:
            given[name] = {**before[name], **given[name]}
    values = {**before, **given}
    if values == dict(before):
        return before, before
    after = await queries.update_account(ctx.db, account_id, values, ctx.now)
    ctx.account_changed(account_id)
    await _tell_changes(ctx, before, after)
    return before, after


async def _tell_changes(ctx: Ctx, before: Record, after: Record) -> None:
    account = await load_account(ctx.db, after["account_id"])
    assert account is not None
    data = {"account": as_reply(after, for_platform=account.platform_id is not None)}
    shown = ("status", "kyc_status", "connect_status")
    previous = {name: before[name] for name in shown if before[name] != after[name]}
    ctx.emit_for(account, "account.update", data, previous=previous)
    told = {"active": "activated", "review": "review", "banned": "banned"}.get(after["status"])
    if account.platform_id is not None and told and before["status"] != after["status"]:
        ctx.emit_for(account, f"connected_account.{told}", data, previous=previous)


async def add_team_member(ctx: Ctx, account_id: int, name: str, email: str) -> int:
    number = await queries.insert_team_member(ctx.db, account_id, name, email, ctx.now)
    if number is None:
        raise DuplicateResource("This person is already in the team.")
    return number


async def open_partner(ctx: Ctx, parent: Account, new: NewPartner) -> AccountBundle:
    """A second-tier platform under a parent platform."""
    if parent.kind != "platform" or parent.platform_id is not None or not parent.partner_enabled:
        raise ValidationFailed(details={"merchant": ["must be a main platform with partners enabled"]})
    bundle = await open_account(
        ctx,
        NewAccount(kind="platform", name=new.name, email=new.email, currency=parent.currency),
    )
    policies = new.policies.model_dump()
    policies["max_transfer_minor"] = int(policies.pop("max_transfer") * 100)
    await queries.insert_partner(
        ctx.db,
        parent.account_id,
        bundle.merchant_id,
        {
            "name": new.name,
            "state": "active" if new.agreement == "accepted" else "pending",
            "model": new.model,
            "share_bps": int(new.share_percent * 100),
            "policies": policies,
            "accepted_at": ctx.now if new.agreement == "accepted" else None,
            "now": ctx.now,
        },
    )
    return msgspec.structs.replace(bundle, partner_id=bundle.merchant_id)
