"""The operator issues and revokes keys for accounts."""

from __future__ import annotations

from bursar.core.errors import AccountNotFound, NotFound
from bursar.features.accounts import service as accounts
from bursar.features.api_keys import service
from bursar.features.api_keys.schemas import ApiKey, IssueBody, NewApiKey
from bursar.http.context import Audit, Ctx
from bursar.http.families import OPERATOR
from bursar.http.routes import Local, Route


async def issue_key(ctx: Ctx, body: IssueBody) -> NewApiKey:
    account = await accounts.required(ctx.db, ctx.path["merchant"])
    new = await service.issue(ctx, account.account_id, body.kind, body.scopes)
    ctx.audit = Audit(account.account_id, after={"id": new.id, "kind": new.kind, "scopes": new.scopes})
    return new


async def revoke_key(ctx: Ctx, _: None) -> ApiKey:
    account = await accounts.required(ctx.db, ctx.path["merchant"])
    revoked = await service.revoke(ctx, account.account_id, ctx.path_id())
    ctx.audit = Audit(account.account_id, after={"id": revoked.id, "revoked_at": revoked.revoked_at})
    return revoked


ROUTES = (
    Route(
        method="POST",
        path="/accounts/{merchant}/keys",
        name="operator_issue_key",
        summary="Issue a key, shown this once.",
        tag="Operator: accounts",
        family=OPERATOR,
        body=IssueBody,
        reply=NewApiKey,
        status=201,
        shows_secret=True,
        errors=(AccountNotFound,),
        handler=Local(issue_key),
    ),
    Route(
        method="DELETE",
        path="/accounts/{merchant}/keys/{id}",
        name="operator_revoke_key",
        summary="Revoke a key.",
        tag="Operator: accounts",
        family=OPERATOR,
        reply=ApiKey,
        errors=(AccountNotFound, NotFound),
        handler=Local(revoke_key),
    ),
)
