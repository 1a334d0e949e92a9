"""Verification links, and a person who answers them in a browser without one."""

from __future__ import annotations

import io
from typing import Any
from urllib.parse import urlsplit

import httpx
from PIL import Image

from tests.support.service import Party, Service

LINKS = "/identity/verification-links"


def picture(kind: str = "JPEG", size: tuple[int, int] = (320, 200)) -> bytes:
    content = io.BytesIO()
    Image.new("RGB", size, (180, 190, 200)).save(content, kind)
    return content.getvalue()


async def new_link(service: Service, party: Party | str, **body: Any) -> dict[str, Any]:
    headers = body.pop("headers", {})
    reply = await service.send(party, "POST", LINKS, body, **headers)
    assert reply.status_code == 201, reply.text
    link: dict[str, Any] = reply.json()["data"]["verification_link"]
    return link


def path_of(link: dict[str, Any]) -> str:
    return str(urlsplit(link["url"]).path)


async def answer(
    service: Service, link: dict[str, Any], *, outcome: str = "verified", **changes: Any
) -> httpx.Response:
    """Sends the page's form. A change of `...` leaves a field out."""
    fields: dict[str, Any] = {"document_type": "passport", "consent": "yes", "outcome": outcome}
    files: dict[str, Any] = {
        "document": ("passport.jpg", picture(), "image/jpeg"),
        "selfie": ("me.png", picture("PNG"), "image/png"),
    }
    for name, value in changes.items():
        (files if name in files else fields)[name] = value
    fields = {name: value for name, value in fields.items() if value is not ...}
    files = {name: value for name, value in files.items() if value is not ...}
    return await service.client.post(path_of(link), data=fields, files=files or {"none": ("", b"")})


async def outcome_of(service: Service, party: Party | str, link: dict[str, Any], **headers: str) -> dict[str, Any]:
    """The link once everything that is due was done."""
    await service.ops("POST", "/jobs/run", {})
    reply = await service.get(party, f"{LINKS}/{link['id']}", **headers)
    shown: dict[str, Any] = reply.json()["data"]["verification_link"]
    return shown
