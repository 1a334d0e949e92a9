"""The operator registers a webhook for an account."""

from __future__ import annotations

from bursar.core.errors import AccountNotFound
from bursar.features.accounts import service as accounts
from bursar.features.webhooks import service
from bursar.features.webhooks.errors import WebhookLimitReached
from bursar.features.webhooks.schemas import OperatorNewWebhook, WebhookWithSecret
from bursar.http.context import Audit, Ctx
from bursar.http.families import OPERATOR
from bursar.http.routes import Local, Route


async def register_webhook(ctx: Ctx, body: OperatorNewWebhook) -> WebhookWithSecret:
    account = await accounts.required(ctx.db, ctx.path["merchant"])
    webhook = await service.register(ctx, account.account_id, body)
    ctx.audit = Audit(account.account_id, after={"id": webhook.id, "url": webhook.url, "events": webhook.events})
    return webhook


ROUTES = (
    Route(
        method="POST",
        path="/accounts/{merchant}/webhooks",
        name="operator_register_webhook",
        summary="Register a webhook for an account; its secret is shown this once.",
        tag="Operator: accounts",
        family=OPERATOR,
        body=OperatorNewWebhook,
        reply=WebhookWithSecret,
        status=201,
        shows_secret=True,
        errors=(AccountNotFound, WebhookLimitReached),
        handler=Local(register_webhook),
    ),
)
