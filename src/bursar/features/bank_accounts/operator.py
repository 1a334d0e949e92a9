"""Staff clear or disable a bank account."""

from __future__ import annotations

from bursar.core.errors import BankAccountNotFound
from bursar.features.bank_accounts import queries, service
from bursar.features.bank_accounts.schemas import BankAccount, Decision
from bursar.http.context import Audit, Ctx
from bursar.http.families import OPERATOR
from bursar.http.routes import Local, Route


async def decide(ctx: Ctx, body: Decision) -> BankAccount:
    row = await queries.find_anywhere(ctx.db, service.parse_id(ctx.path["id"]))
    if row is None:
        raise BankAccountNotFound
    after = await service.decide(ctx, row, body.decision)
    ctx.audit = Audit(
        row["account_id"], before={"status": row["status"]}, after={"status": after["status"], "notes": body.notes}
    )
    return service.as_reply(after)


ROUTES = (
    Route(
        method="POST",
        path="/bank-accounts/{id}/decide",
        name="operator_decide_bank_account",
        summary="Clear a bank account whose name did not match, or disable one.",
        tag="Operator: cases",
        family=OPERATOR,
        body=Decision,
        reply=BankAccount,
        wrap="bank_account",
        errors=(BankAccountNotFound,),
        handler=Local(decide),
    ),
)
