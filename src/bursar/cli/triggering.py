"""How each event is made to happen on a test instance: the requests that a merchant, a customer or staff would make.

Nothing is faked: an event that cannot be driven through the instance's own API yet is said to be so.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bursar.cli import options
from bursar.cli.account_client import AccountClient
from bursar.cli.client import ClientError, OperatorClient

GOOD, DECLINED, DISPUTED = "4242424242424242", "4000000000000002", "4000000000000259"
NOWHERE = "http://127.0.0.1:9/ipn"  # on this machine, where nobody listens


@dataclass(frozen=True)
class Scene:
    """The operator's side of the instance, and the account that something happens to."""

    ops: OperatorClient
    merchant: AccountClient
    account: Mapping[str, Any]
    ipn_url: str = NOWHERE

    @property
    def number(self) -> int:
        return int(self.account["merchant_id"])


Recipe = Callable[[Scene], Iterator[str]]


def perform(event: str, scene: Scene) -> Iterator[str]:
    """Does what makes the event happen, a line per step."""
    recipe = RECIPES.get(event)
    if recipe is None:
        raise ClientError(f"{event} cannot be triggered yet; these can: {', '.join(sorted(RECIPES))}")
    before = _newest(event, scene)
    try:
        yield from recipe(scene)
    except ClientError as error:
        if "endpoint_not_found" in str(error):
            raise ClientError(f"this instance does not have what makes {event} happen") from error
        raise
    scene.ops.post("/jobs/run", {})
    newest = _newest(event, scene)
    if newest == before:
        raise ClientError(f"all of this was done, but this instance has no {event} for it yet")
    yield f"{event} has happened: {newest}"


def _newest(event: str, scene: Scene) -> str | None:
    found = scene.merchant.get("/events", type=event, per_page=1).data
    return str(found[0]["id"]) if found else None


# Payments ------------------------------------------------------------------------------------------------------


def _checkout(scene: Scene, **more: Any) -> Mapping[str, Any]:
    body = {
        "identifier": f"trigger-{secrets.token_hex(5)}",
        "amount": 10,
        "currency": scene.account.get("currency", "GBP"),
        "details": "Triggered from the command line",
        "ipn_url": scene.ipn_url,
        "success_url": "https://example.com/paid",
        "cancel_url": "https://example.com/cancelled",
        "customer_name": "Test Customer",
        "customer_email": "customer@example.com",
        **more,
    }
    made: Mapping[str, Any] = scene.merchant.post("/hosted-payments", body).data
    return made


def _pay(scene: Scene, checkout: Mapping[str, Any], card: str) -> None:
    place = options.path("simulator", "checkouts", checkout["payment_reference"], "pay")
    scene.ops.post(place, {"card": card})


def _created(scene: Scene) -> Iterator[str]:
    yield f"Created checkout {_checkout(scene)['payment_reference']}."


def _paid_with(card: str) -> Recipe:
    def recipe(scene: Scene) -> Iterator[str]:
        checkout = _checkout(scene)
        yield f"Created checkout {checkout['payment_reference']}."
        _pay(scene, checkout, card)
        yield f"The customer tried a card that ends in {card[-4:]}."

    return recipe


def _then(action: str, body: Mapping[str, Any], *, paid: bool) -> Recipe:
    def recipe(scene: Scene) -> Iterator[str]:
        checkout = _checkout(scene)
        yield f"Created checkout {checkout['payment_reference']}."
        if paid:
            _pay(scene, checkout, GOOD)
            yield "The customer paid."
        scene.merchant.post(options.path("transactions", checkout["transaction_id"], action), body)
        yield f"Asked for {action}."

    return recipe


def _proof(decision: str | None = None, *, submitted: bool = False) -> Recipe:
    def recipe(scene: Scene) -> Iterator[str]:
        checkout = _checkout(scene)
        _pay(scene, checkout, GOOD)
        yield f"Checkout {checkout['payment_reference']} was paid."
        place = ("transactions", checkout["transaction_id"])
        scene.ops.post(options.path(*place, "proof-requests"), {"reason": "Triggered"})
        yield "Staff asked for proof."
        if submitted or decision is not None:
            proof = {"courier_company": "Royal Mail", "tracking_number": "TRIGGER1", "merchant_notes": "Triggered"}
            scene.merchant.post(options.path(*place, "proof"), proof)
            yield "The merchant sent it."
        if decision is not None:
            scene.ops.post(options.path(*place, "proof", decision), {"notes": "Triggered"})
            yield f"Staff decided: {decision}."

    return recipe


