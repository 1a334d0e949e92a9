"""/verify/{token}: where a person shows who they are. A document, a picture of their face, and then the outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import falcon
import falcon.asgi

from bursar.core.errors import ApiError, FileTooLarge, PayloadTooLarge
from bursar.db.pool import Connection, Record
from bursar.events import outbox
from bursar.features.accounts import signature
from bursar.features.identity import service
from bursar.features.identity.errors import VerificationLinkClosed, VerificationLinkExpired, VerificationLinkNotFound
from bursar.features.identity.service import PAGE, Submission
from bursar.features.identity.states import WAITING
from bursar.features.uploads.errors import UnsupportedFileType
from bursar.features.uploads.inspection import Inspected, inspect
from bursar.http import body
from bursar.http.acting import acting_on
from bursar.http.body import Parts
from bursar.http.context import Ctx
from bursar.http.instance import Instance
from bursar.pages.site import Shown, Site, message, see_other

ROUTE = f"/{PAGE}/{{token}}"
LARGEST = 22 * 1024 * 1024  # two pictures of 10 MB and the form around them
FIRST_ACCOUNT = 1001  # below are the sandbox's samples, to which nothing may happen
REFRESH_S = 3
REFRESH_FOR = timedelta(minutes=2)

KINDS = (("passport", "Passport"), ("driving_licence", "Driving licence"), ("identity_card", "Identity card"))
OUTCOMES = (("verified", "Confirmed"), ("requires_input", "New pictures needed"), ("rejected", "Rejected"))

# Per state: title, text, tone of the sign, step of the progress, HTTP status.
STATES: dict[str, tuple[str, str, str, int, int]] = {
    "processing": ("We are checking your pictures", "This takes a moment. You may close this page and come back to it.",
                   "wait", 2, 200),
    "verified": ("Your identity is confirmed", "Thank you, that was all. There is nothing more to do here.",
                 "good", 4, 200),
    "rejected": ("We could not confirm your identity", "Please contact whoever sent you this link.",
                 "bad", 0, 200),
    "expired": ("This link has expired", "Please ask whoever sent it to you for a new one.",
                "neutral", 0, 410),
    "cancelled": ("This link was withdrawn", "Please ask whoever sent it to you for a new one.",
                  "neutral", 0, 410),
}  # fmt: skip

UNKNOWN = message(
    "This link does not work", "Please check that the whole address was copied, or ask for a new link.", 404
)


class VerificationPage:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._instance = site.instance

    async def on_get(self, request: falcon.asgi.Request, response: falcon.asgi.Response, token: str) -> None:
        async def page(_: falcon.asgi.Request, request_id: str) -> Shown:
            return await self._show(token, request_id)

        await self._site.serve(ROUTE, request, response, page)

    async def on_post(self, request: falcon.asgi.Request, response: falcon.asgi.Response, token: str) -> None:
        async def page(sent: falcon.asgi.Request, request_id: str) -> Shown:
            return await self._receive(sent, token, request_id)

        await self._site.serve(ROUTE, request, response, page)

    async def _show(
        self, token: str, request_id: str, errors: Mapping[str, str] | None = None, kind: str = ""
    ) -> Shown:
        place = self._instance.settings.page_keys.read(PAGE, token)
        if place is None or place[0] < FIRST_ACCOUNT:
            return UNKNOWN
        async with self._instance.db.transaction() as db:
            ctx = await self._acting(db, place[0], request_id)
            try:
                row = await service.open_page(ctx, place[1])
            except VerificationLinkNotFound:
                return UNKNOWN
        business = ctx.account.business_company_name
        if row["status"] in WAITING:
            return _form(row, business, errors or {}, kind)
        return _state(row, business, token, ctx.now)

    async def _receive(self, request: falcon.asgi.Request, token: str, request_id: str) -> Shown:
        shown = await self._show(token, request_id)
        if shown.template != "verification_form.html":
            return shown
        try:
            raw = await body.read(request, LARGEST)
        except PayloadTooLarge:
            shown = await self._show(token, request_id, {"document": "The pictures are too large: 10 MB each at most."})
            return replace(shown, status=413)
        try:
            parts = body.decode_multipart(raw, request.content_type or "")
        except ApiError:
            return message("We could not read the form", "Please go back and send it again.", 400)
        kind = str(parts.fields.get("document_type", ""))
        submission, errors = await self._read(parts, kind)
        if submission is None:
            shown = await self._show(token, request_id, errors, kind)
            return replace(shown, status=422)
        return await self._submit(token, request_id, submission)

    async def _read(self, parts: Parts, kind: str) -> tuple[Submission | None, dict[str, str]]:
        """What was sent, or what is wrong with it, by field."""
        errors: dict[str, str] = {}
        document: Inspected | None
        selfie: Inspected | None
        sample = self._instance.settings.is_test and "sample" in parts.fields
        if sample:
            kind, document, selfie = kind or KINDS[0][0], _sample("Document"), _sample("Selfie")
        else:
            if kind not in dict(KINDS):
                errors["document_type"] = "Choose the kind of document."
            document = await _picture(parts, "document", "Add a picture of the document.", errors)
            selfie = await _picture(parts, "selfie", "Add a picture of your face.", errors)
            if parts.fields.get("consent") != "yes":
                errors["consent"] = "Confirm that the pictures may be used."
        outcome = str(parts.fields.get("outcome", "verified"))
        if errors or document is None or selfie is None:
            return None, errors
        return Submission(kind, document, selfie, outcome if outcome in dict(OUTCOMES) else "verified"), {}

    async def _submit(self, token: str, request_id: str, submission: Submission) -> Shown:
        place = self._instance.settings.page_keys.read(PAGE, token)
        assert place is not None
        try:
            async with self._instance.db.transaction() as db:
                ctx = await self._acting(db, place[0], request_id)
                await service.submit(ctx, place[1], submission)
                await outbox.write(db, ctx.events)
        except (VerificationLinkExpired, VerificationLinkClosed):
            return await self._show(token, request_id)  # it was finished meanwhile; the page says how
        self._instance.after_commit(ctx)
        self._instance.hints.wake()
        return see_other(f"/{PAGE}/{token}")

    async def _acting(self, db: Connection, account_id: int, request_id: str) -> Ctx:
        return await acting_on(db, account_id, self._instance.settings, self._instance.vault, request_id=request_id)


def _form(row: Record, business: str, errors: Mapping[str, str], kind: str) -> Shown:
    values: dict[str, Any] = {
        "business": business,
        "errors": errors,
        "last_error": row["error_message"],
        "kinds": KINDS,
        "kind": kind,
        "outcomes": OUTCOMES,
        "expires_at": row["expires_at"],
    }
    return Shown("verification_form.html", values)


def _state(row: Record, business: str, token: str, now: datetime) -> Shown:
    title, text, tone, step, status = STATES[row["status"]]
    waits = row["status"] == "processing"
    soon = waits and row["submitted_at"] is not None and now - row["submitted_at"] < REFRESH_FOR
    done = row["status"] in ("verified", "rejected", "processing")
    values = {
        "business": business,
        "title": title,
        "text": text,
        "tone": tone,
        "step": step,
        "again": waits,
        "return_url": row["return_url"] if done else None,
        "return_host": urlsplit(row["return_url"]).hostname if row["return_url"] else "",
    }
    # With the address: a browser that came by a link to a field, and still has it, would only scroll there again.
    headers = {"Refresh": f"{REFRESH_S}; url=/{PAGE}/{token}"} if soon else {}
    return Shown("verification_state.html", values, status, headers)


async def _picture(parts: Parts, name: str, missing: str, errors: dict[str, str]) -> Inspected | None:
    files = parts.files.get(name, [])
    if len(files) != 1:
        errors[name] = missing
        return None
    try:
        found = await inspect(files[0], field=name)
    except FileTooLarge:
        errors[name] = "The file is larger than 10 MB."
        return None
    except UnsupportedFileType as error:
        errors[name] = f"{(error.details or {}).get(name, [error.text])[0]}."
        return None
    if name == "selfie" and found.mime == "application/pdf":
        errors[name] = "The picture of your face must be a JPEG or PNG."
        return None
    return found


def _sample(text: str) -> Inspected:
    """A stand-in picture, on test instances."""
    moment = datetime.fromisoformat("2025-01-01T00:00:00+00:00")
    return Inspected(f"sample-{text.lower()}.png", "image/png", signature.draw(f"Sample {text.lower()}", moment))


def add_routes(app: falcon.asgi.App[Any, Any], instance: Instance) -> None:
    page = VerificationPage(Site(instance))
    app.add_route(ROUTE, page)
