"""POST /connected-accounts."""

from __future__ import annotations

import asyncio
import base64
import io
from typing import Any

import httpx
import pytest
from PIL import Image

from bursar.features.uploads import queries as upload_queries
from bursar.features.uploads import service as uploads
from tests.features.connected_accounts.factory import connect, events_of, new_body
from tests.support.service import Service, new_key

pytestmark = pytest.mark.asyncio(loop_scope="module")


def png(**text: str) -> bytes:
    from PIL.PngImagePlugin import PngInfo

    info = PngInfo()
    for name, value in text.items():
        info.add_text(name, value)
    content = io.BytesIO()
    Image.new("RGBA", (240, 80), (0, 0, 0, 0)).save(content, "PNG", pnginfo=info)
    return content.getvalue()


async def signature_of(service: Service, account_id: str) -> tuple[Any, bytes]:
    number = int(account_id.rpartition("_")[2])
    profile = await service.db.fetchrow("SELECT * FROM account_profile WHERE account_id = $1", number)
    assert profile is not None
    upload = await upload_queries.find_anywhere(service.db, profile["signature_upload_id"])
    assert upload is not None
    return profile, await uploads.content(service.db, service.settings, upload)


class TestCreate:
    async def test_a_new_account_is_pending_and_says_what_it_needs(self, service: Service) -> None:
        platform = await service.open_account("platform", name="Market")
        account = await connect(service, platform, metadata={"shop": "7"}, connect_email_sms_handle="service")
        assert account["id"].startswith("acc")
        assert account["status"] == account["kyc_status"] == "pending"
        assert account["connect_status"] == "active"
        assert account["connect_email_sms_handle"] == "neropay"
        assert account["metadata"] == {"shop": "7"}
        connected = account["connect"]
        assert connected["fee_payer"] == "connected_account"
        assert connected["platform_safety_limit"] is None
        assert connected["merchant_pricing"]["api_percent_fee"] == 1.5
        assert connected["connect_application_fee_defaults"] == {"fixed": 0.0, "percent": 0.0}
        assert account["requirements"]["currently_due"] == ["identity_verification", "bank_account"]
        assert account["requirements"]["disabled_reason"] == "requirements_due"
        assert account["capabilities"]["payments"] == "pending"

        [event] = await events_of(service, account, "connected_account.created")
        assert event["data"]["account"] == account
        assert event["platform_id"] == platform.account_id
        assert event["account_id"] == account["id"]

    async def test_what_was_declared_is_kept(self, service: Service) -> None:
        platform = await service.open_account("platform")
        owner = {"first_name": "Grace", "last_name": "Hopper", "email": "grace@example.com", "dob": "1980-01-02",
                 "percent_ownership": 25.5, "is_owner": True, "is_director": True}  # fmt: skip
        account = await connect(service, platform, owners=[owner], company_has_other_owners=True, mobile="07700 900456")
        number = int(account["id"].rpartition("_")[2])
        profile, _ = await signature_of(service, account["id"])
        assert profile["mobile"] == "+447700900456"
        assert str(profile["terms_ip"]) == "203.0.113.7"
        assert profile["company_has_other_owners"] is True
        [kept] = await service.db.fetch("SELECT * FROM account_owner WHERE account_id = $1", number)
        assert (kept["email"], str(kept["percent_ownership"])) == ("grace@example.com", "25.50")

    async def test_a_typed_signature_is_drawn_and_kept_as_an_image(self, service: Service) -> None:
        platform = await service.open_account("platform")
        for name in ("Ada Byron", "Ζωή Παπαδοπούλου", "Þórður Ægisson", "Иван Петров " * 8):
            account = await connect(service, platform, legal_name=name)
            profile, content = await signature_of(service, account["id"])
            assert profile["signature_kind"] == "typed"
            image = Image.open(io.BytesIO(content))
            assert image.format == "PNG"
            assert len(image.convert("L").getcolors() or []) > 10  # there is ink on it

    async def test_a_sent_signature_is_kept_without_what_hid_in_it(self, service: Service) -> None:
        platform = await service.open_account("platform")
        sent = base64.b64encode(png(comment="<script>")).decode()
        account = await connect(service, platform, signature_png_base64=f"data:image/png;base64,{sent}")
        profile, content = await signature_of(service, account["id"])
        assert profile["signature_kind"] == "image"
        assert b"<script>" not in content
        assert Image.open(io.BytesIO(content)).size == (240, 80)

    async def test_a_name_that_cannot_be_drawn_needs_an_image(self, service: Service) -> None:
        platform = await service.open_account("platform")
        reply = await service.send(platform, "POST", "/connected-accounts", new_body(legal_name="山田太郎"))
        assert (reply.status_code, reply.json()["error"]["code"]) == (422, "connected_account_create_failed")
        sent = base64.b64encode(png()).decode()
        await connect(service, platform, legal_name="山田太郎", signature_png_base64=sent)

    async def test_replay_and_conflict(self, service: Service) -> None:
        platform = await service.open_account("platform")
        body, key = new_body(), new_key()
        first = await service.send(platform, "POST", "/connected-accounts", body, key=key)
        again = await service.send(platform, "POST", "/connected-accounts", body, key=key)
        assert first.status_code == again.status_code == 201
        assert again.content == first.content
        assert again.headers["Idempotency-Replayed"] == "true"
        other = await service.send(platform, "POST", "/connected-accounts", new_body(), key=key)
        assert (other.status_code, other.json()["error"]["code"]) == (409, "idempotency_conflict")

    async def test_a_dry_run_leaves_nothing(self, service: Service) -> None:
        platform = await service.open_account("platform")
        body = new_body()
        for secret in (platform.secret_key, platform.test_secret_key):
            reply = await service.send(secret, "POST", "/sandbox/v2/connected-accounts", body)
            assert reply.status_code == 201, reply.text
            assert {"type": "event", "event": "connected_account.created"} in reply.json()["meta"]["effects"]
        assert not await service.db.fetchval("SELECT count(*) FROM account WHERE email = $1", body["email"])
        await connect(service, platform, email=body["email"])
        reply = await service.send(platform.test_secret_key, "POST", "/sandbox/v2/connected-accounts", body)
        assert reply.status_code == 201, "a test key must not learn which addresses are taken"
        reply = await service.send(platform, "POST", "/sandbox/v2/connected-accounts", body)
        assert reply.status_code == 409


