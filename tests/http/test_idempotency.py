"""One effect per key, and the first reply again, in each family's flavour."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta

import httpx
import pytest

from bursar.http.sweeps import EXPIRED_KEYS
from tests.http.sending import (
    BOUND,
    CONSUMING,
    EVERY_FAMILY,
    NOT_CONSUMING,
    NOT_REPLAYING,
    REPLAYING,
    code,
    effects,
    events,
    write,
)
from tests.support.doors import closed_door
from tests.support.routes import SHOWN_SECRET, declared_routes
from tests.support.service import Party, Service, new_key, running_service

pytestmark = pytest.mark.asyncio(loop_scope="module")

DAY_S = 86_400


async def _advance(bursar: Service, seconds: int) -> None:
    reply = await bursar.ops("POST", "/clock/advance", {"seconds": seconds})
    assert reply.status_code == 200, reply.text


async def _same_effect(replies: list[httpx.Response]) -> Counter[int]:
    """Each reply is the one body, or 409 duplicate_request."""
    bodies = {reply.content for reply in replies if reply.status_code == 201}
    assert len(bodies) == 1
    assert all(code(reply) == "duplicate_request" for reply in replies if reply.status_code != 201)
    return Counter(reply.status_code for reply in replies)


@pytest.mark.parametrize("family", REPLAYING)
class TestReplay:
    async def test_the_first_reply_byte_for_byte(self, bursar: Service, platform: Party, family: str) -> None:
        text, key = new_key(), new_key()
        first = await write(bursar, family, platform, body={"text": text}, key=key)
        again = await write(bursar, family, platform, body={"text": text}, key=key)
        assert (first.status_code, again.status_code) == (201, 201)
        assert again.content == first.content
        assert again.headers["Content-Type"] == first.headers["Content-Type"]
        assert again.headers["Idempotency-Replayed"] == "true"
        assert "Idempotency-Replayed" not in first.headers
        assert again.headers["Service-Request-Id"] != first.headers["Service-Request-Id"]
        assert (await effects(bursar, text), await events(bursar, text)) == (1, 1)

    async def test_another_body_is_a_conflict(self, bursar: Service, platform: Party, family: str) -> None:
        text, key = new_key(), new_key()
        await write(bursar, family, platform, body={"text": text}, key=key)
        for other in ({"text": text, "amount": 2}, f'{{"text":"{text}"}}'.encode()):
            reply = await write(bursar, family, platform, body=other, key=key)
            assert (reply.status_code, code(reply)) == (409, "idempotency_conflict")
        assert await effects(bursar, text) == 1

    async def test_a_later_invalid_body_under_a_used_key_is_a_conflict(
        self, bursar: Service, platform: Party, family: str
    ) -> None:
        key = new_key()
        await write(bursar, family, platform, key=key)
        reply = await write(bursar, family, platform, body={"text": ""}, key=key)
        assert (reply.status_code, code(reply)) == (409, "idempotency_conflict")

    async def test_two_accounts_may_use_the_same_key(
        self, bursar: Service, platform: Party, merchant: Party, family: str
    ) -> None:
        text, key = new_key(), new_key()
        for party in (platform, merchant):
            assert (await write(bursar, family, party, body={"text": text}, key=key)).status_code == 201
        assert await effects(bursar, text) == 2

    async def test_a_rotated_key_still_replays(self, bursar: Service, family: str) -> None:
        party = await bursar.open_account()
        text, key = new_key(), new_key()
        first = await write(bursar, family, party, body={"text": text}, key=key)
        keys = (await bursar.get(party, "/api-keys")).json()["data"]
        old = next(entry["id"] for entry in keys if entry["kind"] == "secret")
        rotated = await bursar.send(party, "POST", f"/api-keys/{old}/rotate", {"grace_seconds": 0})
        newer = rotated.json()["data"]["api_key"]["key"]
        again = await write(bursar, family, newer, body={"text": text}, key=key)
        assert (again.status_code, again.content) == (201, first.content)


@pytest.mark.parametrize("family", NOT_REPLAYING)
class TestAUsedKeyOfAFamilyThatDoesNotReplay:
    async def test_the_same_request_again(self, bursar: Service, platform: Party, family: str) -> None:
        text, key = new_key(), new_key()
        assert (await write(bursar, family, platform, body={"text": text}, key=key)).status_code == 201
        again = await write(bursar, family, platform, body={"text": text}, key=key)
        assert (again.status_code, code(again)) == (409, "duplicate_request")
        assert "Idempotency-Replayed" not in again.headers
        assert await effects(bursar, text) == 1

    async def test_another_body(self, bursar: Service, platform: Party, family: str) -> None:
        key = new_key()
        await write(bursar, family, platform, key=key)
        again = await write(bursar, family, platform, body={"text": "other"}, key=key)
        assert (again.status_code, code(again)) == (409, "duplicate_request")


class TestWhatAKeyIsUniqueWithin:
    @pytest.mark.parametrize("family", [family for family in EVERY_FAMILY if family != "commerce"])
    async def test_another_path_or_method_is_another_use(self, bursar: Service, platform: Party, family: str) -> None:
        text, key = new_key(), new_key()
        replies = [
            await write(bursar, family, platform, path, {"text": text}, key=key, method=method)
            for path, method in (("/notes", "POST"), ("/other-notes", "POST"), ("/notes", "PUT"))
        ]
        assert [reply.status_code for reply in replies] == [201, 201, 200]
        assert await effects(bursar, text) == 3

    @pytest.mark.parametrize("family", ["legacy", "dispute", "subscriptions"])
    async def test_another_target_account_is_another_use(
        self, bursar: Service, platform: Party, shop: Party, family: str
    ) -> None:
        text, key = new_key(), new_key()
        for account in (None, shop.account_id):
            reply = await write(bursar, family, platform, body={"text": text}, key=key, account=account)
            assert reply.status_code == 201
        assert await effects(bursar, text) == 2

    @pytest.mark.parametrize("family", ["legacy", "subscriptions", "commerce"])
    async def test_the_full_id_and_the_number_name_the_same_target(
        self, bursar: Service, platform: Party, shop: Party, family: str
    ) -> None:
        text, key = new_key(), new_key()
        full = await write(bursar, family, platform, body={"text": text}, key=key, account=shop.account_id)
        short = await write(bursar, family, platform, body={"text": text}, key=key, account=str(shop.merchant_id))
        assert short.content == full.content
        assert await effects(bursar, text) == 1

    async def test_the_shop_s_own_key_does_not_meet_its_platform_s(
        self, bursar: Service, platform: Party, shop: Party
    ) -> None:
        text, key = new_key(), new_key()
        await write(bursar, "legacy", platform, body={"text": text}, key=key, account=shop.account_id)
        assert (await write(bursar, "legacy", shop, body={"text": text}, key=key)).status_code == 201
        assert await effects(bursar, text) == 2

    async def test_commerce_forbids_another_path(self, bursar: Service, platform: Party) -> None:
        text, key = new_key(), new_key()
        await write(bursar, "commerce", platform, body={"text": text}, key=key)
        for path, method in (("/other-notes", "POST"), ("/notes", "PUT")):
            reply = await write(bursar, "commerce", platform, path, {"text": text}, key=key, method=method)
            assert (reply.status_code, code(reply)) == (409, "idempotency_conflict")
        assert await effects(bursar, text) == 1

    async def test_commerce_forbids_another_shop(self, bursar: Service, platform: Party, shop: Party) -> None:
        text, key = new_key(), new_key()
        await write(bursar, "commerce", platform, body={"text": text}, key=key)
        reply = await write(bursar, "commerce", platform, body={"text": text}, key=key, account=shop.account_id)
        assert (reply.status_code, code(reply)) == (409, "idempotency_conflict")
        assert await effects(bursar, text) == 1

    async def test_families_do_not_share_keys(self, bursar: Service, platform: Party) -> None:
        key = new_key()
        for family in EVERY_FAMILY:
            assert (await write(bursar, family, platform, key=key)).status_code == 201


class TestErrorsAndKeys:
    BAD = ({"text": ""}, {"text": "x", "then": "refuse"})

    @pytest.mark.parametrize("family", CONSUMING)
    @pytest.mark.parametrize("body", BAD, ids=["validation", "declared"])
    async def test_an_error_consumes_the_key(
        self, bursar: Service, platform: Party, family: str, body: dict[str, str]
    ) -> None:
        text, key = new_key(), new_key()
        wrong = {**body, "text": body["text"] and text}
        first = await write(bursar, family, platform, body=wrong, key=key)
        assert first.status_code == 422
        corrected = await write(bursar, family, platform, body={"text": text}, key=key)
        same = await write(bursar, family, platform, body=wrong, key=key)
        if family == "subscriptions":
            assert (corrected.status_code, code(corrected)) == (409, "idempotency_conflict")
            assert (same.status_code, same.content) == (422, first.content)
            assert same.headers["Idempotency-Replayed"] == "true"
        else:
            assert (corrected.status_code, code(corrected)) == (409, "duplicate_request")
            assert (same.status_code, code(same)) == (409, "duplicate_request")
        assert (await effects(bursar, text), await events(bursar, text)) == (0, 0)

    @pytest.mark.parametrize("family", NOT_CONSUMING)
    @pytest.mark.parametrize("body", BAD, ids=["validation", "declared"])
    async def test_an_error_leaves_the_key_free(
        self, bursar: Service, platform: Party, family: str, body: dict[str, str]
    ) -> None:
        text, key = new_key(), new_key()
        first = await write(bursar, family, platform, body={**body, "text": body["text"] and text}, key=key)
        assert first.status_code == 422
        assert (await effects(bursar, text), await events(bursar, text)) == (0, 0)
        corrected = await write(bursar, family, platform, body={"text": text}, key=key)
        assert corrected.status_code == 201
        assert "Idempotency-Replayed" not in corrected.headers
        assert await effects(bursar, text) == 1

    @pytest.mark.parametrize("family", EVERY_FAMILY)
    async def test_a_failure_of_ours_leaves_nothing(self, bursar: Service, platform: Party, family: str) -> None:
        text, key = new_key(), new_key()
        for then in ("crash", "broken_sql"):
            reply = await write(bursar, family, platform, body={"text": text, "then": then}, key=key)
            assert (reply.status_code, code(reply)) == (500, "internal_error")
        assert (await effects(bursar, text), await events(bursar, text)) == (0, 0)
        assert (await write(bursar, family, platform, body={"text": text}, key=key)).status_code == 201

    @pytest.mark.parametrize("family", CONSUMING)
    async def test_a_wrong_signature_does_not_use_the_key(self, bursar: Service, platform: Party, family: str) -> None:
        key = new_key()
        refused = await write(bursar, family, platform, key=key, headers={"X-Service-Signature": "0" * 64})
        assert refused.status_code == 401
        assert (await write(bursar, family, platform, key=key)).status_code == 201


class TestTheKeyItself:
    @pytest.mark.parametrize("family", EVERY_FAMILY)
    async def test_missing(self, bursar: Service, platform: Party, family: str) -> None:
        reply = await write(bursar, family, platform, key="", headers={"Idempotency-Key": None})
        assert (reply.status_code, code(reply)) == (400, "missing_idempotency_key")

    @pytest.mark.parametrize("family", EVERY_FAMILY)
    async def test_empty(self, bursar: Service, platform: Party, family: str) -> None:
        reply = await write(bursar, family, platform, key="")
        assert (reply.status_code, code(reply)) == (400, "missing_idempotency_key")

    @pytest.mark.parametrize("family", ["legacy", "dispute"])
    @pytest.mark.parametrize(
        ("key", "fits"), [("k", True), ("~!" * 127 + "k", True), ("k" * 256, False), ("a b", False)]
    )
    async def test_legacy_takes_1_to_255_printable_characters(
        self, bursar: Service, merchant: Party, family: str, key: str, fits: bool
    ) -> None:
        reply = await write(bursar, family, merchant, key=key)
        if fits:
            assert reply.status_code == 201
        else:
            assert (reply.status_code, code(reply)) == (422, "invalid_idempotency_key")

    @pytest.mark.parametrize("family", BOUND)
    @pytest.mark.parametrize(
        ("key", "fits"),
        [("k" * 8, True), ("Az09._:-" * 12, True), ("k" * 100, True), ("k" * 7, False), ("k" * 101, False),
         ("with a space", False)],
    )  # fmt: skip
    async def test_bound_families_take_8_to_100(
        self, bursar: Service, platform: Party, family: str, key: str, fits: bool
    ) -> None:
        reply = await write(bursar, family, platform, key=key)
        if fits:
            assert reply.status_code == 201
        else:
            status = 400 if family == "subscriptions" else 422
            assert (reply.status_code, code(reply)) == (status, "invalid_idempotency_key")

    @pytest.mark.parametrize("family", ["subscriptions", "management"])
    @pytest.mark.parametrize("key", ["slash/in/the/key", "plus+plus+", "hash#tag#ok", "curly{braces}"])
    async def test_subscriptions_and_management_take_letters_digits_and_four_marks(
        self, bursar: Service, platform: Party, family: str, key: str
    ) -> None:
        reply = await write(bursar, family, platform, key=key)
        assert code(reply) == "invalid_idempotency_key"


class TestParallelRequestsWithOneKey:
    @pytest.mark.parametrize("family", [family for family in EVERY_FAMILY if family != "dispute"])
    async def test_twenty_at_once_are_one_effect(self, bursar: Service, platform: Party, family: str) -> None:
        text, key = new_key(), new_key()
        replies = await asyncio.gather(
            *(write(bursar, family, platform, body={"text": text}, key=key) for _ in range(20))
        )
        await _same_effect(replies)
        assert (await effects(bursar, text), await events(bursar, text)) == (1, 1)

    @pytest.mark.parametrize("family", EVERY_FAMILY)
    async def test_six_at_once_are_within_every_family_s_limit(
        self, bursar: Service, platform: Party, family: str
    ) -> None:
        text, key = new_key(), new_key()
        replies = await asyncio.gather(
            *(write(bursar, family, platform, body={"text": text}, key=key) for _ in range(6))
        )
        counts = await _same_effect(replies)
        if family in NOT_REPLAYING:
            assert counts == {201: 1, 409: 5}
        assert (await effects(bursar, text), await events(bursar, text)) == (1, 1)

    @pytest.mark.parametrize("family", EVERY_FAMILY)
    async def test_twins_of_a_slow_request_do_not_wait_long(
        self, bursar: Service, platform: Party, family: str
    ) -> None:
        """They are answered while it is still running."""
        text, key = new_key(), new_key()
        with closed_door() as door:
            body = {"text": text, "door": door.name}
            first = asyncio.create_task(write(bursar, family, platform, body=body, key=key))
            await door.reached.wait()
            twins = await asyncio.gather(*(write(bursar, family, platform, body=body, key=key) for _ in range(3)))
            assert [reply.status_code for reply in twins] == [409, 409, 409]
        assert (await first).status_code == 201
        assert await effects(bursar, text) == 1


class TestFiftyAtOnce:
    async def test_one_effect(self, bursar: Service, merchant: Party) -> None:
        for path in ("/notes", "/entries"):
            text, key = new_key(), new_key()
            replies = await asyncio.gather(
                *(write(bursar, "legacy", merchant, path, {"text": text}, key=key) for _ in range(50))
            )
            await _same_effect(replies)
            assert (await effects(bursar, text), await events(bursar, text)) == (1, 1)

    async def test_refused_ones_among_them_burn_no_key_and_make_no_second_effect(
        self, bursar: Service, merchant: Party
    ) -> None:
        """Who succeeds whom is a matter of time (tests/unit has the order); that it happens once is not."""
        text, key = new_key(), new_key()
        good, bad = {"text": text}, {"text": text, "then": "refuse", "slow_ms": 30}
        replies = await asyncio.gather(
            *(write(bursar, "legacy", merchant, body=bad, key=key) for _ in range(10)),
            *(write(bursar, "legacy", merchant, body=good, key=key) for _ in range(10)),
        )
        assert all(reply.status_code in (201, 409, 422) for reply in replies)
        afterwards = await write(bursar, "legacy", merchant, body=good, key=key)
        assert afterwards.status_code == 201
        assert {reply.content for reply in replies if reply.status_code == 201} <= {afterwards.content}
        assert await effects(bursar, text) == 1


class TestTwoInstancesOnOneDatabase:
    async def test_fifty_at_once_over_both_are_one_effect(self, bursar: Service, merchant: Party) -> None:
        async with running_service(bursar.urls, like=bursar, routes=declared_routes(), worker=False) as other:
            for path in ("/notes", "/entries", "/charges"):
                text, key = new_key(), new_key()
                body = {"reference": text} if path == "/charges" else {"text": text}
                replies = await asyncio.gather(
                    *(
                        write((bursar, other)[number % 2], "legacy", merchant, path, body, key=key)
                        for number in range(50)
                    )
                )
                await _same_effect(replies)
                written = f"{text} done" if path == "/charges" else text
                assert (await effects(bursar, written), await events(bursar, text)) == (1, 2 - (path != "/charges"))

    async def test_what_one_answered_the_other_replays(self, bursar: Service, platform: Party) -> None:
        async with running_service(bursar.urls, like=bursar, routes=declared_routes(), worker=False) as other:
            for family in EVERY_FAMILY:
                key = new_key()
                first = await write(bursar, family, platform, key=key)
                again = await write(other, family, platform, key=key)
                if family in REPLAYING:
                    assert (again.status_code, again.content) == (201, first.content)
                else:
                    assert (again.status_code, code(again)) == (409, "duplicate_request")

    @pytest.mark.parametrize("path", ["/notes", "/entries"])
    async def test_a_twin_at_work_elsewhere_is_waited_for_a_quarter_of_a_second(
        self, bursar: Service, merchant: Party, path: str
    ) -> None:
        """The twin holds the key in a transaction of its own that stays open."""
        text, key = new_key(), new_key()
        async with bursar.db.acquire() as elsewhere:
            transaction = elsewhere.transaction()
            await transaction.start()
            await elsewhere.execute(
                """
                INSERT INTO idempotency_key (account_id, family, scope, key, fingerprint, created_at, expires_at)
                VALUES ($1, 'legacy', $2, $3, '', now(), now() + interval '1 day')
                """,
                merchant.merchant_id,
                f"{merchant.merchant_id} POST /v2/testing/legacy{path}",
                key,
            )
            neighbour = asyncio.create_task(write(bursar, "legacy", merchant, path, {"text": f"{text} beside"}))
            reply = await write(bursar, "legacy", merchant, path, {"text": text}, key=key)
            assert (reply.status_code, code(reply)) == (409, "duplicate_request")
            assert reply.elapsed < timedelta(seconds=2)  # which any other lock is waited for
            assert (await neighbour).status_code == 201
            await transaction.rollback()
        assert (await write(bursar, "legacy", merchant, path, {"text": text}, key=key)).status_code == 201


class TestRepliesThatShowASecret:
    async def test_are_replayed_to_the_same_key(self, bursar: Service, merchant: Party) -> None:
        key, body = new_key(), {"text": new_key()}
        first = await write(bursar, "legacy", merchant, "/secrets", body, key=key)
        again = await write(bursar, "legacy", merchant, "/secrets", body, key=key)
        assert first.json()["data"]["secret"] == SHOWN_SECRET
        assert (again.status_code, again.content) == (201, first.content)
        assert again.headers["Idempotency-Replayed"] == "true"
        assert await effects(bursar, body["text"]) == 1

    async def test_are_stored_sealed(self, bursar: Service, merchant: Party) -> None:
        key = new_key()
        await write(bursar, "legacy", merchant, "/secrets", {"text": "x"}, key=key)
        row = await bursar.db.fetchrow("SELECT body, sealed FROM idempotency_key WHERE key = $1", key)
        assert row is not None
        assert row["sealed"]
        assert SHOWN_SECRET.encode() not in row["body"]

    async def test_are_not_repeated_to_another_key_of_the_account(self, bursar: Service, merchant: Party) -> None:
        other = (await bursar.ops("POST", f"/accounts/{merchant.merchant_id}/keys", {"kind": "secret"})).json()
        key, body = new_key(), {"text": new_key()}
        await write(bursar, "legacy", merchant, "/secrets", body, key=key)
        reply = await write(bursar, "legacy", other["data"]["key"], "/secrets", body, key=key)
        assert (reply.status_code, code(reply)) == (409, "duplicate_request")
        assert SHOWN_SECRET not in reply.text
        assert await effects(bursar, body["text"]) == 1

    async def test_twenty_at_once(self, bursar: Service, merchant: Party) -> None:
        key, body = new_key(), {"text": new_key()}
        replies = await asyncio.gather(
            *(write(bursar, "legacy", merchant, "/secrets", body, key=key) for _ in range(20))
        )
        await _same_effect(replies)
        assert await effects(bursar, body["text"]) == 1


def _form(boundary: str, title: str, content: bytes, *, tail: bytes = b"") -> tuple[bytes, str]:
    edge = boundary.encode()
    body = (
        b"--" + edge + b'\r\nContent-Disposition: form-data; name="title"\r\n\r\n' + title.encode() + b"\r\n"
        b"--" + edge + b'\r\nContent-Disposition: form-data; name="file"; filename="deed.pdf"\r\n'
        b"Content-Type: application/pdf\r\n\r\n" + content + b"\r\n" + tail + b"--" + edge + b"--\r\n"
    )  # fmt: skip
    return body, f"multipart/form-data; boundary={boundary}"


class TestUploads:
    async def _upload(self, bursar: Service, party: Party, key: str, form: tuple[bytes, str]) -> httpx.Response:
        return await write(bursar, "legacy", party, "/documents", form[0], content_type=form[1], key=key)

    async def test_a_retry_with_another_boundary_is_the_same_request(self, bursar: Service, merchant: Party) -> None:
        title, key = new_key(), new_key()
        first = await self._upload(bursar, merchant, key, _form("first-edge", title, b"%PDF 1"))
        again = await self._upload(bursar, merchant, key, _form("second-edge", title, b"%PDF 1"))
        assert (first.status_code, again.content) == (201, first.content)
        assert await effects(bursar, title) == 1

    async def test_another_file_or_field_is_another_request(self, bursar: Service, merchant: Party) -> None:
        title, key = new_key(), new_key()
        await self._upload(bursar, merchant, key, _form("edge", title, b"%PDF 1"))
        more = b'--edge\r\nContent-Disposition: form-data; name="tags"\r\n\r\nx\r\n'
        for form in (_form("edge", title, b"%PDF 2"), _form("edge", title, b"%PDF 1", tail=more)):
            reply = await self._upload(bursar, merchant, key, form)
            assert (reply.status_code, code(reply)) == (409, "idempotency_conflict")
        assert await effects(bursar, title) == 1


class TestWhileTheClockMoves:
    """The instance's clock only goes forward, so these come last in the module."""

    async def test_keys_are_kept_a_day_and_those_of_money_a_month(self, bursar: Service, platform: Party) -> None:
        keys = {(family, path): new_key() for family in EVERY_FAMILY for path in ("/notes", "/kept-notes")}
        first = {place: await write(bursar, *_at(place, platform), key=key) for place, key in keys.items()}
        await _advance(bursar, DAY_S - 60)
        for (family, path), key in keys.items():
            assert await self._is_held(bursar, family, path, platform, key, first[family, path])
        await _advance(bursar, 120)
        for (family, path), key in keys.items():
            held = await self._is_held(bursar, family, path, platform, key, first[family, path])
            assert held is (path == "/kept-notes")
        await _advance(bursar, 29 * DAY_S - 120)
        assert await self._is_held(
            bursar, "legacy", "/kept-notes", platform, keys["legacy", "/kept-notes"], first["legacy", "/kept-notes"]
        )
        await _advance(bursar, 120)
        key = keys["legacy", "/kept-notes"]
        assert (await write(bursar, "legacy", platform, "/kept-notes", {"text": "new"}, key=key)).status_code == 201

    async def _is_held(
        self, bursar: Service, family: str, path: str, party: Party, key: str, first: httpx.Response
    ) -> bool:
        reply = await write(bursar, family, party, path, key=key)
        if family in NOT_REPLAYING:
            assert reply.status_code in (201, 409)
            return reply.status_code == 409
        assert reply.status_code == 201
        return reply.content == first.content

    @pytest.mark.parametrize("swept", [True, False])
    async def test_an_expired_key_is_free_swept_or_not(self, bursar: Service, merchant: Party, swept: bool) -> None:
        for path in ("/notes", "/entries", "/charges"):
            text, key = new_key(), new_key()
            body = {"reference": text} if path == "/charges" else {"text": text}
            await write(bursar, "legacy", merchant, path, body, key=key)
            if swept:
                await _advance(bursar, DAY_S + 1)
            else:
                await bursar.db.execute(
                    "UPDATE idempotency_key SET created_at = created_at - interval '2 days',"
                    " expires_at = expires_at - interval '2 days' WHERE key = $1",
                    key,
                )
            reply = await write(bursar, "legacy", merchant, path, body, key=key)
            assert reply.status_code == 201
            assert "Idempotency-Replayed" not in reply.headers
            assert await effects(bursar, f"{text} done" if path == "/charges" else text) == 2

    async def test_one_that_is_being_taken_over_is_not_swept(self, bursar: Service, merchant: Party) -> None:
        key = new_key()
        await write(bursar, "legacy", merchant, key=key)
        old = await bursar.db.fetchval("SELECT expires_at FROM idempotency_key WHERE key = $1", key)
        async with bursar.db.transaction() as taking:
            await taking.execute("UPDATE idempotency_key SET expires_at = expires_at + '1 day' WHERE key = $1", key)
            sweeping = asyncio.create_task(bursar.db.execute(EXPIRED_KEYS, old, 1000))
            async with asyncio.timeout(5):
                while not await taking.fetchval("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)"):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
        await sweeping
        assert await bursar.db.fetchval("SELECT count(*) FROM idempotency_key WHERE key = $1", key) == 1


def _at(place: tuple[str, str], party: Party) -> tuple[str, Party, str]:
    family, path = place
    return family, party, path
