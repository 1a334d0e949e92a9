"""For those who integrate: checking that a webhook or an IPN is genuine, and acting on it once.

Nothing here needs the service's own code; the standard library is enough.

    from bursar.client import OrderGuard, verify_webhook

    event = verify_webhook(request.body, request.headers, "whsec_…")
    if guard.apply(event.order, event.id, event.outcome) is Step.FULFIL:
        ...
"""

from bursar.client.guard import OrderGuard, Step
from bursar.client.ipn import Ipn, api_status_reader, verify_ipn
from bursar.client.verification import VerificationFailed
from bursar.client.webhooks import WebhookEvent, verify_webhook

__all__ = [
    "Ipn",
    "OrderGuard",
    "Step",
    "VerificationFailed",
    "WebhookEvent",
    "api_status_reader",
    "verify_ipn",
    "verify_webhook",
]