class TestDuplicate:
    async def test_an_address_is_taken_once_whatever_its_case(self, service: Service) -> None:
        platform, other = await service.open_account("platform"), await service.open_account("platform")
        await connect(service, platform, email="Ada.Lovelace@example.com")
        for caller in (platform, other):
            reply = await service.send(
                caller, "POST", "/connected-accounts", new_body(email="ada.lovelace@EXAMPLE.com")
            )
            assert (reply.status_code, reply.json()["error"]["code"]) == (409, "connected_account_duplicate")

    async def test_a_username_takes_it_too(self, service: Service) -> None:
        platform = await service.open_account("platform")
        await service.db.execute(
            "INSERT INTO directory (kind, value, account_id, id) VALUES ('username', 'taken@example.com', 1, 1)"
        )
        reply = await service.send(platform, "POST", "/connected-accounts", new_body(email="taken@example.com"))
        assert reply.json()["error"]["code"] == "connected_account_duplicate"

    async def test_forty_at_once_make_one(self, service: Service) -> None:
        platform = await service.open_account("platform")
        body = new_body(email="one@example.com")

        async def create() -> httpx.Response:
            key = new_key()
            while True:  # a busy service says 503: nothing is known, ask again with the same key
                reply = await service.send(platform, "POST", "/connected-accounts", body, key=key)
                if reply.status_code != 503:
                    return reply

        replies = await asyncio.gather(*(create() for _ in range(40)))
        codes = sorted(reply.status_code for reply in replies)
        assert codes.count(201) == 1, codes
        assert set(codes) == {201, 409}
        made = await service.db.fetch("SELECT account_id FROM account WHERE platform_id = $1", platform.merchant_id)
        assert len(made) == 1
        for table in ("upload", "account_profile", "event"):
            rows = await service.db.fetch(f"SELECT account_id FROM {table} WHERE account_id > $1", platform.merchant_id)
            assert [row["account_id"] for row in rows] == [made[0]["account_id"]], table


BAD_FIELDS: list[tuple[str, Any]] = [
    ("business_company_name", ""), ("business_company_name", "x" * 191), ("firstname", "Ada\u0007"),
    ("lastname", ...), ("email", "nobody"), ("email", "a@b"), ("email", "a@localhost"), ("email", 7),
    ("country_code", "US"), ("country_code", "ZZ"), ("country_code", "GBR"), ("mobile_code", "+33"),
    ("mobile_code", "four"), ("mobile", "12"), ("mobile", "+33612345678"), ("business_type", "charity"),
    ("nationality", "XX"), ("company_registration_number", ...), ("representative_job_title", None),
    ("rep_is_director", "true"), ("rep_is_executive", 1), ("rep_ownership_percent", ...),
    ("rep_ownership_percent", 24.99), ("rep_ownership_percent", 100.01), ("rep_ownership_percent", "60"),
    ("company_declaration", ...), ("postcode", "x" * 33), ("dob", "10/12/1985"), ("dob", "1985-02-30"),
    ("dob", "2190-01-01"), ("dob", "2020-01-01"), ("industry", ""), ("industry", "<b>"),
    ("merchant_website_or_product_description", "x" * 5001), ("terms_accepted", False), ("terms_accepted", ...),
    ("terms_accepted_at", "2026-01-05"), ("terms_accepted_at", "yesterday"), ("terms_ip", "localhost"),
    ("terms_ip", "fe80::1%eth0"), ("legal_name", ...), ("signature_png_base64", "!!"),
    ("signature_png_base64", "AAAA"), ("connect_email_sms_handle", "both"), ("metadata", []),
    ("metadata", {f"k{n}": "v" for n in range(51)}), ("company_has_other_owners", True), ("owners", "none"),
    ("owners", [{"first_name": "Grace"}] * 21),
]  # fmt: skip


