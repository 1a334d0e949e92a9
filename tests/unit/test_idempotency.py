"""What counts as the same key and the same request, and what a second use of a key gets."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from bursar.core.errors import BillingReviewRequired, DuplicateRequest, IdempotencyConflict, InvalidIdempotencyKey
from bursar.core.text import is_forbidden
from bursar.http.families import COMMERCE, DISPUTE, FAMILIES, LEGACY, MANAGEMENT, SUBSCRIPTIONS, Family
from bursar.http.idempotency import (
    DAY,
    Claim,
    Held,
    InFlight,
    Stored,
    answer_held,
    check_key,
    new_claim,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
families = st.sampled_from(list(FAMILIES.values()))


def _claim(
    family: Family = LEGACY, owner: int = 1, target: int = 1, method: str = "POST", path: str = "/v2/x",
    key: str = "key-0001", content: bytes = b"{}",
) -> Claim:  # fmt: skip
    return new_claim(family, owner, target, method, path, key, content, DAY)


places = st.fixed_dictionaries(
    {
        "owner": st.integers(1, 3),
        "target": st.integers(1, 3),
        "method": st.sampled_from(["POST", "PUT"]),
        "path": st.sampled_from(["/v2/x", "/v2/y", "/v2/x/1"]),
        "key": st.sampled_from(["key-0001", "key-0002"]),
        "content": st.binary(max_size=4),
    }
)


class TestWhatTheSameKeyIs:
    @given(families, places, places)
    def test_by_family(self, family: Family, one: dict[str, object], other: dict[str, object]) -> None:
        within = {"owner", "key"}
        if family is not COMMERCE:
            within |= {"method", "path"}
        if family in (LEGACY, DISPUTE, SUBSCRIPTIONS):
            within |= {"target"}
        alike = all(one[name] == other[name] for name in within)
        same = _claim(family, **one).identity == _claim(family, **other).identity  # type: ignore[arg-type]
        assert same is alike

    @given(families, places, places)
    def test_and_the_same_request(self, family: Family, one: dict[str, object], other: dict[str, object]) -> None:
        within = ("target", "method", "path", "content")
        alike = all(one[name] == other[name] for name in within)
        first, second = _claim(family, **one), _claim(family, **other)  # type: ignore[arg-type]
        assert (first.fingerprint == second.fingerprint) is alike

    def test_families_never_share_a_key(self) -> None:
        assert len({_claim(family).identity for family in FAMILIES.values()}) == 5


class TestTheKeysShape:
    @given(st.text(max_size=120))
    def test_bound(self, key: str) -> None:
        assume(not is_forbidden(key))
        fits = 8 <= len(key) <= 100 and all(char.isascii() and (char.isalnum() or char in "._:-") for char in key)
        for family in (SUBSCRIPTIONS, MANAGEMENT):
            if fits:
                check_key(family, key)
            elif key:
                with pytest.raises(InvalidIdempotencyKey) as caught:
                    check_key(family, key)
                assert caught.value.status == (400 if family is SUBSCRIPTIONS else 422)

    @given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=255))
    def test_printable(self, key: str) -> None:
        assume(not is_forbidden(key))
        check_key(LEGACY, key)
        check_key(DISPUTE, key)

    @pytest.mark.parametrize("key", ["a b", "é", "k\n", "k\t", "x" * 256, "\x7f"])
    def test_not_printable(self, key: str) -> None:
        with pytest.raises(InvalidIdempotencyKey):
            check_key(LEGACY, key)

    @pytest.mark.parametrize("key", ["4242424242424242", "order-4242-4242-4242-4242", "sk_live_abcdefghijklmnopq"])
    def test_no_card_number_nor_secret_since_keys_are_kept(self, key: str) -> None:
        for family in (LEGACY, DISPUTE, MANAGEMENT):
            with pytest.raises(InvalidIdempotencyKey):
                check_key(family, key)


class TestASecondUse:
    REPLY = Stored(201, b'{"success":true}', {"X": "y"})

    def _held(self, claim: Claim, *, reply: Stored | None, age: timedelta = timedelta()) -> Held:
        return Held(claim.fingerprint, reply, sealed=False, since=NOW - age)

    @pytest.mark.parametrize("family", [LEGACY, SUBSCRIPTIONS, COMMERCE], ids=lambda family: family.name)
    def test_replays(self, family: Family) -> None:
        claim = _claim(family)
        again = answer_held(self._held(claim, reply=self.REPLY), claim, NOW, "secret")
        assert again == replace(self.REPLY, replayed=True)
        with pytest.raises(IdempotencyConflict):
            answer_held(self._held(_claim(family, content=b"other"), reply=self.REPLY), claim, NOW, "secret")

    @pytest.mark.parametrize("family", [DISPUTE, MANAGEMENT], ids=lambda family: family.name)
    def test_does_not_replay(self, family: Family) -> None:
        claim = _claim(family)
        for reply in (self.REPLY, None):
            with pytest.raises(DuplicateRequest):
                answer_held(self._held(claim, reply=reply), claim, NOW, "secret")

    @given(families, st.integers(0, 100))
    def test_while_the_first_is_running(self, family: Family, hours: int) -> None:
        claim = _claim(family)
        held = self._held(claim, reply=None, age=timedelta(hours=hours))
        review = family is SUBSCRIPTIONS and hours > 23
        with pytest.raises(BillingReviewRequired if review else DuplicateRequest):
            answer_held(held, claim, NOW, "secret")


class TestInFlight:
    async def test_a_twin_gets_what_the_first_was_answered(self) -> None:
        in_flight, claim = InFlight(), _claim()
        held = Held(claim.fingerprint, Stored(201, b"{}"), sealed=False, since=NOW)
        assert await in_flight.enter(claim) is None
        twins = [asyncio.create_task(in_flight.enter(claim)) for _ in range(3)]
        await asyncio.sleep(0.01)
        in_flight.leave(claim, held)
        assert await asyncio.gather(*twins) == [held] * 3
        assert await in_flight.enter(claim) is None

    async def test_a_twin_does_not_wait_long(self) -> None:
        in_flight, claim = InFlight(), _claim()
        await in_flight.enter(claim)
        started = asyncio.get_running_loop().time()
        with pytest.raises(DuplicateRequest):
            await in_flight.enter(claim)
        assert 0.2 < asyncio.get_running_loop().time() - started < 0.5

    async def test_a_first_that_failed_is_succeeded_by_one_twin_at_a_time(self) -> None:
        in_flight, claim = InFlight(), _claim()
        await in_flight.enter(claim)
        inside: list[int] = []
        most = 0

        async def twin(number: int) -> None:
            nonlocal most
            assert await in_flight.enter(claim) is None
            inside.append(number)
            most = max(most, len(inside))
            await asyncio.sleep(0.005)
            inside.remove(number)
            in_flight.leave(claim, None)

        twins = [asyncio.create_task(twin(number)) for number in range(5)]
        await asyncio.sleep(0.01)
        in_flight.leave(claim, None)
        await asyncio.gather(*twins)
        assert most == 1

    async def test_another_key_does_not_wait(self) -> None:
        in_flight = InFlight()
        for key in ("key-0001", "key-0002"):
            assert await in_flight.enter(_claim(key=key)) is None
