"""The messages that signatures cover: written out, and never two requests under one."""

from __future__ import annotations

import hashlib
import hmac

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from bursar.core.crypto import HmacKey
from bursar.core.errors import ApiError, InvalidSignature, InvalidTimestamp, MalformedSignature
from bursar.http.signing import Signed, five_lines, six_lines, timestamp_and_body, verify

SECRET = "sk_live_" + "x" * 38
KEY = HmacKey(SECRET.encode())
NOW = 1_800_000_000

# What may stand in each place: a header or a path has no newline, a body may hold anything.
stamps = st.integers(0, 10**12 - 1).map(str)
methods = st.sampled_from(["POST", "PUT", "PATCH", "DELETE"])
lines = st.text(st.characters(exclude_characters="\r\n", codec="utf-8"), max_size=20)
requests = st.builds(Signed, stamps, methods, lines, lines, lines, st.binary(max_size=30))


def _signature(message: bytes) -> str:
    return hmac.new(SECRET.encode(), message, hashlib.sha256).hexdigest()


class TestTheMessages:
    REQUEST = Signed("1700000000", "POST", "/v2/subscriptions", "key-0001", "acc1_1", b'{"a": 1}')

    def test_legacy(self) -> None:
        assert timestamp_and_body(self.REQUEST) == b'1700000000.{"a": 1}'

    def test_six_lines(self) -> None:
        assert six_lines(self.REQUEST) == b'1700000000\nPOST\n/v2/subscriptions\nkey-0001\nacc1_1\n{"a": 1}'

    def test_six_lines_without_an_account_keep_its_line(self) -> None:
        without = replace(self.REQUEST, account="")
        assert six_lines(without) == b'1700000000\nPOST\n/v2/subscriptions\nkey-0001\n\n{"a": 1}'

    def test_five_lines(self) -> None:
        assert five_lines(self.REQUEST) == b'1700000000\nPOST\n/v2/subscriptions\nkey-0001\n{"a": 1}'


class TestNoTwoRequestsShareAMessage:
    @given(requests, requests)
    def test_six_lines(self, one: Signed, other: Signed) -> None:
        assert (six_lines(one) == six_lines(other)) is (one == other)

    @given(requests, requests)
    def test_five_lines_but_for_the_account(self, one: Signed, other: Signed) -> None:
        alike = replace(one, account="") == replace(other, account="")
        assert (five_lines(one) == five_lines(other)) is alike

    @given(requests, requests)
    @example(Signed("1", "POST", "/a", "k", "", b"2.x"), Signed("12", "POST", "/a", "k", "", b".x"))
    def test_legacy_tells_time_and_body_apart(self, one: Signed, other: Signed) -> None:
        alike = (one.timestamp, one.body) == (other.timestamp, other.body)
        assert (timestamp_and_body(one) == timestamp_and_body(other)) is alike

    @given(requests)
    def test_no_message_is_also_another_family_s(self, one: Signed) -> None:
        assert timestamp_and_body(one) != five_lines(one)
        assert timestamp_and_body(one) != six_lines(one)
        assert five_lines(one) != six_lines(one)


class TestVerify:
    def _verify(self, signed: Signed, signature: str, *, strict: bool = False) -> None:
        verify(signed, six_lines, signature, KEY, NOW, strict=strict)

    @given(requests, st.integers(-300, 300))
    def test_a_right_signature_within_five_minutes(self, request: Signed, off_s: int) -> None:
        signed = replace(request, timestamp=str(NOW + off_s))
        self._verify(signed, _signature(six_lines(signed)))
        self._verify(signed, _signature(six_lines(signed)).upper())

    @given(requests, st.integers(301, 10**9), st.booleans())
    def test_a_right_signature_too_old_or_too_new(self, request: Signed, off_s: int, later: bool) -> None:
        signed = replace(request, timestamp=str(NOW + off_s if later else NOW - off_s))
        for strict, expected in ((False, InvalidSignature), (True, InvalidTimestamp)):
            with pytest.raises(expected) as caught:
                self._verify(signed, _signature(six_lines(signed)), strict=strict)
            assert caught.value.details == {"reason": "timestamp_out_of_range", "server_time": NOW}

    @given(requests, st.integers(0, 63), st.sampled_from("0123456789abcdef"))
    def test_one_wrong_digit(self, request: Signed, place: int, digit: str) -> None:
        signed = replace(request, timestamp=str(NOW))
        right = _signature(six_lines(signed))
        wrong = right[:place] + digit + right[place + 1 :]
        if wrong != right:
            for strict in (False, True):
                with pytest.raises(InvalidSignature):
                    self._verify(signed, wrong, strict=strict)

    @given(st.text(max_size=80), st.text(max_size=20), st.booleans())
    def test_any_headers_at_all_are_a_declared_error(self, signature: str, stamp: str, strict: bool) -> None:
        signed = Signed(stamp, "POST", "/v2/x", "key", "", b"")
        with pytest.raises(ApiError) as caught:
            self._verify(signed, signature, strict=strict)
        assert isinstance(caught.value, InvalidSignature | InvalidTimestamp | MalformedSignature)
        assert caught.value.status == (401 if isinstance(caught.value, InvalidSignature) else 400)
