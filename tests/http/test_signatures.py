"""The four signed messages over exact raw bytes, and everything that must not pass for one of them."""

from __future__ import annotations

import time

import pytest

from tests.http.sending import (
    EVERY_FAMILY,
    SIX_LINES,
    code,
    details,
    effects,
    read,
    signature,
    write,
)
from tests.support import signing
from tests.support.service import Party, Service, new_key

pytestmark = pytest.mark.asyncio(loop_scope="module")

NOT_STRICT = tuple(family for family in EVERY_FAMILY if family != "subscriptions")
_KINDS = (("legacy", "dispute"), ("subscriptions", "commerce"), ("management",))  # families that sign alike
MULTIPART = (
    b'--edge\r\nContent-Disposition: form-data; name="title"\r\n\r\nDeed\r\n'
    b'--edge\r\nContent-Disposition: form-data; name="file"; filename="a.pdf"\r\n\r\n%PDF\x00\xff\r\n--edge--\r\n'
)


@pytest.mark.parametrize("family", EVERY_FAMILY)
class TestTheExactBytes:
    @pytest.mark.parametrize(
        "raw",
        [
            b'{"text":"plain"}',
            b' \n{ "text" :\t"spaced" }\r\n ',
            '{"text": "Zoë pays £5 — 支払い 🎉"}'.encode(),
            b'{"text": "escaped \\u00e9\\/"}',
            b'{"text": "ordered", "amount": 1, "then": "ok"}',
        ],
    )
    async def test_signed_as_sent(self, bursar: Service, platform: Party, family: str, raw: bytes) -> None:
        assert (await write(bursar, family, platform, body=raw)).status_code == 201

    @pytest.mark.parametrize("method", ["PUT", "PATCH"])
    async def test_every_method(self, bursar: Service, platform: Party, family: str, method: str) -> None:
        assert (await write(bursar, family, platform, method=method)).status_code == 200

    async def test_an_upper_case_digest_is_the_same_digest(self, bursar: Service, platform: Party, family: str) -> None:
        key, raw = new_key(), b'{"text": "upper"}'
        path = f"/v2/testing/{family}/notes"
        signed = signature(family, platform.secret_key, "POST", path, key, "", raw)
        shouted = {"X-Service-Signature": signed["X-Service-Signature"].upper()}
        reply = await write(bursar, family, platform, body=raw, key=key, headers={**signed, **shouted})
        assert reply.status_code == 201

    async def test_reads_need_no_signature(self, bursar: Service, platform: Party, family: str) -> None:
        assert (await read(bursar, family, platform)).status_code == 200

    async def test_a_wrong_signature_on_a_read_is_not_looked_at(
        self, bursar: Service, platform: Party, family: str
    ) -> None:
        reply = await read(bursar, family, platform, X_Service_Signature="0" * 64, X_Service_Timestamp="1")
        assert reply.status_code == 200


class TestEmptyAndMultipartBodies:
    async def test_an_empty_body_is_signed_as_the_empty_text(self, bursar: Service, merchant: Party) -> None:
        reply = await write(bursar, "legacy", merchant, method="DELETE", body=b"")
        assert reply.status_code == 200

    async def test_an_empty_body_under_the_digest_of_an_object(self, bursar: Service, merchant: Party) -> None:
        signed = signing.legacy(merchant.secret_key, b"{}")
        reply = await write(bursar, "legacy", merchant, method="DELETE", body=b"", headers=signed)
        assert (reply.status_code, code(reply)) == (401, "invalid_signature")

    async def test_multipart_is_signed_as_sent(self, bursar: Service, merchant: Party) -> None:
        reply = await write(
            bursar, "legacy", merchant, "/documents", MULTIPART, content_type="multipart/form-data; boundary=edge"
        )
        assert reply.status_code == 201
        assert reply.json()["data"]["sizes"] == [6]

    async def test_multipart_with_one_byte_changed(self, bursar: Service, merchant: Party) -> None:
        reply = await write(
            bursar, "legacy", merchant, "/documents", MULTIPART, content_type="multipart/form-data; boundary=edge",
            content=MULTIPART.replace(b"%PDF", b"%PDE"),
        )  # fmt: skip
        assert (reply.status_code, code(reply)) == (401, "invalid_signature")


