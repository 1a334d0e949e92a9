"""What can be wrong with a webhook."""

from __future__ import annotations

from bursar.core.errors import ApiError


class WebhookLimitReached(ApiError, code="webhook_limit_reached", status=422):
    """The account has reached its number of webhooks."""


class WebhookNotActive(ApiError, code="webhook_not_active", status=409):
    """The webhook is disabled or was deleted; nothing is sent to it."""
