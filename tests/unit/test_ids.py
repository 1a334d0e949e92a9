"""Shapes and check digits of the identifiers that people see."""

from __future__ import annotations

import re
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bursar.core import ids

kinds = st.sampled_from(sorted(ids.KEY_PREFIXES))


def _crc62(body: str) -> str:
    """The checksum as the documents describe it, written anew."""
    number, alphabet = zlib.crc32(body.encode()), ids.BASE62
    return "".join(alphabet[number // 62**power % 62] for power in range(5, -1, -1))


class TestKeys:
    @given(kinds)
    def test_prefix_32_characters_and_a_checksum(self, kind: str) -> None:
        key = ids.new_key(kind)
        assert re.fullmatch(ids.KEY_PREFIXES[kind] + "[0-9A-Za-z]{38}", key)
        assert key[-6:] == _crc62(key[:-6])
        assert ids.key_kind(key) == kind

    @given(kinds, st.integers(0, 45), st.sampled_from(ids.BASE62))
    def test_one_changed_character_is_noticed(self, kind: str, place: int, character: str) -> None:
        key = ids.new_key(kind)
        changed = key[:place] + character + key[place + 1 :]
        assert ids.key_kind(changed) == (kind if changed == key else None)

    @given(kinds, st.integers(8, 44))
    def test_two_swapped_characters_are_noticed(self, kind: str, place: int) -> None:
        key = ids.new_key(kind)
        swapped = key[:place] + key[place + 1] + key[place] + key[place + 2 :]
        assert ids.key_kind(swapped) == (kind if swapped == key else None)

    @given(st.text(max_size=60))
    def test_nothing_else_is_a_key(self, text: str) -> None:
        if not text.startswith(tuple(ids.KEY_PREFIXES.values())):
            assert ids.key_kind(text) is None

    @given(kinds)
    def test_a_prefix_of_another_kind_does_not_fit(self, kind: str) -> None:
        key = ids.new_key(kind)
        for prefix in ids.KEY_PREFIXES.values():
            if not key.startswith(prefix):
                assert ids.key_kind(prefix + key[8:]) is None

    def test_a_trailing_newline_is_not_overlooked(self) -> None:
        assert ids.key_kind(ids.new_key("secret") + "\n") is None

    def test_are_not_repeated(self) -> None:
        assert len({ids.new_key("secret") for _ in range(1000)}) == 1000

    @given(kinds)
    def test_a_hint_tells_little(self, kind: str) -> None:
        key = ids.new_key(kind)
        assert ids.key_hint(key) == f"{key[:8]}…{key[-4:]}"


class TestAccountIds:
    @given(st.integers(1, 10**15 - 1))
    def test_both_forms_are_read_back(self, number: int) -> None:
        full = ids.new_account_id(number)
        assert re.fullmatch(rf"acc[0-9a-hjkmnp-tv-z]{{16}}_{number}", full)
        assert ids.parse_account_id(full) == (number, full)
        assert ids.parse_account_id(str(number)) == (number, None)

    @pytest.mark.parametrize(
        "text",
        ["", "0", "01", "-1", "+1", "1.0", " 1", "1 ", "1\n", "1_000", "acc_1", "acc" + "a" * 16,
         "acc" + "a" * 15 + "_1", "acc" + "a" * 17 + "_1", "ACC" + "a" * 16 + "_1", "acc" + "A" * 16 + "_1",
         "acc" + "a" * 16 + "_0", "acc" + "a" * 16 + "_1_2", "1" * 16, "٣", "１", "x" + "acc" + "a" * 16 + "_1"],
    )  # fmt: skip
    def test_anything_else_is_none(self, text: str) -> None:
        assert ids.parse_account_id(text) is None

    @given(st.text(max_size=40))
    def test_what_is_read_can_be_written_again(self, text: str) -> None:
        parsed = ids.parse_account_id(text)
        if parsed is not None:
            number, full = parsed
            assert text in (full, str(number))


class TestOthers:
    def test_shapes(self) -> None:
        assert re.fullmatch("whsec_[0-9A-Za-z]{32}", ids.new_webhook_secret())
        assert re.fullmatch("req_[0-9a-f]{24}", ids.new_request_id())
        assert re.fullmatch("evt_[0-9A-Za-z]{24}", ids.new_event_id())