def _expired(scene: Scene) -> Iterator[str]:
    checkout = _checkout(scene, expires_in=1800)
    yield f"Created checkout {checkout['payment_reference']}."
    scene.ops.post("/clock/advance", {"seconds": 1801})
    yield "Moved the clock by half an hour."


# Accounts and their people -------------------------------------------------------------------------------------


def _updated(scene: Scene) -> Iterator[str]:
    paused = bool(scene.account.get("payments_paused"))
    place = options.path("accounts", scene.number)
    scene.ops.patch(place, {"payments_paused": not paused})
    scene.ops.patch(place, {"payments_paused": paused})
    yield "Changed the account and changed it back."


def _connected(status: str | None) -> Recipe:
    def recipe(scene: Scene) -> Iterator[str]:
        if scene.account.get("kind") != "platform":
            raise ClientError("only platforms have connected accounts; name one with --account")
        email = f"{secrets.token_hex(5)}@example.com"
        body = {"kind": "merchant", "name": "Triggered Shop", "email": email, "platform": scene.number}
        made = scene.ops.post("/accounts", {**body, "status": "pending"} if status == "active" else body).data
        yield f"Opened {made['account_id']}."
        if status is not None:
            scene.ops.patch(options.path("accounts", made["merchant_id"]), {"status": status})
            yield f"Set it to {status}."

    return recipe


def _kyc(outcome: str | None) -> Recipe:
    def recipe(scene: Scene) -> Iterator[str]:
        reply = scene.merchant.post("/identity/verification-links", {"purpose": "reverification"})
        link = reply.data["verification_link"]
        yield f"Created verification link {link['id']}."
        if outcome is not None:
            scene.ops.post(options.path("verification-links", link["id"], "decide"), {"outcome": outcome})
            yield f"Decided: {outcome}."

    return recipe


def _compliance(scene: Scene) -> Iterator[str]:
    body = {
        "merchant": str(scene.number), "type": "information", "title": "Triggered", "description": "Triggered",
        "fields": [{"key": "answer", "label": "Answer", "type": "text", "required": True}],
    }  # fmt: skip
    scene.ops.post("/compliance-requests", body)
    yield "Staff asked for information."


def _ticket(*, replied: bool) -> Recipe:
    def recipe(scene: Scene) -> Iterator[str]:
        body = {"subject": "Triggered", "category": "other", "body": "Triggered from the command line"}
        ticket = scene.merchant.post("/support/tickets", body).data["ticket"]
        yield f"Opened ticket {ticket['ticket_ref']}."
        if replied:
            scene.ops.post(options.path("support-tickets", ticket["id"], "messages"), {"body": "Triggered"})
            yield "Staff replied."

    return recipe


def _tested(scene: Scene) -> Iterator[str]:
    webhooks = scene.merchant.get("/webhooks", status="active").data
    if not webhooks:
        raise ClientError("the account has no active webhook to test")
    for webhook in webhooks:
        scene.merchant.post(options.path("webhooks", webhook["id"], "test"))
        yield f"Tested {webhook['url']}."


RECIPES: dict[str, Recipe] = {
    "transaction.created": _created,
    "transaction.succeeded": _paid_with(GOOD),
    "transaction.failed": _paid_with(DECLINED),
    "transaction.cancelled": _then("cancel", {}, paid=False),
    "transaction.refunded": _then("refund", {"reason": "Triggered"}, paid=True),
    "transaction.proof_requested": _proof(),
    "transaction.proof_submitted": _proof(submitted=True),
    "transaction.proof_approved": _proof("approve"),
    "transaction.proof_rejected": _proof("reject"),
    "balance.reserve_held": _proof(),
    "balance.reserve_released": _proof("approve"),
    "hosted_payment.expired": _expired,
    "dispute.created": _paid_with(DISPUTED),
    "account.update": _updated,
    "connected_account.created": _connected(None),
    "connected_account.activated": _connected("active"),
    "connected_account.review": _connected("review"),
    "connected_account.banned": _connected("banned"),
    "kyc.link_created": _kyc(None),
    "kyc.verified": _kyc("verified"),
    "kyc.rejected": _kyc("rejected"),
    "kyc.requires_input": _kyc("requires_input"),
    "compliance.requested": _compliance,
    "support.ticket_created": _ticket(replied=False),
    "support.ticket_replied": _ticket(replied=True),
    "webhook.test": _tested,
}
