"""The reference page: complete, without script, without anything from elsewhere, and with snippets that work."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
import shutil
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from bursar.app import ROUTES
from bursar.db.embedded import Urls
from bursar.docs import view
from bursar.docs.page import render
from bursar.http import openapi
from bursar.http.body import Upload
from bursar.http.context import Ctx
from bursar.http.families import COMMERCE, MANAGEMENT, SUBSCRIPTIONS
from bursar.http.routes import Local, Route
from bursar.http.schemas import Body, Form, StrictBody
from bursar.settings import Settings
from tests.support.service import OPERATOR_KEY, Service, running_service

DOCUMENT = openapi.document(ROUTES, Settings(env="test"))
FILES = render(DOCUMENT)
PAGES = {slug: file.plain.decode() for slug, file in FILES.items()}
HEAVIEST = 60_000  # bytes of a page as it is sent

every_page = pytest.mark.parametrize("slug", PAGES, ids=lambda slug: slug or "introduction")


class Outline(HTMLParser):
    """What a page consists of, as far as a browser or a screen reader cares."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.ids: list[str] = []
        self.handlers: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name == "href":
                (self.links if tag == "a" else self.loaded).append(value or "")
            if name in ("src", "srcset", "data", "action", "poster", "background"):
                self.loaded.append(value or "")
            if name == "id":
                self.ids.append(value or "")
            if name.startswith("on") or name == "style":
                self.handlers.append(name)

    @property
    def headings(self) -> list[int]:
        return [int(tag[1]) for tag in self.tags if re.fullmatch(r"h[1-6]", tag)]


@cache
def outline_of(slug: str) -> Outline:
    return Outline(PAGES[slug])


class TestPages:
    def test_there_is_one_for_each_tag(self) -> None:
        assert PAGES.keys() == {"", *(view.slug(tag["name"]) for tag in DOCUMENT["tags"])}

    def test_every_operation_is_on_its_page_and_in_the_index(self) -> None:
        for route in ROUTES:
            assert f'id="{route.name}"' in PAGES[view.slug(route.tag)]
            assert f'href="/docs/{view.slug(route.tag)}#{route.name}"' in PAGES[""]

    @every_page
    def test_loads_nothing_and_runs_nothing(self, slug: str) -> None:
        outline = outline_of(slug)
        assert not {"script", "link", "img", "iframe", "object", "embed", "form"} & set(outline.tags)
        assert outline.loaded == []
        assert outline.handlers == []
        assert "@import" not in PAGES[slug]
        assert "url(" not in PAGES[slug]

    @every_page
    def test_links_stay_here_and_lead_somewhere(self, slug: str) -> None:
        outline = outline_of(slug)
        for link in outline.links:
            path, _, fragment = link.partition("#")
            assert path in ("", "/docs", "/openapi.json") or path.removeprefix("/docs/") in PAGES
            target = slug if not path else path.removeprefix("/docs").strip("/")
            if fragment:
                assert fragment in outline_of(target).ids

    @every_page
    def test_has_landmarks_and_headings_in_order(self, slug: str) -> None:
        outline = outline_of(slug)
        assert outline.tags.count("main") == 1
        assert outline.tags.count("header") == 1
        assert outline.headings[0] == 1
        assert outline.headings.count(1) == 1
        steps = zip(outline.headings, outline.headings[1:], strict=False)
        assert all(after - before <= 1 for before, after in steps)
        assert len(outline.ids) == len(set(outline.ids))
        assert outline.links[0] == "#main"

    @every_page
    def test_is_light(self, slug: str) -> None:
        assert len(FILES[slug].packed) < HEAVIEST

    def test_texts_are_escaped(self) -> None:
        route = Route(
            method="POST", path="/things", name="hostile", summary="<script>alert(1)</script> & `<b>`", tag="Things",
            handler=Local(_echo),
        )  # fmt: skip
        page = render(openapi.document([route], Settings()))["things"].plain.decode()
        assert "<script" not in page
        assert "&lt;script&gt;" in page


