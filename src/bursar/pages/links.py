"""/link/{token}: the page of a payment link, its QR code, and a view to print."""

from __future__ import annotations

import io
from typing import Any
from urllib.parse import urlsplit

import falcon
import falcon.asgi
import segno

from bursar.core.money import shown_amount
from bursar.db.clock import instance_now
from bursar.features.payment_links import service as links
from bursar.features.payments.service import Row
from bursar.http.caller import load_account
from bursar.pages.checkout import PROBLEMS, UNKNOWN, Pages
from bursar.pages.site import Shown, see_other

ROUTE = "/link/{token}"

# Per status: title, text, tone of the sign, HTTP status.
STATES = {
    "paid": ("This link has been paid", "There is nothing more to pay here.", "good", 200),
    "cancelled": ("This link was withdrawn", "It can no longer be paid.", "neutral", 410),
    "expired": ("This link has expired", "Ask whoever sent it to you for a new one.", "neutral", 410),
}


class LinkPage:
    def __init__(self, pages: Pages) -> None:
        self._pages = pages

    async def on_get(self, request: falcon.asgi.Request, response: falcon.asgi.Response, token: str) -> None:
        async def page(asked: falcon.asgi.Request, _: str) -> Shown:
            found = await self._find(token)
            if found is None:
                return UNKNOWN
            row, business, over = found
            if row["status"] != "pending" or over:
                return self._state(row, business)
            return self._open(row, business, token, asked.get_param("problem"))

        await self._pages.site.serve(ROUTE, request, response, page)

    async def on_post_start(self, request: falcon.asgi.Request, response: falcon.asgi.Response, token: str) -> None:
        async def page(_: falcon.asgi.Request, __: str) -> Shown:
            place = self._place(token)
            if place is None:
                return UNKNOWN
            payment_id = await links.checkout_for(self._pages.instance.db, self._pages.settings, *place)
            if payment_id is None:
                return see_other(f"/link/{token}?problem=unavailable")
            return await self._pages.begin(place[0], payment_id, back=f"/link/{token}")

        await self._pages.site.serve(f"{ROUTE}/start", request, response, page)

    async def on_get_print(self, request: falcon.asgi.Request, response: falcon.asgi.Response, token: str) -> None:
        async def page(_: falcon.asgi.Request, __: str) -> Shown:
            found = await self._find(token)
            if found is None:
                return UNKNOWN
            row, business, _over = found
            values = {
                "business": business,
                "amount": shown_amount(row["amount_minor"], row["currency"]),
                "details": row["details"],
                "address": f"{self._pages.settings.public_url}/link/{token}",
            }
            return self._pages.shown("link_print.html", values)

        await self._pages.site.serve(f"{ROUTE}/print", request, response, page)

    async def on_get_qr(self, _: falcon.asgi.Request, response: falcon.asgi.Response, token: str) -> None:
        """The address as a picture: made from the token alone, and only for one that is ours."""
        if self._place(token) is None:
            raise falcon.HTTPNotFound
        drawn = io.BytesIO()
        code = segno.make(f"{self._pages.settings.public_url}/link/{token}", error="m", micro=False)
        code.save(drawn, kind="svg", border=2, xmldecl=False, svgns=True, omitsize=True, nl=False)
        response.content_type = "image/svg+xml"
        response.data = drawn.getvalue()
        response.set_headers(
            {
                "Cache-Control": "private, max-age=86400",
                "Content-Security-Policy": "default-src 'none'; sandbox",
                "X-Content-Type-Options": "nosniff",
                "X-Robots-Tag": "noindex, nofollow",
            }
        )

    def _place(self, token: str) -> tuple[int, int] | None:
        return self._pages.settings.page_keys.read(links.PAGE, token)

    async def _find(self, token: str) -> tuple[Row, str, bool] | None:
        """The link, whose it is, and whether its time is over."""
        place = self._place(token)
        if place is None:
            return None
        async with self._pages.instance.db.acquire() as db:
            row = await links.find(db, *place)
            account = await load_account(db, place[0])
            now = await instance_now(db)
        if row is None or account is None:
            return None
        over = row["expires_at"] is not None and row["expires_at"] <= now
        return row, account.business_company_name, over

    def _open(self, row: Row, business: str, token: str, problem: str | None) -> Shown:
        title, text = PROBLEMS.get(problem or "", ("", ""))
        values = {
            "business": business,
            "amount": shown_amount(row["amount_minor"], row["currency"]),
            "details": row["details"],
            "facts": [("Reference", row["reference"])],
            "action": f"/link/{token}/start",
            "print_url": f"/link/{token}/print",
            "declined": False,
            "problem_title": title,
            "problem": text,
            "cancel_url": row["cancel_url"],
            "cancel_host": urlsplit(row["cancel_url"] or "").hostname,
        }
        return self._pages.shown("checkout.html", values)

    def _state(self, row: Row, business: str) -> Shown:
        title, text, tone, status = STATES.get(row["status"], STATES["expired"])
        url = row["success_url"] if row["status"] == "paid" else row["cancel_url"]
        values = {
            "business": business,
            "amount": shown_amount(row["amount_minor"], row["currency"]),
            "title": title,
            "text": text,
            "tone": tone,
            "paid": row["status"] == "paid",
            "facts": [],
            "again_url": None,
            "again": "",
            "return_url": url,
            "return_host": urlsplit(url or "").hostname,
        }
        return self._pages.shown("checkout_state.html", values, status)


def add_routes(app: falcon.asgi.App[Any, Any], pages: Pages) -> None:
    page = LinkPage(pages)
    app.add_route(ROUTE, page)
    app.add_route(f"{ROUTE}/start", page, suffix="start")
    app.add_route(f"{ROUTE}/print", page, suffix="print")
    app.add_route(f"{ROUTE}/qr.svg", page, suffix="qr")
