"""What may be sent at all: size, depth, type, grammar, fields, card data, addresses, HTTPS."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from tests.http.sending import (
    BOUND,
    EVERY_FAMILY,
    code,
    details,
    effects,
    from_elsewhere,
    read,
    write,
)
from tests.support import signing
from tests.support.routes import declared_routes
from tests.support.service import Party, Service, new_key, running_service

pytestmark = pytest.mark.asyncio(loop_scope="module")

KB, MB = 1024, 1024 * 1024
NOT_BOUND = ("legacy", "dispute")


def _padded(size: int) -> bytes:
    """A valid note of exactly this many bytes."""
    start, end = b'{"text" : "padded"', b"}"
    return start + b" " * (size - len(start) - len(end)) + end


def _deep(levels: int) -> bytes:
    """A note nested this deep; the body itself is the first level."""
    return b'{"text": "deep", "deep": ' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"


@pytest.mark.parametrize("family", EVERY_FAMILY)
class TestSize:
    async def test_at_the_limit_passes_and_above_it_not(self, bursar: Service, platform: Party, family: str) -> None:
        limit = 64 * KB if family in BOUND else MB
        assert (await write(bursar, family, platform, body=_padded(limit))).status_code == 201
        reply = await write(bursar, family, platform, body=_padded(limit + 1))
        assert (reply.status_code, code(reply)) == (413, "payload_too_large")
        assert details(reply) == {"max_bytes": limit}

    async def test_without_a_length_header(self, bursar: Service, platform: Party, family: str) -> None:
        limit = 64 * KB if family in BOUND else MB
        for size, status in ((limit, 201), (limit + 1, 413)):
            raw = _padded(size)

            async def chunks(raw: bytes = raw) -> AsyncIterator[bytes]:
                for start in range(0, len(raw), 10_000):
                    yield raw[start : start + 10_000]

            reply = await write(bursar, family, platform, body=raw, content=chunks())
            assert reply.status_code == status

    async def test_depth(self, bursar: Service, platform: Party, family: str) -> None:
        limit = 16 if family == "subscriptions" else 32
        assert (await write(bursar, family, platform, body=_deep(limit))).status_code == 201
        reply = await write(bursar, family, platform, body=_deep(limit + 1))
        assert (reply.status_code, code(reply)) == (413, "payload_too_large")
        assert details(reply) == {"max_depth": limit}

    async def test_a_bomb_of_brackets(self, bursar: Service, platform: Party, family: str) -> None:
        reply = await write(bursar, family, platform, body=b"[" * 60_000)
        assert reply.status_code in (400, 413)


class TestSizeOfUploads:
    TYPE = "multipart/form-data; boundary=edge"

    def _form(self, size: int) -> bytes:
        start = b'--edge\r\nContent-Disposition: form-data; name="title"\r\n\r\nDeed\r\n'
        start += b'--edge\r\nContent-Disposition: form-data; name="file"; filename="a.bin"\r\n\r\n'
        end = b"\r\n--edge--\r\n"
        return start + b"a" * (size - len(start) - len(end)) + end

    async def test_twelve_mebibytes(self, bursar: Service, merchant: Party) -> None:
        for size, status in ((12 * MB, 201), (12 * MB + 1, 413)):
            form = self._form(size)
            reply = await write(bursar, "legacy", merchant, "/documents", form, content_type=self.TYPE)
            assert reply.status_code == status

    async def test_json_to_an_upload_route_is_still_limited_as_json(self, bursar: Service, merchant: Party) -> None:
        raw = _padded(MB + 1).replace(b'"text" :', b'"title":')
        reply = await write(bursar, "legacy", merchant, "/documents", raw)
        assert (reply.status_code, code(reply)) == (413, "payload_too_large")

    async def test_a_form_to_a_route_without_uploads(self, bursar: Service, merchant: Party) -> None:
        reply = await write(bursar, "legacy", merchant, "/notes", self._form(1000), content_type=self.TYPE)
        assert (reply.status_code, code(reply)) == (415, "unsupported_media_type")

    @pytest.mark.parametrize(
        "raw",
        [
            b"", b"nonsense", b"--edge", b"--edge\r\n\r\n--edge--\r\n", b"--edge--\r\n",
            b'--edge\r\nContent-Disposition: form-data; name="title"\r\n\r\n\xff\xfe\r\n--edge--\r\n',
            b'--edge\r\nContent-Disposition: form-data; name="title"\r\n\r\nA\x00B\r\n--edge--\r\n',
            b'--edge\r\nContent-Disposition: form-data; name="title"; filename=""\r\n\r\nx\r\n--edge--\r\n',
            b'--edge\r\nContent-Disposition: form-data; filename="a"\r\n\r\nx\r\n--edge--\r\n',
            b'--edge\r\nContent-Disposition: form-data; name="title"; filename*=utf-9\'\'%ff\r\n\r\nx\r\n--edge--\r\n',
            b"--edge\r\nContent-Disposition\r\n\r\nx\r\n--edge--\r\n",
            b"".join(b'--edge\r\nContent-Disposition: form-data; name="a"\r\n\r\nx\r\n' for _ in range(70)),
        ],
    )  # fmt: skip
    async def test_a_broken_form_is_never_our_failure(self, bursar: Service, merchant: Party, raw: bytes) -> None:
        reply = await write(bursar, "legacy", merchant, "/documents", raw, content_type=self.TYPE)
        assert reply.status_code in (400, 422)
        assert code(reply) in ("bad_request", "validation_error")

    @pytest.mark.parametrize("kind", ["multipart/form-data", "multipart/form-data; boundary=" + "x" * 200])
    async def test_a_broken_content_type(self, bursar: Service, merchant: Party, kind: str) -> None:
        reply = await write(bursar, "legacy", merchant, "/documents", self._form(1000), content_type=kind)
        assert (reply.status_code, code(reply)) == (400, "bad_request")


@pytest.mark.parametrize("family", EVERY_FAMILY)
class TestContentType:
    @pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "application/jsonx", ""])
    async def test_others_are_refused(self, bursar: Service, platform: Party, family: str, kind: str) -> None:
        reply = await write(bursar, family, platform, content_type=kind)
        assert (reply.status_code, code(reply)) == (415, "unsupported_media_type")

    async def test_a_charset_does_no_harm(self, bursar: Service, platform: Party, family: str) -> None:
        reply = await write(bursar, family, platform, content_type="Application/JSON; charset=utf-8")
        assert reply.status_code == 201


# Raw bytes, and what they get in the families that ignore unknown fields.
MALFORMED = {
    "not JSON": b"{text}",
    "cut off": b'{"text": "a',
    "two values": b'{"text": "a"} {}',
    "a list": b'[{"text": "a"}]',
    "a text": b'"text"',
    "null": b"null",
    "a comment": b'{"text": "a" /* hm */}',
    "a trailing comma": b'{"text": "a",}',
    "single quotes": b"{'text': 'a'}",
    "a key twice": b'{"text": "a", "text": "b"}',
    "a key twice, deeper": b'{"text": "a", "deep": [{"x": 1, "x": 1}]}',
    "NaN": b'{"text": "a", "deep": NaN}',
    "Infinity": b'{"text": "a", "deep": -Infinity}',
    "a number without end": b'{"text": "a", "deep": ' + b"9" * 100_000 + b"}"[:1],
    "a huge exponent": b'{"text": "a", "deep": 1e999999}',
    "an absurd exponent": b'{"text": "a", "deep": 1e99999999999999999999}',
    "an absurd negative exponent": b'{"text": "a", "deep": 0e-99999999999999999999}',
    "a tiny number": b'{"text": "a", "deep": 1e-999}',
    "not UTF-8": b'{"text": "\xff\xfe"}',
    "UTF-16": '{"text": "a"}'.encode("utf-16"),
    "a byte-order mark": b'\xef\xbb\xbf{"text": "a"}',
    "a raw NUL": b'{"text": "a\x00b"}',
    "a raw newline in a text": b'{"text": "a\nb"}',
    "a lone surrogate in UTF-8": b'{"text": "\xed\xa0\x80"}',
}
UNSTORABLE = {
    "a lone surrogate": (b'{"text": "\\ud800"}', "text"),
    "a NUL": (b'{"text": "a\\u0000b"}', "text"),
    "a NUL, deeper": (b'{"text": "a", "deep": [1, {"x": "\\u0000"}]}', "deep.1.x"),
    "a NUL in a name": (b'{"text": "a", "deep": {"x\\u0000": 1}}', "deep"),
    "a lone surrogate in a name": (b'{"text": "a", "\\udfff": 1}', "body"),
}


@pytest.mark.parametrize("family", EVERY_FAMILY)
class TestGrammar:
    @pytest.mark.parametrize("raw", MALFORMED.values(), ids=MALFORMED)
    async def test_malformed(self, bursar: Service, platform: Party, family: str, raw: bytes) -> None:
        reply = await write(bursar, family, platform, body=raw)
        assert reply.status_code in (400, 413)
        assert code(reply) in ("bad_request", "payload_too_large")

    @pytest.mark.parametrize(("raw", "path"), UNSTORABLE.values(), ids=UNSTORABLE)
    async def test_what_the_database_cannot_hold(
        self, bursar: Service, platform: Party, family: str, raw: bytes, path: str
    ) -> None:
        reply = await write(bursar, family, platform, body=raw)
        assert (reply.status_code, code(reply)) == (422, "validation_error")
        assert path in details(reply)

    async def test_an_empty_body(self, bursar: Service, platform: Party, family: str) -> None:
        reply = await write(bursar, family, platform, body=b"")
        expected = (400, "bad_request") if family in BOUND else (422, "validation_error")
        assert (reply.status_code, code(reply)) == expected

    async def test_a_pair_of_surrogates_is_one_character(self, bursar: Service, platform: Party, family: str) -> None:
        reply = await write(bursar, family, platform, body=b'{"text": "\\ud83c\\udf89"}')
        assert reply.json()["data"]["text"] == "🎉"


class TestFields:
    @pytest.mark.parametrize("family", NOT_BOUND)
    async def test_unknown_ones_are_ignored(self, bursar: Service, platform: Party, family: str) -> None:
        assert (await write(bursar, family, platform, body={"text": "a", "extra": {"x": 1}})).status_code == 201

    @pytest.mark.parametrize("family", BOUND)
    async def test_unknown_ones_are_refused_by_the_bound_families(
        self, bursar: Service, platform: Party, family: str
    ) -> None:
        reply = await write(bursar, family, platform, body={"text": "", "extra": 1, "more": 2})
        assert (reply.status_code, code(reply)) == (422, "unknown_fields")
        assert set(details(reply)) == {"text", "extra", "more"}

    @pytest.mark.parametrize("family", EVERY_FAMILY)
    async def test_every_bad_field_is_named(self, bursar: Service, platform: Party, family: str) -> None:
        reply = await write(bursar, family, platform, body={"text": 7, "amount": "1", "then": "maybe", "slow_ms": 1.5})
        assert (reply.status_code, code(reply)) == (422, "validation_error")
        assert set(details(reply)) == {"text", "amount", "then", "slow_ms"}
        assert all(isinstance(message, str) for messages in details(reply).values() for message in messages)

    async def test_a_query_s_bad_fields_are_named(self, bursar: Service, merchant: Party) -> None:
        reply = await bursar.get(merchant, "/webhooks?page=0&per_page=101&sort=url&status=odd")
        assert (reply.status_code, code(reply)) == (422, "validation_error")
        assert set(details(reply)) == {"page", "per_page", "status"}

    @pytest.mark.parametrize("family", BOUND)
    async def test_bound_writes_take_no_query(self, bursar: Service, platform: Party, family: str) -> None:
        reply = await write(bursar, family, platform, query="?a=1")
        assert (reply.status_code, code(reply)) == (400, "bad_request")

    @pytest.mark.parametrize("family", BOUND)
    async def test_bound_reads_refuse_unknown_parameters(self, bursar: Service, platform: Party, family: str) -> None:
        reply = await read(bursar, family, platform, path="/notes?text=a&other=1")
        assert (reply.status_code, code(reply)) == (422, "unknown_fields")

    async def test_legacy_reads_ignore_unknown_parameters(self, bursar: Service, merchant: Party) -> None:
        assert (await read(bursar, "legacy", merchant, path="/notes?text=a&other=1")).status_code == 200

    @pytest.mark.parametrize(
        "query", ["text=%ff", "text=%00", "text=%ed%a0%80", "&".join(f"p{n}=1" for n in range(65))]
    )
    async def test_a_malformed_query_is_never_our_failure(self, bursar: Service, merchant: Party, query: str) -> None:
        reply = await read(bursar, "legacy", merchant, path=f"/notes?{query}")
        assert reply.status_code in (400, 422)

    @pytest.mark.parametrize(
        "number", ["0", "-1", "x", "1.5", "٣", "9" * 19, "9" * 40, "1" * 5000, "%00", "%ff", "1e3"]
    )
    async def test_a_path_that_names_no_number_names_nothing(
        self, bursar: Service, merchant: Party, number: str
    ) -> None:
        reply = await bursar.get(merchant, f"/testing/legacy/numbers/{number}")
        assert (reply.status_code, code(reply)) == (404, "not_found")


CARD = "4242424242424242"


@pytest.mark.parametrize("family", EVERY_FAMILY)
class TestCardData:
    @pytest.mark.parametrize(
        ("body", "path"),
        [
            ({"card_number": "x"}, "card_number"),
            ({"cvc": None}, "cvc"),
            ({"deep": {"card": {"number": 1, "exp": "12/30"}}}, "deep.card.number"),
            ({"deep": [{"pin": "1234"}]}, "deep.0.pin"),
            ({"deep": {"secret_key": "x"}}, "deep.secret_key"),
            ({"text": f"pay with {CARD}"}, "text"),
            ({"text": "4242 4242 4242 4242"}, "text"),
            ({"deep": [{"note": "4242-4242-4242-4242"}]}, "deep.0.note"),
            ({"deep": int(CARD)}, "deep"),
            ({"text": "\\u0034242424242424242"}, "text"),
        ],
    )
    async def test_is_refused_with_its_path(
        self, bursar: Service, platform: Party, family: str, body: dict[str, object], path: str
    ) -> None:
        raw = json.dumps({"text": "a", **body}).replace("\\\\u", "\\u").encode()
        reply = await write(bursar, family, platform, body=raw)
        assert (reply.status_code, code(reply)) == (422, "validation_error")
        assert path in details(reply)
        assert CARD not in reply.text

    async def test_what_only_looks_like_it_passes(self, bursar: Service, platform: Party, family: str) -> None:
        for text in ("4242424242424241", "order 4242424242424242424242", "+44 20 7946 0958"):
            assert (await write(bursar, family, platform, body={"text": text})).status_code == 201


class TestCardDataInForms:
    async def test_is_refused(self, bursar: Service, merchant: Party) -> None:
        for name, value in (("title", CARD), ("card_number", "x"), ("cvc", "123")):
            form = (
                f'--edge\r\nContent-Disposition: form-data; name="title"\r\n\r\nDeed\r\n--edge\r\n'
                f'Content-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n--edge--\r\n'
            ).encode()
            reply = await write(
                bursar, "legacy", merchant, "/documents", form, content_type="multipart/form-data; boundary=edge"
            )
            assert (reply.status_code, code(reply)) == (422, "validation_error")
            assert CARD not in reply.text


class TestCardDataInQueries:
    @pytest.mark.parametrize("query", [f"text={CARD}", "text=4242+4242%204242-4242", "card_number=1", "cvc=123"])
    async def test_is_refused(self, bursar: Service, merchant: Party, query: str) -> None:
        reply = await read(bursar, "legacy", merchant, path=f"/notes?{query}")
        assert (reply.status_code, code(reply)) == (422, "validation_error")
        assert CARD not in reply.text


class TestTheAddress:
    async def test_commerce_takes_2048_characters(self, bursar: Service, platform: Party) -> None:
        path = "/v2/testing/commerce/notes?text="
        for length, status in ((2048, 200), (2049, 414)):
            reply = await bursar.get(platform, path + "a" * (length - len(path)))
            assert reply.status_code == status
        assert code(reply) == "uri_too_long"

    async def test_others_take_more(self, bursar: Service, merchant: Party) -> None:
        assert (await read(bursar, "legacy", merchant, path=f"/notes?text={'a' * 4000}")).status_code == 200
        reply = await read(bursar, "legacy", merchant, path=f"/notes?text={'a' * 9000}")
        assert (reply.status_code, code(reply)) == (414, "uri_too_long")


class TestHttps:
    """The instance believes the forwarding headers of 127.0.0.1, from where the tests call."""

    @pytest.mark.parametrize("family", BOUND)
    async def test_is_required_from_elsewhere(self, bursar: Service, platform: Party, family: str) -> None:
        status = 400 if family == "subscriptions" else 403
        for headers in (
            {"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Proto": "http"},
            {"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Proto": None},
            {"X-Forwarded-For": "127.0.0.1, 203.0.113.9", "X-Forwarded-Proto": "http"},
            {"X-Forwarded-For": "203.0.113.9, 127.0.0.1", "X-Forwarded-Proto": "http"},
            {"X-Forwarded-For": "unknown", "X-Forwarded-Proto": "http"},
            {"X-Forwarded-For": None, "X-Forwarded-Proto": "http"},
        ):
            text = new_key()
            reply = await write(bursar, family, platform, body={"text": text}, headers=headers)
            assert (reply.status_code, code(reply)) == (status, "https_required")
            assert await effects(bursar, text) == 0

    @pytest.mark.parametrize("family", BOUND)
    async def test_also_for_reads(self, bursar: Service, platform: Party, family: str) -> None:
        reply = await bursar.get(
            platform, f"/testing/{family}/notes", X_Forwarded_For="203.0.113.9", X_Forwarded_Proto="http"
        )
        assert code(reply) == "https_required"

    @pytest.mark.parametrize("family", BOUND)
    async def test_is_satisfied_by_the_proxy_s_word(self, bursar: Service, platform: Party, family: str) -> None:
        assert (await write(bursar, family, platform, headers=from_elsewhere())).status_code == 201

    @pytest.mark.parametrize("family", ["subscriptions", "commerce"])
    async def test_is_not_required_on_this_machine(self, bursar: Service, platform: Party, family: str) -> None:
        assert (await write(bursar, family, platform)).status_code == 201

    async def test_is_not_asked_of_the_other_families(self, bursar: Service, merchant: Party) -> None:
        headers = {"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Proto": "http"}
        assert (await write(bursar, "legacy", merchant, headers=headers)).status_code == 201

    async def test_nobody_else_s_forwarding_headers_are_believed(self, bursar: Service, platform: Party) -> None:
        async with running_service(
            bursar.urls, like=bursar, routes=declared_routes(), worker=False, trusted_proxies=()
        ) as plain:
            headers = {"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Proto": "http"}
            assert (await write(plain, "commerce", platform, headers=headers)).status_code == 201


class TestNothingOfABodyIsLookedAtBeforeItsSenderIsKnown:
    async def test_a_stranger_learns_nothing_of_the_body(self, bursar: Service) -> None:
        headers = {"Authorization": "Bearer nonsense", "Content-Type": "text/plain", **signing.legacy("x", b"x")}
        reply = await bursar.client.post("/v2/testing/legacy/notes", content=b"{broken", headers=headers)
        assert (reply.status_code, code(reply)) == (401, "invalid_credentials")
