"""/verify/{token}: the hosted page, over plain HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.features.connected_accounts.factory import events_of
from tests.features.identity.factory import LINKS, answer, new_link, outcome_of, path_of, picture
from tests.support.service import Service, running_service

pytestmark = pytest.mark.asyncio(loop_scope="module")


class TestPage:
    async def test_headers_keep_the_link_private(self, service: Service) -> None:
        merchant = await service.open_account(kyc_status="pending", name="<b>Quay & Sons</b>")
        link = await new_link(service, merchant)
        page = await service.client.get(path_of(link))
        assert page.status_code == 200
        assert "<b>Quay" not in page.text
        assert "&lt;b&gt;Quay &amp; Sons" in page.text
        csp = page.headers["Content-Security-Policy"]
        assert "default-src 'none'" in csp
        assert "script-src" not in csp
        assert "<script" not in page.text
        assert "style=" not in page.text
        assert page.headers["Referrer-Policy"] == "no-referrer"
        assert page.headers["Cache-Control"] == "no-store"
        assert page.headers["X-Frame-Options"] == "DENY"
        assert "Set-Cookie" not in page.headers
        style = page.text.partition('rel="stylesheet" href="')[2].partition('"')[0]
        sheet = await service.client.get(style)
        assert sheet.headers["Content-Type"].startswith("text/css")
        assert "immutable" in sheet.headers["Cache-Control"]
        shown = await service.get(merchant, f"{LINKS}/{link['id']}")
        assert shown.json()["data"]["verification_link"]["status"] == "opened"

    async def test_an_unknown_link(self, service: Service) -> None:
        for path in ("/verify/x", "/verify/" + "A" * 44):
            for reply in (await service.client.get(path), await service.client.post(path, data={"a": "b"})):
                assert reply.status_code == 404
                assert "does not work" in reply.text

    async def test_a_good_answer_is_checked_and_the_account_verified(self, service: Service) -> None:
        merchant = await service.open_account(kyc_status="pending")
        link = await new_link(service, merchant, return_url="https://shop.example/back?x=1")
        sent = await answer(service, link)
        assert (sent.status_code, sent.headers["Location"]) == (303, path_of(link))
        shown = await outcome_of(service, merchant, link)
        assert shown["status"] == "verified"
        page = await service.client.get(path_of(link))
        assert "confirmed" in page.text
        assert 'href="https://shop.example/back?x=1"' in page.text
        assert (await service.get(merchant, "/account")).json()["data"]["account"]["kyc_status"] == "verified"
        [event] = await events_of(service, {"id": merchant.account_id}, "kyc.verified")
        assert event["data"]["verification_link"]["id"] == link["id"]

        staff = (await service.ops("GET", f"/verification-links/{link['id']}")).json()["data"]
        assert staff["document_type"] == "passport"
        names = [document["name"] for document in staff["documents"]]
        assert names == ["passport.jpg", "me.png"]
        file = await service.ops("GET", f"/uploads/{staff['documents'][0]['id']}")
        assert file.content.startswith(b"\xff\xd8\xff")
        assert file.headers["Content-Disposition"] == 'attachment; filename="passport.jpg"'
        assert file.headers["X-Content-Type-Options"] == "nosniff"
        assert "sandbox" in file.headers["Content-Security-Policy"]

    async def test_the_link_is_used_once(self, service: Service) -> None:
        merchant = await service.open_account(kyc_status="pending")
        link = await new_link(service, merchant)
        replies = await asyncio.gather(*(answer(service, link) for _ in range(5)))
        assert 303 in [reply.status_code for reply in replies]
        assert await service.db.fetchval("SELECT count(*) FROM upload WHERE account_id = $1", merchant.merchant_id) == 2
        await outcome_of(service, merchant, link)
        late = await answer(service, link, outcome="rejected")
        assert late.status_code == 200
        assert "confirmed" in late.text
        assert len(await events_of(service, {"id": merchant.account_id}, "kyc.verified")) == 1

    async def test_new_pictures_on_the_same_link(self, service: Service) -> None:
        merchant = await service.open_account(kyc_status="pending")
        link = await new_link(service, merchant)
        await answer(service, link, outcome="requires_input")
        shown = await outcome_of(service, merchant, link)
        assert shown["status"] == "requires_input"
        assert shown["last_error"]["code"] == "document_unreadable"
        page = await service.client.get(path_of(link))
        assert "We need new pictures" in page.text
        assert (await answer(service, link, outcome="rejected")).status_code == 303
        assert (await outcome_of(service, merchant, link))["status"] == "rejected"
        assert "could not confirm" in (await service.client.get(path_of(link))).text

    @pytest.mark.parametrize(
        ("changes", "field", "status"),
        [
            ({"document_type": ...}, "document_type", 422),
            ({"document_type": "library_card"}, "document_type", 422),
            ({"consent": ...}, "consent", 422),
            ({"document": ...}, "document", 422),
            ({"selfie": ("", b"")}, "selfie", 422),
            ({"selfie": ("me.pdf", b"%PDF-1.4\n%%EOF", "application/pdf")}, "selfie", 422),
            ({"document": ("x.svg", b"<svg onload=alert(1)>", "image/svg+xml")}, "document", 422),
            ({"document": ("x.jpg", b"GIF89a<script>", "image/jpeg")}, "document", 422),
            ({"document": ("x.jpg", picture("PNG"), "image/jpeg")}, "document", 422),
            ({"document": ("x.jpg", picture(), "image/png")}, "document", 422),
            ({"document": ("x.jpg", b"\xff\xd8\xff" + b"0" * (10 * 1024 * 1024), "image/jpeg")}, "document", 422),
        ],
    )
    async def test_what_is_wrong_is_said_at_its_field(
        self, service: Service, changes: dict[str, Any], field: str, status: int
    ) -> None:
        merchant = await service.open_account(kyc_status="pending")
        link = await new_link(service, merchant)
        page = await answer(service, link, **changes)
        assert page.status_code == status
        assert f'href="#{field}"' in page.text
        assert 'role="alert"' in page.text
        kept = "SELECT count(*) FROM upload WHERE account_id = $1"
        assert await service.db.fetchval(kept, merchant.merchant_id) == 0

    async def test_forms_that_are_no_forms(self, service: Service) -> None:
        merchant = await service.open_account(kyc_status="pending")
        path = path_of(await new_link(service, merchant))
        assert (await service.client.post(path, json={"a": 1})).status_code == 400
        other_site = await service.client.post(path, data={"sample": "yes"}, headers={"Sec-Fetch-Site": "cross-site"})
        assert other_site.status_code == 403
        big = await service.client.post(path, content=b"x" * (23 * 1024 * 1024),
                                        headers={"Content-Type": "multipart/form-data; boundary=x"})  # fmt: skip
        assert big.status_code == 413

    async def test_samples_are_for_test_instances(self, service: Service) -> None:
        merchant = await service.open_account(kyc_status="pending")
        link = await new_link(service, merchant)
        reply = await service.client.post(path_of(link), files={"sample": (None, "yes"), "outcome": (None, "verified")})
        assert reply.status_code == 303
        assert (await outcome_of(service, merchant, link))["status"] == "verified"

    async def test_on_a_live_instance_staff_decide(self, service: Service) -> None:
        merchant = await service.open_account(kyc_status="pending")
        link = await new_link(service, merchant)
        live = {name: getattr(service.settings, name) for name in ("key_pepper", "seal_public_key", "seal_private_key")}
        async with running_service(service.urls, worker=False, env="live", pages_per_minute=4, **live) as running:
            page = await running.client.get(path_of(link))
            assert "Simulated" not in page.text
            assert "Test instance" not in page.text
            sample = {"sample": (None, "yes")}
            assert (await running.client.post(path_of(link), files=sample)).status_code == 422
            assert (await answer(running, link)).status_code == 303
            waiting = await running.client.get(path_of(link))
            assert "We are checking" in waiting.text
            limited = await running.client.get(path_of(link))
            assert (limited.status_code, "Retry-After" in limited.headers) == (429, True)
        assert (await outcome_of(service, merchant, link))["status"] == "processing"
        await service.ops("POST", f"/verification-links/{link['id']}/decide", {"outcome": "verified"})
        assert (await outcome_of(service, merchant, link))["status"] == "verified"
