"""/pay/{token}: where a customer pays. It has no card field: its button leads to the processor's own page, from which
the customer returns here, and what became of the payment is asked of the processor.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from datetime import datetime, timedelta
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

import falcon
import falcon.asgi
import structlog
from markupsafe import Markup

from bursar.core.calendar import shown_moment
from bursar.core.errors import ApiError
from bursar.core.money import shown_amount
from bursar.db.clock import instance_now
from bursar.features.payments import service
from bursar.features.payments.service import Row
from bursar.http.caller import load_account
from bursar.http.instance import Instance
from bursar.pages.site import HEADERS, Shown, Site, message, see_other
from bursar.processors.protocol import PaymentState, Rejected, Started, Unknown
from bursar.processors.simulator.scenarios import CARDS
from bursar.settings import Settings

log = structlog.get_logger()

ROUTE = "/pay/{token}"
REFRESH_S = 3
REFRESH_FOR = timedelta(minutes=10)

# Inside the page, so that it comes whole with one request; the policy names it by its hash.
_STATIC = files("bursar.pages").joinpath("static")
STYLE = Markup("\n".join(_STATIC.joinpath(name).read_text() for name in ("hosted.css", "checkout.css")))  # noqa: S704 - ours
_STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()

UNKNOWN = message(
    "This link does not work", "Please check that the whole address was copied, or ask the shop for a new one.", 404
)

# Per status: title, text, tone of the sign, HTTP status.
STATES: dict[str, tuple[str, str, str, int]] = {
    "succeeded": ("Payment received", "Thank you. You can keep this page as your receipt.", "good", 200),
    "refunded": ("Payment refunded", "The whole amount went back to the card it came from.", "back", 200),
    "processing": ("Your bank is deciding", "This page looks again by itself. Please do not pay twice.", "wait", 200),
    "closing": ("This checkout is being closed", "It can no longer be paid.", "wait", 410),
    "cancelled": ("This checkout was cancelled", "Nothing was taken from your card.", "neutral", 410),
    "expired": ("This checkout has expired", "Nothing was taken from your card. Ask the shop for a new link.",
                "neutral", 410),
    "failed": ("This checkout is closed", "There were too many attempts. Nothing was taken from your card.",
               "bad", 410),
}  # fmt: skip


def headers_of(settings: Settings) -> dict[str, str]:
    """The shared headers, with a policy for this page: its own style, and the processor as where its form may end."""
    return {
        **HEADERS,
        "Content-Security-Policy": (
            f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; img-src 'self'; "
            f"form-action 'self' {service.page_origin(settings)}; base-uri 'none'; frame-ancestors 'none'"
        ),
    }


class Pages:
    """What the pages of payments and of links share."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.instance: Instance = site.instance
        self.settings = site.instance.settings
        self._headers = headers_of(self.settings)

    def shown(
        self, template: str, values: Mapping[str, Any], status: int = 200, *, refresh: int | None = None
    ) -> Shown:
        headers = {**self._headers, "Refresh": str(refresh)} if refresh else self._headers
        return Shown(template, {"style": STYLE, "cards": CARDS, **values}, status, headers)

    async def begin(self, account_id: int, payment_id: int, back: str) -> Shown:
        """On to the processor's page; back to the checkout when there is nothing to begin."""
        try:
            started: Started | None = await service.start(self.instance.db, self.settings, account_id, payment_id)
        except Unknown:
            return see_other(f"{back}?problem=unreachable")
        except (ApiError, Rejected) as error:
            log.warning("checkout.not_started", payment_id=payment_id, error=str(error))
            return see_other(f"{back}?problem=unavailable")
        return see_other(back if started is None else started.page_url)

    async def asked(self, account_id: int, payment_id: int) -> str | None:
        """Asks the processor what became of a payment; `processing` while it does not know, or cannot be reached."""
        try:
            result: PaymentState | None = await service.ask(self.instance.db, self.settings, account_id, payment_id)
        except (Unknown, Rejected):
            return "processing"
        self.instance.hints.wake()
        return "processing" if result is not None and result.status == "processing" else None


