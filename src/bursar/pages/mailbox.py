"""/mailbox: on a test instance, what was, or would have been, sent to people, as they see it."""

from __future__ import annotations

from typing import Any

import falcon
import falcon.asgi

from bursar.features.notices import queries as notices
from bursar.pages.site import HEADERS, Shown, Site, message

PER_PAGE = 50

# A mail brings its own style, and is shown in a frame in which nothing runs.
_FRAMING = {**HEADERS, "Content-Security-Policy": HEADERS["Content-Security-Policy"] + "; frame-src 'self'"}
_FRAMED = {
    **HEADERS,
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'; "
    "sandbox allow-popups allow-popups-to-escape-sandbox",
    "X-Frame-Options": "SAMEORIGIN",
}

STATES = {"pending": "Waiting", "sent": "Sent", "kept": "Kept here", "failed": "Failed"}
UNKNOWN = message("There is no such message", "It may have been removed after its time.", 404)


class _Mailbox:
    def __init__(self, site: Site) -> None:
        self._site = site

    async def on_get(self, request: falcon.asgi.Request, response: falcon.asgi.Response) -> None:
        async def page(asked: falcon.asgi.Request, _: str) -> Shown:
            recipient = (asked.get_param("to") or "").strip()
            before = asked.get_param_as_int("before", min_value=1)
            found = await notices.newest(self._site.instance.db, recipient, before, PER_PAGE + 1)
            values = {
                "notices": found[:PER_PAGE],
                "older": found[PER_PAGE - 1]["id"] if len(found) > PER_PAGE else None,
                "recipient": recipient,
                "states": STATES,
            }
            return Shown("mailbox.html", values)

        await self._site.serve("/mailbox", request, response, page)

    async def on_get_one(self, request: falcon.asgi.Request, response: falcon.asgi.Response, number: int) -> None:
        async def page(_: falcon.asgi.Request, __: str) -> Shown:
            notice = await notices.find(self._site.instance.db, number)
            if notice is None:
                return UNKNOWN
            return Shown("mailbox_message.html", {"notice": notice, "states": STATES}, headers=_FRAMING)

        await self._site.serve("/mailbox/{number}", request, response, page)

    async def on_get_html(self, request: falcon.asgi.Request, response: falcon.asgi.Response, number: int) -> None:
        async def page(_: falcon.asgi.Request, __: str) -> Shown:
            notice = await notices.find(self._site.instance.db, number)
            if notice is None or not notice["body_html"]:
                return UNKNOWN
            return Shown("mailbox_html.html", {"html": notice["body_html"]}, headers=_FRAMED)

        await self._site.serve("/mailbox/{number}/html", request, response, page)


def add_routes(app: falcon.asgi.App[Any, Any], site: Site) -> None:
    """On a live instance there is no such page."""
    if not site.instance.settings.is_test:
        return
    mailbox = _Mailbox(site)
    app.add_route("/mailbox", mailbox)
    app.add_route("/mailbox/{number:int}", mailbox, suffix="one")
    app.add_route("/mailbox/{number:int}/html", mailbox, suffix="html")
