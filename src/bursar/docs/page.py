"""Serves `/openapi.json` and the reference under `/docs`: made once, at the first request, and sent compressed."""

from __future__ import annotations

import asyncio
import base64
import gzip
import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import falcon
import falcon.asgi
from jinja2 import Environment, PackageLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup, escape

from bursar.docs import view
from bursar.http import openapi
from bursar.http.routes import Route
from bursar.settings import Settings

STYLE = files("bursar.docs").joinpath("style.css").read_text("utf-8")
_STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
CONTENT_SECURITY_POLICY = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

_markdown = MarkdownIt("commonmark", {"html": False}).enable("table")


@dataclass(frozen=True, slots=True)
class _File:
    """Bytes to serve, plain and compressed, with the tag by which a client asks whether they changed."""

    media: str
    plain: bytes
    packed: bytes
    etag: str

    @classmethod
    def of(cls, media: str, content: bytes) -> _File:
        tag = hashlib.sha256(content).hexdigest()[:20]
        return cls(media, content, gzip.compress(content, 9, mtime=0), f'W/"{tag}"')


class _Pages:
    """The document and its pages, made when they are first asked for."""

    def __init__(self, routes: Sequence[Route], settings: Settings) -> None:
        self._document: Callable[[], dict[str, Any]] = cache(lambda: openapi.document(routes, settings))
        self.openapi = cache(lambda: _File.of("application/json", openapi.encode(self._document())))
        self._html = cache(lambda: render(self._document()))

    def page(self, slug: str) -> _File | None:
        return self._html().get(slug)


def render(document: dict[str, Any]) -> dict[str, _File]:
    """Every page by its name; the first one, with the introduction, has none."""
    templates = Environment(
        loader=PackageLoader("bursar.docs"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    templates.filters |= {"markdown": _block, "inline": _inline, "json_colours": _json_colours, "breakable": _breakable}
    groups = view.groups(document)
    shared = {
        "info": document["info"],
        "server": document["servers"][0]["url"],
        "groups": groups,
        "sections": view.sections(document),
        "style": Markup(STYLE),  # noqa: S704 - our own file, and the policy holds its hash
    }
    pages = {"": templates.get_template("introduction.html").render(shared, current=None)}
    for group in groups:
        pages[group.slug] = templates.get_template("group.html").render(shared, current=group)
    return {slug: _File.of("text/html; charset=utf-8", html.encode()) for slug, html in pages.items()}


def _block(text: str) -> Markup:
    """Markdown without raw HTML, with tables that scroll by themselves on narrow screens."""
    opening = '<div class="scroll" role="region" aria-label="Table" tabindex="0"><table>'
    html = _markdown.render(text).replace("<table>", opening)
    return Markup(html.replace("</table>", "</table></div>"))  # noqa: S704 - markdown-it escapes, HTML is off


def _inline(text: str) -> Markup:
    return Markup(_markdown.renderInline(text))  # noqa: S704 - as above


def _breakable(path: str) -> Markup:
    """A path that may be broken before a slash, and nowhere else while it fits."""
    return Markup("<wbr>/").join(path.split("/"))


_TOKEN = re.compile(r'("(?:[^"\\]|\\.)*")(\s*:)?|\b(true|false|null)\b|(-?\d[\d.eE+-]*)')


def _json_colours(text: str) -> Markup:
    """JSON with its names, texts and other values marked for the style sheet."""
    pieces, end = [], 0
    for token in _TOKEN.finditer(text):
        kind = ("n" if token[2] else "s") if token[1] else "v"
        pieces.append(escape(text[end : token.start()]))
        pieces.append(Markup('<b class="{}">{}</b>').format(kind, token[1] or token[0]) + (token[2] or ""))
        end = token.end()
    return Markup("").join([*pieces, escape(text[end:])])


class _Served:
    def __init__(self, find: Callable[[str], _File | None]) -> None:
        self._find = find

    async def on_get(self, request: falcon.asgi.Request, response: falcon.asgi.Response, slug: str = "") -> None:
        found = await asyncio.to_thread(self._find, slug)  # the first time takes a while; payments need not wait for it
        if found is None:
            raise falcon.HTTPNotFound
        response.set_headers(
            {
                "Content-Security-Policy": CONTENT_SECURITY_POLICY,
                "X-Content-Type-Options": "nosniff",
                "Referrer-Policy": "no-referrer",
                "Cache-Control": "no-cache",
                "ETag": found.etag,
                "Vary": "Accept-Encoding",
            }
        )
        if request.get_header("If-None-Match") == found.etag:
            response.status = 304
            return
        response.content_type = found.media
        response.data = found.plain
        if "gzip" in (request.get_header("Accept-Encoding") or ""):
            response.set_header("Content-Encoding", "gzip")
            response.data = found.packed

    on_head = on_get


def add_routes(app: falcon.asgi.App[Any, Any], routes: Sequence[Route], settings: Settings) -> None:
    pages = _Pages(routes, settings)
    app.add_route("/openapi.json", _Served(lambda _: pages.openapi()))
    app.add_route("/docs", _Served(pages.page))
    app.add_route("/docs/{slug}", _Served(pages.page))