async def _refused(bursar: Service, family: str, party: Party, **changes: str) -> None:
    """Signs one request and sends another; nothing may come of it."""
    text, key = new_key(), new_key()
    raw = f'{{"text": "{text}"}}'.encode()
    path = f"/v2/testing/{family}/notes"
    parts = {"kind": family, "secret": party.secret_key, "method": "POST", "path": path, "key": key,
             "account": "", **changes}  # fmt: skip
    body = parts.pop("body", "").encode() or raw
    reply = await write(
        bursar,
        family,
        party,
        body=raw,
        key=key,
        headers=signature(**parts, raw=body),  # type: ignore[arg-type]
    )
    assert (reply.status_code, code(reply)) == (401, "invalid_signature")
    assert details(reply) == {"reason": "signature_mismatch"}
    assert await effects(bursar, text) == 0


@pytest.mark.parametrize("family", EVERY_FAMILY)
class TestWhatIsRefused:
    async def test_another_body(self, bursar: Service, platform: Party, family: str) -> None:
        await _refused(bursar, family, platform, body='{"text": "something else"}')

    async def test_another_secret(self, bursar: Service, platform: Party, shop: Party, family: str) -> None:
        await _refused(bursar, family, platform, secret=shop.secret_key)

    async def test_the_public_key_instead_of_the_secret(self, bursar: Service, platform: Party, family: str) -> None:
        await _refused(bursar, family, platform, secret=platform.public_key)

    async def test_the_message_of_each_other_kind(self, bursar: Service, platform: Party, family: str) -> None:
        own = next(kind for kind in _KINDS if family in kind)
        for kind in _KINDS:
            if kind is not own:
                await _refused(bursar, family, platform, kind=kind[0])

    async def test_a_changed_timestamp(self, bursar: Service, platform: Party, family: str) -> None:
        now = int(time.time())
        later = {"X-Service-Timestamp": str(now + 1)}
        signed = signature(family, platform.secret_key, "POST", f"/v2/testing/{family}/notes", "a-key-of-ours", "",
                           b'{"text": "a note"}', now)  # fmt: skip
        reply = await write(bursar, family, platform, key="a-key-of-ours", headers={**signed, **later})
        assert (reply.status_code, code(reply)) == (401, "invalid_signature")


@pytest.mark.parametrize("family", ["subscriptions", "commerce", "management"])
class TestWhatTheBoundMessagesCover:
    async def test_another_path(self, bursar: Service, platform: Party, family: str) -> None:
        await _refused(bursar, family, platform, path=f"/v2/testing/{family}/other-notes")

    async def test_the_path_without_its_version(self, bursar: Service, platform: Party, family: str) -> None:
        await _refused(bursar, family, platform, path=f"/testing/{family}/notes")

    async def test_another_method(self, bursar: Service, platform: Party, family: str) -> None:
        await _refused(bursar, family, platform, method="PUT")

    async def test_a_lower_case_method(self, bursar: Service, platform: Party, family: str) -> None:
        await _refused(bursar, family, platform, method="post")

    async def test_another_key(self, bursar: Service, platform: Party, family: str) -> None:
        await _refused(bursar, family, platform, key="another-key-than-sent")

    async def test_an_account_that_was_not_sent(
        self, bursar: Service, platform: Party, shop: Party, family: str
    ) -> None:
        if family != "management":
            await _refused(bursar, family, platform, account=shop.account_id)


@pytest.mark.parametrize("family", SIX_LINES)
class TestTheAccountLine:
    async def test_the_header_as_it_was_sent(self, bursar: Service, platform: Party, shop: Party, family: str) -> None:
        assert (await write(bursar, family, platform, account=shop.account_id)).status_code == 201

    async def test_the_legacy_number_is_signed_as_the_number(
        self, bursar: Service, platform: Party, shop: Party, family: str
    ) -> None:
        reply = await write(bursar, family, platform, account=str(shop.merchant_id))
        assert reply.status_code == 201
        assert reply.headers["Deprecation"] == "@1735689600"

    async def test_a_sent_account_that_was_not_signed(
        self, bursar: Service, platform: Party, shop: Party, family: str
    ) -> None:
        reply = await write(bursar, family, platform, headers={"Service-Account": shop.account_id})
        assert (reply.status_code, code(reply)) == (401, "invalid_signature")

    async def test_a_request_for_one_shop_moved_to_another(
        self, bursar: Service, platform: Party, shop: Party, family: str
    ) -> None:
        other = await bursar.open_account(platform=platform.account_id)
        reply = await write(
            bursar, family, platform, account=shop.account_id, headers={"Service-Account": other.account_id}
        )
        assert (reply.status_code, code(reply)) == (401, "invalid_signature")


