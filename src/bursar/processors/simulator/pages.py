"""The simulator's pages for customers: the card, the bank's challenge, and the way back. No script anywhere.

Each form is answered with a redirect to the page, which shows what has become of the payment; only a form with
mistakes in it is shown again at once. A form can be sent twice: its ticket names one attempt.
"""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from typing import Any

import falcon
import falcon.asgi
import jinja2

from bursar.core.money import shown_amount
from bursar.db.pool import Connection, Record
from bursar.processors.card_errors import card_error
from bursar.processors.simulator import books, charges, form
from bursar.processors.simulator.api import Shop
from bursar.processors.simulator.charges import Presented
from bursar.processors.simulator.form import Entered
from bursar.processors.simulator.scenarios import CARD_BY_NAME, CARDS

LARGEST_FORM = 16 * 1024

_TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader("bursar.processors.simulator"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_STYLE = files("bursar.processors.simulator").joinpath("templates", "style.css").read_text()
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_TEMPLATES.globals.update(style=_STYLE, cards=CARDS)

HEADERS = {
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "X-Robots-Tag": "noindex, nofollow",
}


class CardPage:
    def __init__(self, shop: Shop) -> None:
        self._shop = shop

    async def on_get(self, request: falcon.asgi.Request, response: falcon.asgi.Response, token: str) -> None:
        async with self._shop.db.transaction() as db:
            payment = await _payment(self._shop, db, token)
            attempts = await books.attempts_of(db, payment["id"])
        state = payment["state"]
        if state == "requires_action":
            raise falcon.HTTPSeeOther(f"/pay/{token}/challenge")
        if state != "requires_payment":
            _show(response, "over.html", payment, state=state)
            return
        card = CARD_BY_NAME.get(request.get_param("card") or "")
        last = attempts[-1] if attempts else None
        typed = form.filled(card, payment["now"]) if card else Entered(holder=last["holder"] if last else "")
        declined = card_error(last["error_code"], last["decline_code"]) if last and not card else None
        self._show_form(response, payment, token, typed, declined=declined, ready=card is not None)

    async def on_post(self, request: falcon.asgi.Request, response: falcon.asgi.Response, token: str) -> None:
        fields = await _sent(self._shop, request, token)
        typed = form.entered(fields)
        async with self._shop.db.transaction() as db:
            payment = await _payment(self._shop, db, token)
            checked = form.check(typed, payment["now"])
            if checked.card is not None:
                await charges.pay(
                    db, payment["reference"], Presented(checked.card, fields["ticket"][:24], typed.holder)
                )
        if checked.card is None:
            response.status = 422
            self._show_form(response, payment, token, typed, errors=checked.errors)
            return
        self._shop.courier.wake()
        raise falcon.HTTPSeeOther(f"/pay/{token}")

    def _show_form(
        self,
        response: falcon.asgi.Response,
        payment: Record,
        token: str,
        typed: Entered,
        *,
        errors: dict[str, str] | None = None,
        declined: Any = None,
        ready: bool = False,
    ) -> None:
        _show(
            response,
            "card.html",
            payment,
            path=f"/pay/{token}",
            ticket=form.new_ticket(self._shop.keys.pages, token),
            typed=typed,
            errors=errors or {},
            first_error=next(iter(errors or {}), None),
            declined=declined,
            ready=ready,
        )


class ChallengePage:
    def __init__(self, shop: Shop) -> None:
        self._shop = shop

    async def on_get(self, _: falcon.asgi.Request, response: falcon.asgi.Response, token: str) -> None:
        async with self._shop.db.transaction() as db:
            payment = await _payment(self._shop, db, token)
            attempts = await books.attempts_of(db, payment["id"])
        if payment["state"] != "requires_action":
            raise falcon.HTTPSeeOther(f"/pay/{token}")
        ticket = form.new_ticket(self._shop.keys.pages, token)
        _show(
            response,
            "challenge.html",
            payment,
            path=f"/pay/{token}/challenge",
            ticket=ticket,
            last4=attempts[-1]["last4"],
            today=payment["now"].strftime("%-d %B %Y"),
        )

    async def on_post(self, request: falcon.asgi.Request, _: falcon.asgi.Response, token: str) -> None:
        fields = await _sent(self._shop, request, token)
        async with self._shop.db.transaction() as db:
            payment = await _payment(self._shop, db, token)
            await charges.answer_challenge(
                db, payment["reference"], fields["ticket"][:24], passed=fields.get("answer") == "approve"
            )
        self._shop.courier.wake()
        raise falcon.HTTPSeeOther(f"/pay/{token}")


async def _payment(shop: Shop, db: Connection, token: str) -> Record:
    """The payment of a page, with an outcome that has become known by now."""
    payment_id = shop.links.payment_id(token)
    reference = payment_id and await db.fetchval("SELECT reference FROM simulator.payment WHERE id = $1", payment_id)
    if not reference:
        raise falcon.HTTPNotFound
    return await charges.locked(db, reference)


async def _sent(shop: Shop, request: falcon.asgi.Request, token: str) -> dict[str, str]:
    """The fields of a form that was made by this page and sent from it."""
    if (request.get_header("Sec-Fetch-Site") or "same-origin") != "same-origin":
        raise falcon.HTTPForbidden
    raw = await request.bounded_stream.read(LARGEST_FORM + 1)
    fields = form.read(raw) if len(raw) <= LARGEST_FORM else {}
    if not form.ticket_is_ours(shop.keys.pages, token, fields.get("ticket", "")):
        raise falcon.HTTPForbidden
    return fields


def _show(response: falcon.asgi.Response, template: str, payment: Record | None, **values: Any) -> None:
    if payment is not None:
        values["amount"] = shown_amount(payment["amount_minor"], payment["currency"])
        values["merchant"] = payment["merchant_name"]
        values["description"] = payment["description"]
        values["return_url"] = payment["return_url"]
    response.content_type = falcon.MEDIA_HTML
    response.text = _TEMPLATES.get_template(template).render(**values)
    response.set_headers(HEADERS)


def show_problem(response: falcon.asgi.Response, status: int) -> None:
    response.status = status
    _show(response, "problem.html", None, status=status)


async def _failed(
    _: falcon.asgi.Request, response: falcon.asgi.Response | None, error: falcon.HTTPError, __: dict[str, Any]
) -> None:
    if response is not None:
        show_problem(response, error.status_code)


def add_routes(app: falcon.asgi.App[Any, Any], shop: Shop) -> None:
    app.add_route("/pay/{token}", CardPage(shop))
    app.add_route("/pay/{token}/challenge", ChallengePage(shop))
    app.add_error_handler(falcon.HTTPError, _failed)
