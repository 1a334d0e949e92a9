"""/ops/v1/simulator: pay any checkout with a test card, and order faults. The same path as the checkout page's."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from bursar.core.errors import ApiError, NotFound
from bursar.features.payments import service as payments
from bursar.features.payments.service import simulator_of
from bursar.features.simulator.errors import CheckoutClosed
from bursar.features.simulator.schemas import CheckoutError, CheckoutOutcome, Fault, NewFault, PayCheckout
from bursar.http.context import Audit, Ctx
from bursar.http.envelope import Answer
from bursar.http.families import OPERATOR
from bursar.http.routes import Outside, Processor, Route
from bursar.processors.protocol import PaymentState, Rejected, Unknown
from bursar.processors.simulator.scenarios import CARD_BY_NAME
from bursar.processors.simulator_client import SimulatorClient


async def begin_pay(ctx: Ctx, body: PayCheckout) -> Mapping[str, Any]:
    """What is kept of the card is the scenario it plays."""
    place = await payments.checkout_named(ctx, ctx.path["payment_reference"])
    if place is None:
        raise NotFound
    account_id, payment_id = place
    ctx.audit = Audit(account_id, after={"payment": payment_id, "card": body.card})
    return {
        "account_id": account_id,
        "payment_id": payment_id,
        "card": body.card,
        "authenticate": body.authenticate,
        "key": secrets.token_hex(8),
    }


async def call_pay(outside: Outside, intent: Mapping[str, Any]) -> PaymentState | None:
    """Opens the checkout, pays, and has the outcome written down; None when it cannot be paid any more."""
    account_id, payment_id = intent["account_id"], intent["payment_id"]
    started = await payments.start(outside.db, outside.settings, account_id, payment_id)
    simulator = simulator_of(outside.settings)
    if started is None:
        return await _paid_before(outside, simulator, intent)
    try:
        state = await simulator.pay(
            started.reference,
            CARD_BY_NAME[intent["card"]].number,
            key=intent["key"],
            authenticate=intent["authenticate"],
        )
    except Unknown:  # as the page does when the customer comes back: ask
        state = await simulator.confirm(started.reference)
    await payments.learn(outside.db, outside.settings, [state])
    outside.wake()
    return state


async def _paid_before(outside: Outside, simulator: SimulatorClient, intent: Mapping[str, Any]) -> PaymentState | None:
    """It may be this very call that closed the checkout: made once, and cut off before it could say so."""
    row = await payments.find(outside.db, intent["account_id"], intent["payment_id"])
    if row is None or row["processor_reference"] is None:
        return None
    try:
        state = await simulator.paid_under(row["processor_reference"], intent["key"])
    except Rejected:
        return None
    await payments.learn(outside.db, outside.settings, [state])
    return state


async def finish_pay(_: Ctx, __: Mapping[str, Any], state: PaymentState | None) -> CheckoutOutcome | ApiError:
    if state is None:
        return CheckoutClosed()
    if state.captured_minor > 0:
        return CheckoutOutcome("succeeded", None)
    if state.status == "requires_action":
        return CheckoutOutcome("requires_action", None)
    if state.status == "processing":
        return CheckoutOutcome("processing", None)
    error = state.error
    shown = CheckoutError(error.code, error.message, error.decline_code) if error else None
    return CheckoutOutcome("failed", shown)


async def pending_pay(_: Ctx, __: Mapping[str, Any]) -> CheckoutOutcome:
    return CheckoutOutcome("processing", None)


async def begin_fault(ctx: Ctx, body: NewFault) -> Mapping[str, Any]:
    ctx.audit = Audit(after=body.model_dump())
    return body.model_dump()


async def call_fault(outside: Outside, intent: Mapping[str, Any]) -> None:
    await simulator_of(outside.settings).order_fault(intent["operation"], intent["kind"], intent["count"])


async def finish_fault(_: Ctx, intent: Mapping[str, Any], __: None) -> Fault:
    return Fault(**intent)


async def pending_fault(_: Ctx, intent: Mapping[str, Any]) -> Answer:
    return Answer(Fault(**intent), status=202)


async def no_sandbox(_: Mapping[str, Any]) -> Any:
    raise AssertionError("the operator API has no sandbox")


ROUTES = (
    Route(
        method="POST",
        path="/simulator/checkouts/{payment_reference}/pay",
        name="operator_pay_checkout",
        summary="Pay a checkout as its customer would, with a test card.",
        tag="Operator: test instance",
        family=OPERATOR,
        body=PayCheckout,
        reply=CheckoutOutcome,
        takes_cards=True,
        test_only=True,
        errors=(NotFound, CheckoutClosed),
        handler=Processor("simulator_pay", begin_pay, call_pay, finish_pay, pending_pay, no_sandbox),
    ),
    Route(
        method="POST",
        path="/simulator/faults",
        name="operator_order_fault",
        summary="Have the next calls of the simulated processor misbehave.",
        tag="Operator: test instance",
        family=OPERATOR,
        body=NewFault,
        reply=Fault,
        status=201,
        test_only=True,
        handler=Processor("simulator_fault", begin_fault, call_fault, finish_fault, pending_fault, no_sandbox),
    ),
)
