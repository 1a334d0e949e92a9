"""The simulator's API for the service: signed JSON, one class per address. Bodies are never logged."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import falcon
import falcon.asgi
import msgspec
import structlog

from bursar.db.pool import Database
from bursar.processors.protocol import (
    PaymentState,
    Payout,
    PayoutAccepted,
    Refund,
    Refunded,
    Rejected,
    StartPayment,
)
from bursar.processors.signing import LinkKeys, call_is_authentic
from bursar.processors.simulator import books, charges, faults, payments, payouts
from bursar.processors.simulator.books import Links
from bursar.processors.simulator.charges import Presented
from bursar.processors.simulator.courier import Courier
from bursar.processors.simulator.faults import Performed
from bursar.processors.simulator.scenarios import CARD_BY_NUMBER, DEFAULT_HOLDER

LARGEST_BODY = 64 * 1024
STATUS = {"not_found": 404, "key_reused": 409, "invalid_step": 409}

T = TypeVar("T")
log = structlog.get_logger()


@dataclass(frozen=True)
class Shop:
    """What the simulator's API and pages work with."""

    db: Database
    links: Links
    keys: LinkKeys
    courier: Courier
    silence_s: float  # longer than the service waits for an answer


class Pay(msgspec.Struct):
    card: str
    authenticate: bool | None = None
    key: str | None = None
    holder: str | None = None


class Advance(msgspec.Struct):
    to: str
    failure_code: str | None = None


class Fault(msgspec.Struct):
    operation: str
    kind: str
    count: int = 1


class WantedRefund(msgspec.Struct):
    key: str
    amount_minor: int
    currency: str


Handler = Callable[[Shop, bytes, dict[str, str]], Awaitable[Any]]


async def _start(shop: Shop, raw: bytes, _: dict[str, str]) -> Any:
    wanted = _decode(raw, StartPayment)
    done = await faults.perform(shop.db, "start", lambda db: payments.start(db, wanted))
    payment = await _said(shop, done)
    return {"reference": payment["reference"], "page_url": shop.links.page_url(payment["id"])}


async def _confirm(shop: Shop, _: bytes, path: dict[str, str]) -> PaymentState:
    return await payments.confirm(shop.db, path["reference"], shop.links)


async def _cancel(shop: Shop, _: bytes, path: dict[str, str]) -> Any:
    done = await faults.perform(shop.db, "cancel", lambda db: payments.cancel(db, path["reference"]))
    shop.courier.wake()
    return {"outcome": await _said(shop, done)}


async def _refund(shop: Shop, raw: bytes, path: dict[str, str]) -> Any:
    body = _decode(raw, WantedRefund)
    wanted = Refund(
        key=body.key, payment_reference=path["reference"], amount_minor=body.amount_minor, currency=body.currency
    )
    done = await faults.perform(shop.db, "refund", lambda db: payments.refund(db, wanted))
    shop.courier.wake()
    answer = await _said(shop, done)
    if isinstance(answer, Refunded):
        return {"reference": answer.reference}
    return {"refused": answer.code}


async def _pay(shop: Shop, raw: bytes, path: dict[str, str]) -> PaymentState:
    body = _decode(raw, Pay)
    card = CARD_BY_NUMBER.get(body.card.replace(" ", ""))
    if card is None:
        raise Rejected("unknown_card")
    presented = Presented(
        card, body.key or secrets.token_hex(16), body.holder or DEFAULT_HOLDER, authenticate=body.authenticate
    )
    done = await faults.perform(shop.db, "payment", lambda db: charges.pay(db, path["reference"], presented))
    shop.courier.wake()
    await _heard(shop, done)
    return await payments.confirm(shop.db, path["reference"], shop.links)


async def _attempted(shop: Shop, _: bytes, path: dict[str, str]) -> PaymentState:
    """The payment, if a customer's `pay` under this key was heard; 404 if not."""
    await charges.find_attempt(shop.db, path["reference"], path["key"])
    return await payments.confirm(shop.db, path["reference"], shop.links)


