"""/mailbox: on a test instance, what would have been sent to people. Plain pages, no script."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import falcon
import falcon.asgi
import jinja2

from bursar.http.instance import Instance

CSP = "default-src 'none'; style-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
NEWEST = 100

_PAGES = jinja2.Environment(
    loader=jinja2.FunctionLoader(lambda name: (files(__package__) / "templates" / name).read_text()),
    undefined=jinja2.StrictUndefined,
    autoescape=True,
)


def _show(response: falcon.asgi.Response, body: str, content_type: str = "text/html; charset=utf-8") -> None:
    response.content_type = content_type
    response.text = body
    response.set_headers(
        {
            "Content-Security-Policy": CSP,
            "Cache-Control": "no-store",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
        }
    )


class _Mailbox:
    def __init__(self, instance: Instance) -> None:
        self._db = instance.db

    async def on_get(self, request: falcon.asgi.Request, response: falcon.asgi.Response) -> None:
        recipient = request.get_param("to") or ""
        notices = await self._db.fetch(
            """
            SELECT id, channel, recipient, subject, status, attempts, created_at
            FROM notice
            WHERE $1 = '' OR recipient = $1
            ORDER BY id DESC
            LIMIT $2
            """,
            recipient,
            NEWEST,
        )
        _show(response, _PAGES.get_template("mailbox.html").render(notices=notices, recipient=recipient))


class _Message:
    def __init__(self, instance: Instance) -> None:
        self._db = instance.db

    async def on_get(self, _: falcon.asgi.Request, response: falcon.asgi.Response, number: int) -> None:
        notice = await self._db.fetchrow("SELECT * FROM notice WHERE id = $1", number)
        if notice is None:
            raise falcon.HTTPNotFound
        lines = notice["body_text"].strip().split("\n")
        _show(response, _PAGES.get_template("message.html").render(notice=notice, lines=lines))


class _Style:
    async def on_get(self, _: falcon.asgi.Request, response: falcon.asgi.Response) -> None:
        _show(response, (files(__package__) / "templates" / "mailbox.css").read_text(), "text/css; charset=utf-8")


def add_routes(app: falcon.asgi.App[Any, Any], instance: Instance) -> None:
    """On a live instance there is no such page."""
    if not instance.settings.is_test:
        return
    app.add_route("/mailbox", _Mailbox(instance))
    app.add_route("/mailbox/{number:int}", _Message(instance))
    app.add_route("/mailbox.css", _Style())