@pytest.mark.parametrize("family", EVERY_FAMILY)
class TestTheTimestamp:
    @pytest.mark.parametrize("off_s", [-299, 299])
    async def test_within_five_minutes(self, bursar: Service, platform: Party, family: str, off_s: int) -> None:
        reply = await write(bursar, family, platform, timestamp=int(time.time()) + off_s)
        assert reply.status_code == 201

    @pytest.mark.parametrize("off_s", [-302, 302, -(10**9)])
    async def test_outside_five_minutes(self, bursar: Service, platform: Party, family: str, off_s: int) -> None:
        before = int(time.time())
        reply = await write(bursar, family, platform, timestamp=before + off_s)
        expected = (400, "invalid_timestamp") if family == "subscriptions" else (401, "invalid_signature")
        assert (reply.status_code, code(reply)) == expected
        assert details(reply)["reason"] == "timestamp_out_of_range"
        assert before <= details(reply)["server_time"] <= int(time.time())


class TestMissingAndMalformedHeaders:
    BAD_TIMESTAMPS = (None, "", "now", "-5", "1e9", "12.5", "0x10", "９９９", "1" * 13)
    BAD_SIGNATURES = (None, "", "abc", "g" * 64, "0" * 63, "0" * 65, "sha256=" + "0" * 64)

    @pytest.mark.parametrize("family", NOT_STRICT)
    @pytest.mark.parametrize("stamp", [stamp for stamp in BAD_TIMESTAMPS if stamp is None or stamp.isascii()])
    async def test_timestamp(self, bursar: Service, platform: Party, family: str, stamp: str | None) -> None:
        reply = await write(bursar, family, platform, headers={"X-Service-Timestamp": stamp})
        if code(reply) == "rate_limited":
            pytest.fail("too many writes in one minute for one account")
        assert (reply.status_code, code(reply)) == (401, "invalid_signature")
        assert details(reply)["reason"] == "timestamp_missing"

    @pytest.mark.parametrize("family", NOT_STRICT)
    @pytest.mark.parametrize("digest", BAD_SIGNATURES)
    async def test_signature(self, bursar: Service, platform: Party, family: str, digest: str | None) -> None:
        reply = await write(bursar, family, platform, headers={"X-Service-Signature": digest})
        assert (reply.status_code, code(reply)) == (401, "invalid_signature")
        assert details(reply)["reason"] in ("signature_missing", "signature_malformed")

    @pytest.mark.parametrize("stamp", [stamp for stamp in BAD_TIMESTAMPS if stamp is None or stamp.isascii()])
    async def test_subscriptions_say_400_for_a_bad_timestamp(
        self, bursar: Service, platform: Party, stamp: str | None
    ) -> None:
        reply = await write(bursar, "subscriptions", platform, headers={"X-Service-Timestamp": stamp})
        assert (reply.status_code, code(reply)) == (400, "invalid_timestamp")

    @pytest.mark.parametrize("digest", BAD_SIGNATURES)
    async def test_subscriptions_say_400_for_a_malformed_signature(
        self, bursar: Service, platform: Party, digest: str | None
    ) -> None:
        reply = await write(bursar, "subscriptions", platform, headers={"X-Service-Signature": digest})
        assert (reply.status_code, code(reply)) == (400, "malformed_signature")

    async def test_subscriptions_say_401_for_a_wrong_digest_alone(self, bursar: Service, platform: Party) -> None:
        reply = await write(bursar, "subscriptions", platform, headers={"X-Service-Signature": "0" * 64})
        assert (reply.status_code, code(reply)) == (401, "invalid_signature")
