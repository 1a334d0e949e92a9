"""The published examples of the account number check."""

from __future__ import annotations

from pathlib import Path

import pytest

from bursar.features.bank_accounts import modulus

PASS = str.split("""
089999 66374958  107999 88837491  202959 63748472  871427 46238510  872427 46238510  871427 09123496  871427 99123496
820000 73688637  827999 73988638  827101 28748352  134020 63849203  118765 64371389  200915 41011166  772798 99345694
086090 06774744  309070 02355688  309070 12345668  309070 12345677  309070 99345694  074456 12345112  070116 34012583
074456 11104102  180002 00000190
""")
FAIL = str.split("203099 66831036  203099 58716970  089999 66374959  107999 88837493  118765 64371388")


class TestModulus:
    @pytest.mark.parametrize(("sort_code", "number"), [*zip(PASS[::2], PASS[1::2], strict=True)])
    def test_examples_that_pass(self, sort_code: str, number: str) -> None:
        assert modulus.is_valid(sort_code, number)

    @pytest.mark.parametrize(("sort_code", "number"), [*zip(FAIL[::2], FAIL[1::2], strict=True)])
    def test_examples_that_fail(self, sort_code: str, number: str) -> None:
        assert not modulus.is_valid(sort_code, number)

    def test_what_the_table_does_not_list_passes(self) -> None:
        assert modulus.is_valid("999999", "12345678")

    def test_the_account_of_the_documentation(self) -> None:
        assert modulus.is_valid("200000", "55779911")
        assert not modulus.is_valid("200000", "55779912")

    def test_another_table_may_be_named(self, tmp_path: Path) -> None:
        table = tmp_path / "valacdos.txt"
        table.write_text("999999 999999 MOD10    0    0    0    0    0    0    7    1    3    7    1    3    7    1\n")
        assert modulus.is_valid("999999", "66374958", table)
        assert not modulus.is_valid("999999", "66374959", table)
