"""The operator's side of wallets: adjustments, and the audit of the whole ledger."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from bursar.core.calendar import settlement_date
from bursar.core.errors import AccountNotFound, CurrencyNotSupported, ServiceUnavailable, ValidationFailed
from bursar.core.money import InvalidAmount, parse_major
from bursar.features.accounts import service as accounts
from bursar.features.payments.service import CHECKS
from bursar.features.wallets import queries, service
from bursar.features.wallets.schemas import AuditRequest, NewAdjustment, Wallet
from bursar.http.context import Audit, Ctx
from bursar.http.families import OPERATOR
from bursar.http.routes import Local, Outside, Processor, Route
from bursar.ledger import audit, journals, seals
from bursar.ledger.audit import Report
from bursar.ledger.post import post

AUDIT_LONGEST_S = 300.0


async def adjust(ctx: Ctx, new: NewAdjustment) -> Wallet:
    account = await accounts.required(ctx.db, ctx.path["merchant"])
    if new.currency not in ctx.settings.currencies:
        raise CurrencyNotSupported
    try:
        amount = parse_major(new.amount, new.currency)
    except InvalidAmount as error:
        raise ValidationFailed(details={"amount": [str(error)]}) from None
    if amount == 0:
        raise ValidationFailed(details={"amount": ["must not be zero"]})
    number = await ctx.db.fetchval("SELECT nextval('wallet_adjustment_id')")
    journal = journals.adjustment(
        account_id=account.account_id,
        adjustment_id=number,
        currency=new.currency,
        amount=amount,
        pending=new.bucket == "pending",
        settles_at=settlement_date(ctx.now),
        note=new.note,
    )
    await post(ctx.db, [journal], require=True)
    ctx.audit = Audit(account.account_id, after={"adjustment_id": number, **new.model_dump(mode="json")})
    rows = await queries.wallets(ctx.db, account.account_id)
    return next(service.as_wallet(row, account) for row in rows if row["currency"] == new.currency)


async def _ask(ctx: Ctx, asked: AuditRequest | None) -> Mapping[str, Any]:
    return {"anchor": asked.anchor if asked else None}


async def _verify(outside: Outside, intent: Mapping[str, Any]) -> Any:
    """Seals what waits for a seal, so that the reported head covers it, then audits in a session of its own."""
    while await seals.seal(outside.db):
        pass
    async with audit.session(outside.settings.database_url.get_secret_value()) as session:
        return msgspec.to_builtins(await audit.verify(session, anchor=intent["anchor"], more=CHECKS))


async def _report(ctx: Ctx, intent: Mapping[str, Any], outcome: Any) -> Report:
    report = msgspec.convert(outcome, Report)
    ctx.audit = Audit(after={"ok": report.ok, "head": report.head})
    return report


async def _late(ctx: Ctx, intent: Mapping[str, Any]) -> Any:
    raise ServiceUnavailable("The audit takes longer than a request may; run `bursar audit verify`.")


async def _never(intent: Mapping[str, Any]) -> Any:
    raise AssertionError("the operator API has no sandbox")


ROUTES = (
    Route(
        method="POST",
        path="/accounts/{merchant}/wallet-adjustments",
        name="operator_adjust_wallet",
        summary="Correct a wallet, up or down, against the service's adjustment account.",
        tag="Operator: accounts",
        family=OPERATOR,
        body=NewAdjustment,
        reply=Wallet,
        status=201,
        errors=(AccountNotFound, CurrencyNotSupported),
        handler=Local(adjust),
    ),
    Route(
        method="POST",
        path="/audit/verify",
        name="operator_verify_ledger",
        summary="Prove that journals, wallets and seals agree, or say where they do not.",
        tag="Operator",
        family=OPERATOR,
        body=AuditRequest,
        reply=Report,
        handler=Processor("audit_verify", _ask, _verify, _report, _late, _never, AUDIT_LONGEST_S),
    ),
)