class CheckoutPage:
    def __init__(self, pages: Pages) -> None:
        self._pages = pages

    def place(self, token: str) -> tuple[int, int] | None:
        return self._pages.settings.page_keys.read("pay", token)

    async def on_get(self, request: falcon.asgi.Request, response: falcon.asgi.Response, token: str) -> None:
        async def page(asked: falcon.asgi.Request, _: str) -> Shown:
            return await self._show(token, problem=asked.get_param("problem"))

        await self._pages.site.serve(ROUTE, request, response, page)

    async def on_get_return(self, request: falcon.asgi.Request, response: falcon.asgi.Response, token: str) -> None:
        async def page(_: falcon.asgi.Request, __: str) -> Shown:
            place = self.place(token)
            known = await self._pages.asked(*place) if place is not None else None
            return await self._show(token, known=known, returned=True)

        await self._pages.site.serve(f"{ROUTE}/return", request, response, page)

    async def on_post_start(self, request: falcon.asgi.Request, response: falcon.asgi.Response, token: str) -> None:
        async def page(_: falcon.asgi.Request, __: str) -> Shown:
            place = self.place(token)
            return UNKNOWN if place is None else await self._pages.begin(*place, back=f"/pay/{token}")

        await self._pages.site.serve(f"{ROUTE}/start", request, response, page)

    async def _show(
        self, token: str, *, known: str | None = None, problem: str | None = None, returned: bool = False
    ) -> Shown:
        place = self.place(token)
        async with self._pages.instance.db.acquire() as db:
            row = await service.find(db, *place) if place is not None else None
            if row is None:
                return UNKNOWN
            account = await load_account(db, row["account_id"])
            attempts = await service.attempts_of(db, row["account_id"], [row["id"]]) if row["attempts"] else {}
            now = await instance_now(db)
        assert account is not None
        made = attempts.get(row["id"], [])
        name = account.business_company_name
        if row["status"] == "pending" and known is None and service.is_open(row, now):
            return self._open(row, name, token, made[-1] if made else None, problem)
        return self._state(row, name, token, made[-1] if made else None, now, returned=returned)

    def _open(self, row: Row, business: str, token: str, last: Row | None, problem: str | None) -> Shown:
        title, text = PROBLEMS.get(problem or "", ("", ""))
        declined = last is not None and last["status"] == "failed"
        if not text and last is not None and declined:
            title, text = "The payment did not go through", last["message"] or ""
        values = {
            "business": business,
            "amount": shown_amount(row["amount_minor"], row["currency"]),
            "details": row["details"],
            "facts": [("Order", row["identifier"]), ("Reference", row["payment_reference"])],
            "action": f"/pay/{token}/start",
            "print_url": None,
            "declined": declined,
            "problem_title": title,
            "problem": text,
            "cancel_url": row["cancel_url"],
            "cancel_host": urlsplit(row["cancel_url"] or "").hostname,
        }
        return self._pages.shown("checkout.html", values)

    def _state(self, row: Row, business: str, token: str, last: Row | None, now: datetime, *, returned: bool) -> Shown:
        state = service.hosted_status(row)
        if state == "pending":
            over = row["closing"] is not None or row["expires_at"] <= now
            state = "closing" if over and not returned else "processing"
        title, text, tone, status = STATES[state]
        paid = row["paid_at"] is not None
        url = row["success_url"] if paid else row["cancel_url"]
        values = {
            "business": business,
            "amount": shown_amount(row["amount_minor"], row["currency"]),
            "title": title,
            "text": text,
            "tone": tone,
            "paid": paid,
            "facts": _receipt(row, business, last) if paid else [],
            "again_url": f"/pay/{token}/return" if state == "processing" else None,
            "again": "Look again now",
            "return_url": None if state == "processing" else url,
            "return_host": urlsplit(url or "").hostname,
        }
        soon = state in ("processing", "closing") and now - (row["started_at"] or now) < REFRESH_FOR
        return self._pages.shown("checkout_state.html", values, status, refresh=REFRESH_S if soon else None)


PROBLEMS = {
    "unreachable": ("We could not open the payment page", "Nothing was taken from your card. Please try again."),
    "unavailable": ("The shop cannot take payments just now", "Nothing was taken from your card."),
}


def _receipt(row: Row, business: str, last: Row | None) -> list[tuple[str, str]]:
    facts = [
        ("Paid to", business),
        ("For", row["details"][:200]),
        ("Order", row["identifier"]),
        ("Reference", row["payment_reference"]),
        ("Paid on", shown_moment(row["paid_at"])),
    ]
    if last is not None and last["last4"]:
        facts.append(("Card", f"•••• {last['last4']}"))
    if row["refunded_minor"]:
        facts.append(("Refunded", shown_amount(row["refunded_minor"], row["currency"])))
    return facts


def add_routes(app: falcon.asgi.App[Any, Any], pages: Pages) -> None:
    page = CheckoutPage(pages)
    app.add_route(ROUTE, page)
    app.add_route(f"{ROUTE}/start", page, suffix="start")
    app.add_route(f"{ROUTE}/return", page, suffix="return")
