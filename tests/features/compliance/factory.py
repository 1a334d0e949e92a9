"""Compliance requests, as staff would make them, and answers with files."""

from __future__ import annotations

import json
from typing import Any

import httpx

from tests.support import signing
from tests.support.service import Party, Service, new_key

REQUESTS = "/compliance/requests"
WEBSITE = {"key": "website", "label": "Website", "type": "text", "required": True}
PROOF = {"key": "proof", "label": "Proof of address", "type": "file", "required": True}


async def ask(service: Service, merchant: str | int, **changes: Any) -> dict[str, Any]:
    body = {"merchant": merchant, "type": "information", "title": "Your website", "fields": [WEBSITE], **changes}
    reply = await service.ops("POST", "/compliance-requests", body)
    assert reply.status_code == 201, reply.text
    request: dict[str, Any] = reply.json()["data"]["compliance_request"]
    return request


async def respond(
    service: Service, party: Party, request_id: int, answers: Any, files: list[tuple[str, bytes, str]] | None = None,
    *, key: str | None = None, boundary: str | None = None, path: str | None = None, **headers: str,
) -> httpx.Response:  # fmt: skip
    """A signed multipart body. `boundary` changes the bytes but not the parts."""
    sent = [("files[]", file) for file in files or []]
    text = answers if isinstance(answers, str) else json.dumps(answers)
    kind = {"Content-Type": f"multipart/form-data; boundary={boundary or 'part-of-a-form'}"}
    form = httpx.Request("POST", "http://x", data={"answers": text}, files=sent or {"": ("", b"")}, headers=kind)
    raw = form.read()
    signed = signing.legacy(party.secret_key, raw)
    return await service.client.post(
        path or f"/v2{REQUESTS}/{request_id}/responses",
        content=raw,
        headers={
            "Authorization": f"Bearer {party.secret_key}",
            "Content-Type": form.headers["Content-Type"],
            "Idempotency-Key": key or new_key(),
            **signed,
            **{name.replace("_", "-"): value for name, value in headers.items()},
        },
    )
