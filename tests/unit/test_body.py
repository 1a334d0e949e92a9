"""From raw bytes to values: exact, and never an exception that is not declared."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from bursar.core.errors import ApiError, BadRequest, PayloadTooLarge, UnknownFields, ValidationFailed
from bursar.http.body import FIELD_LARGEST, VALUES_LARGEST, decode_json, decode_multipart, decode_query, validate
from bursar.http.schemas import Body, StrictBody

texts = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=20)
leaves = st.none() | st.booleans() | st.integers(-(10**30), 10**30) | texts
trees = st.recursive(leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4))
objects = st.dictionaries(texts, trees, max_size=5)


@contextmanager
def _declared(*statuses: int) -> Iterator[None]:
    """Whatever goes wrong is an error of the API, with one of these statuses and a message that can be sent."""
    try:
        yield
    except ApiError as error:
        if error.status not in statuses:
            raise
        error.text.encode()


def _depth(tree: Any) -> int:
    if isinstance(tree, dict):
        return 1 + max(map(_depth, tree.values()), default=0)
    return 1 + max(map(_depth, tree), default=0) if isinstance(tree, list) else 0


class TestJson:
    @given(objects, st.booleans(), st.sampled_from([None, 1, "\t"]))
    def test_what_was_written_is_read(self, tree: dict[str, Any], ascii_only: bool, indent: Any) -> None:
        raw = json.dumps(tree, ensure_ascii=ascii_only, indent=indent).encode()
        assert decode_json(raw, 32) == tree

    @given(st.decimals(min_value=-(10**15), max_value=10**15, places=6))
    def test_decimals_are_exact(self, number: Decimal) -> None:
        literal = format(number, "f")
        read = decode_json(b'{"amount": %s}' % literal.encode(), 32)["amount"]
        assert read == number
        assert str(read) == literal

    def test_a_long_fraction_is_not_rounded(self) -> None:
        read = decode_json(b'{"amount": 10.10000000000000000001}', 32)
        assert read == {"amount": Decimal("10.10000000000000000001")}

    def test_a_name_twice_is_told_without_a_card_number_in_it(self) -> None:
        with pytest.raises(BadRequest, match="appears twice") as refused:
            decode_json(b'{"4242424242424242": 1, "4242424242424242": 2}', 32)
        assert "4242" not in refused.value.text

    @pytest.mark.parametrize("piece", [b'"%d":1', b'"%d":[]', b'"%d":{}'])
    def test_a_body_has_so_many_values_at_the_most(self, piece: bytes) -> None:
        most = [piece % number for number in range(VALUES_LARGEST)]
        with pytest.raises(PayloadTooLarge) as refused:
            decode_json(b"{" + b",".join([*most, b'"x":1']) + b"}", 32)
        assert refused.value.details == {"max_values": VALUES_LARGEST}
        decode_json(b"{" + b",".join(most[:9_999]) + b"}", 32)

    @given(objects, st.integers(1, 6))
    def test_depth_is_counted_exactly(self, tree: dict[str, Any], limit: int) -> None:
        raw = json.dumps(tree).encode()
        if _depth(tree) <= limit:
            assert decode_json(raw, limit) == tree
        else:
            with pytest.raises(PayloadTooLarge):
                decode_json(raw, limit)

    def test_brackets_in_a_text_are_no_depth(self) -> None:
        assert decode_json(b'{"text": "[[[[{{{{"}', 1) == {"text": "[[[[{{{{"}

    @given(st.binary(max_size=200))
    def test_any_bytes_are_an_object_or_a_declared_error(self, raw: bytes) -> None:
        with _declared(400, 413, 422):
            assert isinstance(decode_json(raw, 8), dict)

    @given(st.text('{}[]",:0123456789eE+-.\\u \n dDnNaAtrueflsI', max_size=60))
    def test_nor_does_what_looks_like_json_do_harm(self, text: str) -> None:
        with _declared(400, 413, 422):
            assert isinstance(decode_json(text.encode(), 8), dict)

    @given(st.from_regex(r"-?(0|[1-9][0-9]{0,60})(\.[0-9]{1,60})?([eE][+-]?[0-9]{1,30})?", fullmatch=True))
    def test_any_number_is_exact_or_refused(self, literal: str) -> None:
        try:
            number = decode_json(b'{"n": %s}' % literal.encode(), 8)["n"]
        except BadRequest:
            return
        assert number == Decimal(literal)
        assert len(literal) <= 40

    @given(texts, trees, trees)
    def test_a_key_twice_is_refused(self, name: str, one: Any, other: Any) -> None:
        pair = json.dumps(name)
        raw = f"{{{pair}: {json.dumps(one)}, {pair}: {json.dumps(other)}}}".encode()
        with pytest.raises(BadRequest):
            decode_json(raw, 32)


class TestForms:
    @given(st.binary(max_size=300))
    def test_any_bytes_are_parts_or_a_declared_error(self, raw: bytes) -> None:
        for content in (raw, b"--edge\r\n" + raw + b"\r\n--edge--\r\n"):
            with _declared(400, 422):
                decode_multipart(content, "multipart/form-data; boundary=edge")

    @given(st.text(max_size=60))
    def test_any_content_type(self, kind: str) -> None:
        with _declared(400):
            decode_multipart(b"--edge--\r\n", f"multipart/form-data; {kind}")

    def _form(self, boundary: str, *parts: tuple[str, str, str | None]) -> Any:
        lines = []
        for name, value, filename in parts:
            file = f'; filename="{filename}"' if filename else ""
            lines.append(f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"{file}\r\n\r\n{value}\r\n')
        raw = "".join(lines).encode() + f"--{boundary}--\r\n".encode()
        return decode_multipart(raw, f"multipart/form-data; boundary={boundary}")

    def test_a_field_that_is_no_file_has_its_limit(self) -> None:
        assert len(self._form("b", ("a", "x" * FIELD_LARGEST, None)).fields["a"]) == FIELD_LARGEST
        with pytest.raises(PayloadTooLarge):
            self._form("b", ("a", "x" * (FIELD_LARGEST + 1), None))

    def test_fields_and_files(self) -> None:
        parts = self._form("b", ("a", "1", None), ("t[]", "x", None), ("t[]", "y", None), ("f", "data", "f.txt"))
        assert parts.fields == {"a": "1", "t": ["x", "y"]}
        assert [(upload.name, upload.content) for upload in parts.files["f"]] == [("f.txt", b"data")]

    def test_the_digest_is_of_the_parts_and_not_of_the_boundary(self) -> None:
        one = self._form("one", ("a", "1", None), ("f", "data", "f.txt"))
        for other, same in (
            (self._form("two", ("a", "1", None), ("f", "data", "f.txt")), True),
            (self._form("two", ("f", "data", "f.txt"), ("a", "1", None)), True),
            (self._form("two", ("a", "2", None), ("f", "data", "f.txt")), False),
            (self._form("two", ("a", "1", None), ("f", "datb", "f.txt")), False),
            (self._form("two", ("a", "1", None), ("f", "data", "g.txt")), False),
            (self._form("two", ("a", "1", None), ("f", "data", None)), False),
            (self._form("two", ("a", "1", None), ("f", "data", "f.txt"), ("f", "data", "f.txt")), False),
        ):
            assert (one.digest == other.digest) is same


class TestQueries:
    @given(st.text(max_size=80))
    def test_any_text_is_values_or_a_declared_error(self, query: str) -> None:
        with _declared(400, 422):
            decode_query(query.encode())

    def test_the_last_of_a_repeated_one_counts(self) -> None:
        assert decode_query(b"a=1&b=&a=2&c=%20+") == {"a": "2", "b": "", "c": "  "}


class Loose(Body):
    text: str = Field(min_length=1)
    count: int = 0


class Strict(StrictBody):
    text: str = Field(min_length=1)
    count: int = 0


class TestValidation:
    def test_names_every_bad_field(self) -> None:
        with pytest.raises(ValidationFailed) as caught:
            validate(Loose, {"text": "", "count": "1", "other": 1}, refuses_unknown=False)
        assert set(caught.value.details or {}) == {"text", "count"}

    def test_a_family_s_own_code_for_unknown_fields(self) -> None:
        for refuses, expected in ((True, UnknownFields), (False, ValidationFailed)):
            with pytest.raises(expected) as caught:
                validate(Strict, {"text": "", "other": 1}, refuses_unknown=refuses)
            assert set(caught.value.details or {}) == {"text", "other"}

    @pytest.mark.parametrize("value", [True, "1", 1.0, Decimal(1), None, [1]])
    def test_a_string_is_no_number_and_one_is_not_true(self, value: object) -> None:
        with pytest.raises(ValidationFailed):
            validate(Loose, {"text": "x", "count": value}, refuses_unknown=False)