class TestServed:
    async def test_the_document(self, service: Service) -> None:
        reply = await service.client.get("/openapi.json")
        assert reply.status_code == 200
        assert reply.headers["Content-Type"] == "application/json"
        assert reply.content == openapi.encode(openapi.document(ROUTES, service.settings))

    async def test_the_page_and_its_policy(self, service: Service) -> None:
        for path in ("/docs", "/docs/webhooks"):
            reply = await service.client.get(path)
            assert reply.status_code == 200
            assert reply.headers["Content-Type"] == "text/html; charset=utf-8"
            [style] = re.findall(r"<style>(.*?)</style>", reply.text, re.DOTALL)
            digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
            policy = reply.headers["Content-Security-Policy"]
            assert policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}';")
            assert "unsafe" not in policy
            assert reply.headers["X-Content-Type-Options"] == "nosniff"

    async def test_is_compressed_for_those_who_can_read_it(self, service: Service) -> None:
        packed = await service.client.get("/docs/webhooks")
        plain = await service.client.get("/docs/webhooks", headers={"Accept-Encoding": "identity"})
        assert packed.headers["Content-Encoding"] == "gzip"
        assert "Content-Encoding" not in plain.headers
        assert packed.text == plain.text

    async def test_is_not_sent_again_unless_it_changed(self, service: Service) -> None:
        first = await service.client.get("/docs")
        again = await service.client.get("/docs", headers={"If-None-Match": first.headers["ETag"]})
        assert (again.status_code, again.content) == (304, b"")

    async def test_a_page_that_does_not_exist(self, service: Service) -> None:
        reply = await service.client.get("/docs/nonsense")
        assert reply.status_code == 404
        assert reply.json()["error"]["code"] == "endpoint_not_found"

    async def test_a_live_instance_does_not_show_what_it_does_not_have(self, urls: Urls) -> None:
        async with running_service(urls, env="live", worker=False) as live:
            paths = (await live.client.get("/openapi.json")).json()["paths"]
            assert "/ops/v1/clock" not in paths
            assert "/v2/account" in paths


class Note(Body):
    text: str


class BoundNote(StrictBody):
    text: str


class Letter(Form):
    text: str
    file: list[Upload]


async def _echo(ctx: Ctx, body: Any) -> dict[str, Any]:
    if isinstance(body, Letter):
        return {"text": body.text, "size": len(body.file[0].content)}
    return {"text": body.text if body else None}


EXTRA = (
    Route(method="POST", path="/notes", name="note", summary="A note.", tag="Notes", body=Note, handler=Local(_echo)),
    Route(method="DELETE", path="/notes/{id}", name="unnote", summary="None.", tag="Notes", handler=Local(_echo)),
    Route(
        method="POST", path="/letters", name="letter", summary="A file.", tag="Notes", body=Letter, uploads=True,
        handler=Local(_echo),
    ),
    *(
        Route(
            method="POST", path=f"/{family.name}/notes/{{id}}", name=f"{family.name}_note", summary="A note.",
            tag="Notes", family=family, body=BoundNote, handler=Local(_echo),
        )
        for family in (SUBSCRIPTIONS, COMMERCE, MANAGEMENT)
    ),
    Route(
        method="POST", path="/commerce/empty", name="empty", summary="Nothing.", tag="Notes", family=COMMERCE,
        handler=Local(_echo),
    ),
)  # fmt: skip


@pytest.mark.skipif(not (shutil.which("curl") and shutil.which("openssl")), reason="snippets need curl and openssl")
class TestSnippets:
    async def test_each_can_be_pasted_as_it_is(self, urls: Urls, tmp_path: Path) -> None:
        """With a key put in, every family's snippet is signed so that the service accepts it."""
        (tmp_path / "document.pdf").write_bytes(b"%PDF-1.7 ' \x00\r\n")
        async with running_service(urls, routes=EXTRA) as service:
            merchant = await service.open_account()
            document = (await service.client.get("/openapi.json")).json()
            wanted = {"note", "unnote", "letter", "empty", "create_webhook", "list_webhooks", "operator_open_account"}
            wanted |= {f"{family.name}_note" for family in (SUBSCRIPTIONS, COMMERCE, MANAGEMENT)}
            snippets = {
                operation.id: operation.snippet
                for group in view.groups(document)
                for operation in group.operations
                if operation.id in wanted
            }
            assert snippets.keys() == wanted
            for name, snippet in snippets.items():
                key = OPERATOR_KEY if name.startswith("operator_") else merchant.secret_key
                script = re.sub(r"SECRET_KEY='[^']*'", f"SECRET_KEY='{key}'", snippet, count=1)
                script = script.replace(service.settings.public_url, service.base_url)
                reply = json.loads(await _run(script, tmp_path))
                assert reply["success"], f"{name}: {reply}\n{script}"
                if name == "letter":
                    assert reply["data"]["size"] == len((tmp_path / "document.pdf").read_bytes())


async def _run(script: str, directory: Path) -> str:
    process = await asyncio.create_subprocess_exec(
        "sh", "-euc", script, cwd=directory, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await process.communicate()
    assert process.returncode == 0, f"{err.decode()}\n{script}"
    return out.decode()