async def _payout(shop: Shop, raw: bytes, _: dict[str, str]) -> Any:
    wanted = _decode(raw, Payout)
    done = await faults.perform(shop.db, "payout", lambda db: payouts.accept(db, wanted))
    shop.courier.wake()
    answer = await _said(shop, done)
    if isinstance(answer, PayoutAccepted):
        return {"reference": answer.reference}
    return {"refused": answer.failure_code}


async def _payout_state(shop: Shop, _: bytes, path: dict[str, str]) -> Any:
    return await payouts.state(shop.db, path["reference"])


async def _advance(shop: Shop, raw: bytes, path: dict[str, str]) -> Any:
    body = _decode(raw, Advance)
    async with shop.db.transaction() as db:
        state = await payouts.advance(db, path["reference"], body.to, body.failure_code)
    shop.courier.wake()
    return state


async def _order_fault(shop: Shop, raw: bytes, _: dict[str, str]) -> Any:
    body = _decode(raw, Fault)
    await faults.order(shop.db, body.operation, body.kind, body.count)
    return {"operation": body.operation, "kind": body.kind, "count": body.count}


async def _run_due(shop: Shop, _: bytes, __: dict[str, str]) -> Any:
    return {"done": await shop.courier.run_due()}


async def _statement(shop: Shop, _: bytes, __: dict[str, str]) -> Any:
    return await books.statement(shop.db)


ADDRESSES: dict[str, dict[str, Handler]] = {
    "/v1/payments": {"POST": _start},
    "/v1/payments/{reference}": {"GET": _confirm},
    "/v1/payments/{reference}/cancel": {"POST": _cancel},
    "/v1/payments/{reference}/refunds": {"POST": _refund},
    "/v1/payouts": {"POST": _payout},
    "/v1/payouts/{reference}": {"GET": _payout_state},
    # What only a simulated processor has.
    "/v1/payments/{reference}/pay": {"POST": _pay},
    "/v1/payments/{reference}/pay/{key}": {"GET": _attempted},
    "/v1/payouts/{reference}/advance": {"POST": _advance},
    "/v1/faults": {"POST": _order_fault},
    "/v1/run-due": {"POST": _run_due},
    "/v1/statement": {"GET": _statement},
}


def add_routes(app: falcon.asgi.App[Any, Any], shop: Shop) -> None:
    for path, handlers in ADDRESSES.items():
        responders = {f"on_{method.lower()}": staticmethod(_responder(shop, call)) for method, call in handlers.items()}
        app.add_route(path, type("Resource", (), responders)())


def _responder(shop: Shop, handler: Handler) -> Any:
    async def respond(request: falcon.asgi.Request, response: falcon.asgi.Response, **path: str) -> None:
        response.content_type = "application/json"
        raw = await request.bounded_stream.read(LARGEST_BODY + 1)
        if len(raw) > LARGEST_BODY:
            _answer(response, 413, {"error": "invalid_request"})
        elif not call_is_authentic(shop.keys.calls, request.headers_lower, request.method, request.path, raw):
            _answer(response, 401, {"error": "not_authentic"})
        else:
            await _handle(shop, handler, raw, path, response)

    return respond


async def _handle(
    shop: Shop, handler: Handler, raw: bytes, path: dict[str, str], response: falcon.asgi.Response
) -> None:
    try:
        _answer(response, 200, await handler(shop, raw, path))
    except Rejected as refusal:
        _answer(response, STATUS.get(refusal.code, 422), {"error": refusal.code})
    except faults.Broken:
        _answer(response, 503, {"error": "unavailable"})


def _answer(response: falcon.asgi.Response, status: int, body: Any) -> None:
    response.status = status
    response.data = msgspec.json.encode(body)


def _decode(raw: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.MsgspecError:
        raise Rejected("invalid_request") from None


async def _said(shop: Shop, done: Performed[T]) -> T:
    await _heard(shop, done)
    if done.answer is None:
        raise faults.Broken
    return done.answer


async def _heard(shop: Shop, done: Performed[Any]) -> None:
    """An ordered silence: the caller has given up when this returns."""
    if done.silent:
        await asyncio.sleep(shop.silence_s)
