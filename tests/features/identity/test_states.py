"""The table of states, and the tokens of private links."""

from __future__ import annotations

import pytest

from bursar.core.tokens import PageKeys
from bursar.features.identity.errors import VerificationLinkClosed
from bursar.features.identity.states import FINAL, MOVES, OPEN, move


class TestStates:
    def test_final_states_are_final(self) -> None:
        assert not [state for state, _ in MOVES if state in FINAL]
        assert set(MOVES.values()) | {"pending"} == {*OPEN, *FINAL}
        with pytest.raises(VerificationLinkClosed):
            move("verified", "submit")


class TestTokens:
    def test_a_token_is_read_on_its_page_only(self) -> None:
        old, new = PageKeys(b"o" * 32), PageKeys(b"n" * 64, b"o" * 32)
        token = old.token("verify", 1001, 7)
        assert len(token) == 44
        assert old.read("verify", token) == new.read("verify", token) == (1001, 7)
        assert old.read("checkout", token) is None
        assert PageKeys(b"x" * 32).read("verify", token) is None
        assert old.token("verify", 1001, 8)[:20] != token[:20]

    def test_whatever_else_is_none(self) -> None:
        keys = PageKeys(b"o" * 32)
        token = keys.token("verify", 1001, 7)
        for position in range(44):
            changed = token[:position] + ("A" if token[position] != "A" else "B") + token[position + 1 :]
            assert keys.read("verify", changed) is None, "every character counts"
        for text in ("", "a", token[:-1], token + "A", "é" * 44, "=" * 44, token.lower() + "\n"):
            assert keys.read("verify", text) is None
