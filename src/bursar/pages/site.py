"""What all hosted pages share: layout, headers, the style sheet, the limit per address, and the record of a request.

A page is a function from a request to a `Shown`. Links are secrets, so pages are never cached, never framed, and send
no referrer; logs name the route, never the link. There are no cookies, so there is nothing to forge a request with;
a form that another site sends is refused all the same.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

import asyncpg
import falcon
import falcon.asgi
import jinja2
import structlog

from bursar.core import ids
from bursar.core.calendar import shown_moment
from bursar.core.errors import RateLimited
from bursar.db.pool import LOST, Busy
from bursar.http import metrics
from bursar.http.instance import Instance
from bursar.http.limits import Throttle, client_address

log = structlog.get_logger()

_FOLDER = files("bursar.pages")
_STYLES = {name: _FOLDER.joinpath("static", f"{name}.css").read_bytes() for name in ("hosted", "mailbox")}
STYLE_PATHS = {name: f"/assets/{name}-{hashlib.sha256(style).hexdigest()[:12]}.css" for name, style in _STYLES.items()}

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "geolocation=(), microphone=(), payment=(), usb=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "X-Robots-Tag": "noindex, nofollow",
}


_TEMPLATES = jinja2.Environment(
    loader=jinja2.FunctionLoader(lambda name: _FOLDER.joinpath("templates", name).read_text()),
    undefined=jinja2.StrictUndefined,
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.filters["moment"] = shown_moment
_TEMPLATES.globals["style_paths"] = STYLE_PATHS


@dataclass(frozen=True, slots=True)
class Shown:
    """What a page answers with."""

    template: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


def message(title: str, text: str, status: int, *, tone: str = "neutral") -> Shown:
    """A page that says one thing."""
    return Shown("message.html", {"title": title, "text": text, "tone": tone}, status)


def see_other(address: str) -> Shown:
    """After a form: the browser reads the page again, and reloading sends nothing twice."""
    return Shown(status=303, headers={"Location": address})


Responder = Callable[[falcon.asgi.Request, str], Awaitable[Shown]]


class Site:
    """Serves pages with everything they share."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        settings = instance.settings
        per_minute = settings.pages_per_minute
        self._throttle = Throttle(per_minute / 60, size=per_minute) if settings.limits_on else None

    async def serve(
        self, route: str, request: falcon.asgi.Request, response: falcon.asgi.Response, page: Responder
    ) -> None:
        started, request_id = time.perf_counter(), ids.new_request_id()
        shown = await self._answer(request, request_id, page)
        response.status = shown.status
        response.set_headers({**HEADERS, "Service-Request-Id": request_id, **shown.headers})
        if shown.template:
            values = {"is_test": self.instance.settings.is_test, **shown.values}
            response.content_type = "text/html; charset=utf-8"
            response.text = _TEMPLATES.get_template(shown.template).render(values)
        metrics.request_seconds.labels(route, str(shown.status)).observe(time.perf_counter() - started)
        if self.instance.settings.access_log:
            self.instance.access_log.write(request_id, request.method, route, shown.status, started, "")

    async def _answer(self, request: falcon.asgi.Request, request_id: str, page: Responder) -> Shown:
        try:
            if self._throttle:
                self._throttle.take(self.address(request))
            if request.method == "POST" and request.get_header("Sec-Fetch-Site") not in (None, "same-origin", "none"):
                return message("Please start from your link", "This form was sent from another site.", 403)
            return await page(request, request_id)
        except RateLimited as error:
            wait = error.headers.get("Retry-After", "60")
            shown = message("Too many requests", f"Please wait {wait} seconds and try again.", 429)
            return Shown(shown.template, shown.values, 429, {"Retry-After": wait})
        except (Busy, asyncpg.LockNotAvailableError, asyncpg.QueryCanceledError, *LOST) as error:
            log.warning("page.unavailable", request_id=request_id, error=type(error).__name__)
            return message("We are busy", "Please try again in a moment. Nothing was lost.", 503)
        except Exception:
            log.exception("page.failed", request_id=request_id)
            return message("Something went wrong", f"Please try again. If it happens twice, quote {request_id}.", 500)

    def address(self, request: falcon.asgi.Request) -> str:
        peer = (request.scope.get("client") or ("", 0))[0]
        return client_address(peer, request.get_header("X-Forwarded-For"), self.instance.settings.trusted_proxies)


class _Style:
    def __init__(self, style: bytes) -> None:
        self._style = style

    async def on_get(self, _: falcon.asgi.Request, response: falcon.asgi.Response) -> None:
        response.content_type = "text/css; charset=utf-8"
        response.data = self._style
        response.set_headers(
            {"Cache-Control": "public, max-age=31536000, immutable", "X-Content-Type-Options": "nosniff"}
        )


def add_styles(app: falcon.asgi.App[Any, Any]) -> None:
    for name, style in _STYLES.items():
        app.add_route(STYLE_PATHS[name], _Style(style))