class TestValidation:
    async def test_each_rule_names_its_field(self, service: Service) -> None:
        platform = await service.open_account("platform")
        for field, value in BAD_FIELDS:
            reply = await service.send(platform, "POST", "/connected-accounts", new_body(**{field: value}))
            error = reply.json()["error"]
            assert (reply.status_code, error["code"]) == (422, "validation_error"), (field, value, reply.text)
            expected = "owners" if field == "company_has_other_owners" else field
            assert any(name.partition(".")[0] == expected for name in error["details"]), (field, value, error)
        made = "SELECT count(*) FROM account WHERE platform_id = $1"
        assert await service.db.fetchval(made, platform.merchant_id) == 0

    async def test_all_bad_fields_at_once(self, service: Service) -> None:
        platform = await service.open_account("platform")
        bad = {
            "firstname": ..., "business_type": "company", "company_registration_number": None, "rep_is_owner": True,
            "rep_ownership_percent": 10, "mobile_code": "+1", "mobile": "1", "dob": "x", "terms_ip": "x",
            "owners": [{"first_name": "G", "last_name": "H", "email": "x", "dob": "1980-01-02"}],
        }  # fmt: skip
        reply = await service.send(platform, "POST", "/connected-accounts", new_body(**bad))
        assert set(reply.json()["error"]["details"]) == {
            "firstname", "company_registration_number", "rep_ownership_percent", "mobile_code", "mobile", "dob",
            "terms_ip", "owners.0.email",
        }  # fmt: skip
        reply = await service.send(platform, "POST", "/connected-accounts", {})
        assert len(reply.json()["error"]["details"]) == 24

    @pytest.mark.parametrize(
        "owners",
        [
            [{"email": "ada@example.com"}],
            [{"email": "g@example.com"}, {"email": "G@example.com"}],
            [{"email": "g@example.com", "is_owner": True, "percent_ownership": 41}],
            [{"email": "g@example.com", "is_owner": True}],
            [{"email": "g@example.com", "dob": "2190-01-01"}],
        ],
    )
    async def test_owners(self, service: Service, owners: list[dict[str, Any]]) -> None:
        platform = await service.open_account("platform")
        people = [{"first_name": "Grace", "last_name": "Hopper", "dob": "1980-01-02", **owner} for owner in owners]
        reply = await service.send(
            platform, "POST", "/connected-accounts", new_body(email="ada@example.com", owners=people)
        )
        assert reply.status_code == 422
        assert any(name.startswith("owners") for name in reply.json()["error"]["details"])

    async def test_terms_are_not_accepted_tomorrow(self, service: Service) -> None:
        platform = await service.open_account("platform")
        reply = await service.send(
            platform, "POST", "/connected-accounts", new_body(terms_accepted_at="2199-01-01T00:00:00Z")
        )
        assert list(reply.json()["error"]["details"]) == ["terms_accepted_at"]

    async def test_what_is_optional_or_does_not_apply(self, service: Service) -> None:
        platform = await service.open_account("platform")
        account = await connect(
            service, platform, business_type="sole_trader", company_registration_number=..., rep_is_owner=False,
            rep_ownership_percent=None, country_code="ie", mobile_code="353", mobile="085 012 3456",
        )  # fmt: skip
        row = await service.db.fetchrow("SELECT * FROM account WHERE public_id = $1", account["id"])
        assert row is not None
        assert (row["country_code"], row["currency"]) == ("IE", "EUR")

    async def test_a_damaged_signature_is_a_bad_field(self, service: Service) -> None:
        platform = await service.open_account("platform")
        cut = base64.b64encode(png()[:60]).decode()
        reply = await service.send(platform, "POST", "/connected-accounts", new_body(signature_png_base64=cut))
        assert reply.json()["error"]["code"] == "validation_error"
        assert list(reply.json()["error"]["details"]) == ["signature_png_base64"]
