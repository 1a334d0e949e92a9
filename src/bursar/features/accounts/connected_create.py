"""Connecting a merchant to a platform: one account for one e-mail address, with what its representative signed."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from bursar.core import ids
from bursar.core.clock import real_now
from bursar.core.errors import ConnectedAccountCreateFailed, ConnectedAccountDuplicate, ValidationFailed
from bursar.features.accounts import connected_queries, countries, queries, safety, signature
from bursar.features.accounts.connected_schemas import NewConnectedAccount
from bursar.features.accounts.replies import full_reply
from bursar.features.accounts.schemas import AccountReply
from bursar.features.uploads import service as uploads
from bursar.features.uploads.errors import UnsupportedFileType
from bursar.features.uploads.inspection import Inspected, inspect
from bursar.http.body import Upload
from bursar.http.caller import Gate, admit, load_account
from bursar.http.context import Account, Ctx

CLOCK_SKEW = timedelta(minutes=5)


async def create(ctx: Ctx, platform: Account, new: NewConnectedAccount) -> AccountReply:
    admit(platform, Gate.WRITE)
    await safety.refuse_if_blocked(ctx.db, platform)
    if new.terms_accepted_at > max(ctx.now, real_now()) + CLOCK_SKEW:
        raise ValidationFailed(details={"terms_accepted_at": ["must not be in the future"]})
    number = await queries.next_account_number(ctx.db)
    # A test key's dry runs must neither see nor hold the addresses of real accounts.
    kind = "sandbox_email" if ctx.caller is not None and ctx.caller.kind == "test" else "connected_email"
    if not await connected_queries.claim_email(ctx.db, number, new.email, kind):
        raise ConnectedAccountDuplicate(details={"email": ["is already in use"]})
    signed = await _signature(new)
    currency = countries.currency_of(new.country_code)
    row = await connected_queries.insert_account(
        ctx.db,
        {
            "account_id": number,
            "public_id": ids.new_account_id(number),
            "platform_id": platform.account_id,
            "platform_public_id": platform.public_id,
            "business_company_name": new.business_company_name,
            "email": new.email,
            "country_code": new.country_code,
            "currency": currency if currency in ctx.settings.currencies else platform.currency,
            "fee_payer": platform.fee_payer,
            "connect_email_sms_handle": new.connect_email_sms_handle,
            "application_fee_defaults": dict(platform.application_fee_defaults),
            "metadata": new.metadata,
            "public_key": ids.new_key("public"),
            "client_key": ids.new_key("client"),
            "now": ctx.now,
        },
    )
    document = await uploads.keep(ctx, number, signed, purpose="signature", subject=f"account:{number}")
    kept_as = "typed" if new.signature is None else "image"
    await connected_queries.insert_profile(ctx.db, number, new, kept_as, document.id, ctx.now)
    await connected_queries.insert_owners(ctx.db, number, new)
    account = await load_account(ctx.db, number)
    assert account is not None
    reply = await full_reply(ctx.db, row, for_platform=True)
    ctx.emit_for(account, "connected_account.created", {"account": reply})
    return reply


async def _signature(new: NewConnectedAccount) -> Inspected:
    """The image that was sent, or the legal name drawn."""
    if new.signature is not None:
        sent = Upload("signature.png", new.signature, "image/png")
        try:
            return await inspect(sent, field="signature_png_base64")
        except UnsupportedFileType as error:
            raise ValidationFailed(details=error.details) from error
    try:
        drawn = await asyncio.to_thread(signature.draw, new.legal_name, new.terms_accepted_at)
    except signature.CannotDraw:
        raise ConnectedAccountCreateFailed(
            "The legal name cannot be drawn as a signature; send signature_png_base64.",
            details={"legal_name": ["has signs that cannot be drawn"]},
        ) from None
    return Inspected("signature.png", "image/png", drawn)
