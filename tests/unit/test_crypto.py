"""Secrets at rest: who can find them again, and who can open them."""

from __future__ import annotations

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bursar.core.crypto import (
    CannotOpen,
    Opener,
    Sealer,
    hmac_hex,
    lookup_hash,
    new_sealing_pair,
    open_for_reader,
    same,
    seal_for_reader,
)

secrets = st.text(min_size=1, max_size=60)
contexts = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=30)


class TestHashes:
    @given(st.binary(min_size=32, max_size=32), secrets)
    def test_look_up_is_a_keyed_hash(self, pepper: bytes, secret: str) -> None:
        assert lookup_hash(pepper, secret) == hmac.new(pepper, secret.encode(), hashlib.sha256).hexdigest()

    @given(secrets, st.binary(max_size=100))
    def test_signatures_are_hmac_sha256(self, secret: str, message: bytes) -> None:
        assert hmac_hex(secret, message) == hmac.new(secret.encode(), message, hashlib.sha256).hexdigest()

    @given(st.text(), st.text())
    def test_same_is_equality(self, left: str, right: str) -> None:
        assert same(left, right) is (left == right)
        assert same(left, left)


class TestSealedForTheWorker:
    @given(contexts, secrets)
    def test_opens_with_the_private_key_and_the_same_context(self, context: str, secret: str) -> None:
        private, public = new_sealing_pair()
        assert Opener(private).open(context, Sealer(public).seal(context, secret)) == secret

    @given(contexts, contexts, secrets)
    def test_opens_in_no_other_context(self, context: str, other: str, secret: str) -> None:
        private, public = new_sealing_pair()
        sealed = Sealer(public).seal(context, secret)
        if context != other:
            with pytest.raises(CannotOpen):
                Opener(private).open(other, sealed)

    def test_opens_with_no_other_key(self) -> None:
        sealed = Sealer(new_sealing_pair()[1]).seal("a", "b")
        with pytest.raises(CannotOpen):
            Opener(new_sealing_pair()[0]).open("a", sealed)

    @given(st.integers(0, 200), st.integers(1, 255))
    def test_damage_is_noticed(self, place: int, flip: int) -> None:
        private, public = new_sealing_pair()
        sealed = bytearray(Sealer(public).seal("context", "secret"))
        sealed[place % len(sealed)] ^= flip
        with pytest.raises(CannotOpen):
            Opener(private).open("context", bytes(sealed))

    def test_two_seals_of_one_secret_differ(self) -> None:
        sealer = Sealer(new_sealing_pair()[1])
        assert sealer.seal("a", "b") != sealer.seal("a", "b")

    def test_nothing_prints_a_key(self) -> None:
        private, public = new_sealing_pair()
        assert repr(private) not in repr(Opener(private))
        assert repr(public) not in repr(Sealer(public))


class TestSealedForTheReader:
    @given(secrets, st.binary(max_size=200), st.binary(max_size=32))
    def test_opens_with_the_same_secret_and_context(self, secret: str, plain: bytes, context: bytes) -> None:
        assert open_for_reader(secret, seal_for_reader(secret, plain, context), context) == plain

    @given(secrets, secrets, st.binary(max_size=16), st.binary(max_size=16))
    def test_and_with_nothing_else(self, secret: str, other: str, context: bytes, moved: bytes) -> None:
        sealed = seal_for_reader(secret, b"plain", context)
        if (other, moved) != (secret, context):
            with pytest.raises(CannotOpen):
                open_for_reader(other, sealed, moved)

    @pytest.mark.parametrize("damaged", [b"x" * 12, b"x" * 40])
    def test_damage_is_noticed(self, damaged: bytes) -> None:
        with pytest.raises(CannotOpen):
            open_for_reader("secret", damaged, b"")


@pytest.mark.parametrize("sealed", [b"", b"short", bytes(11), bytes(12), bytes(27)])
def test_what_was_never_sealed_for_a_reader_does_not_open(sealed: bytes) -> None:
    with pytest.raises(CannotOpen):
        open_for_reader("sk_live_key", sealed, b"context")
