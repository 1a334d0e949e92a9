"""Settings: read from the environment, typed, and wrong ones named in one line."""

from __future__ import annotations

from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bursar.settings import PREFIX, Settings, SettingsError, load


class TestLoad:
    def test_defaults_are_a_live_instance_on_loopback(self) -> None:
        settings = load({})
        assert (settings.env, settings.host, settings.is_test, settings.limits_on) == ("live", "127.0.0.1", False, True)

    def test_from_the_environment(self) -> None:
        settings = load(
            {
                "BURSAR_ENV": "test",
                "BURSAR_TRUSTED_PROXIES": "10.0.0.0/8, 192.0.2.1",
                "BURSAR_CURRENCIES": "GBP, SEK",
                "BURSAR_KEY_PEPPER": "00ff",
                "BURSAR_ACCESS_LOG": "false",
                "HOME": "/root",
            }
        )
        assert settings.trusted_proxies == (ip_network("10.0.0.0/8"), ip_network("192.0.2.1/32"))
        assert settings.currencies == ("GBP", "SEK")
        assert settings.key_pepper == b"\x00\xff"
        assert settings.access_log is False
        assert not settings.limits_on

    def test_options_win_unless_they_are_not_given(self) -> None:
        assert load({"BURSAR_PORT": "1"}, port=2, host=None).port == 2
        assert load({"BURSAR_PORT": "1"}, port=None).port == 1

    def test_an_empty_variable_is_none(self) -> None:
        assert load({"BURSAR_PORT": ""}).port == Settings().port

    @pytest.mark.parametrize(
        ("name", "value"),
        [("ENV", "prod"), ("PORT", "http"), ("PORT", "70000"), ("POOL_SIZE", "0"), ("TRUSTED_PROXIES", "here"),
         ("KEY_PEPPER", "xyz"), ("POOL_WAIT_S", "-1"), ("LOG_LEVEL", "loud")],
    )  # fmt: skip
    def test_a_wrong_one_is_named_in_one_line(self, name: str, value: str) -> None:
        with pytest.raises(SettingsError) as caught:
            load({PREFIX + name: value})
        assert str(caught.value).startswith(f"BURSAR_{name}: ")
        assert "\n" not in str(caught.value)

    def test_a_misspelt_one_is_not_overlooked(self) -> None:
        with pytest.raises(SettingsError, match="BURSAR_PROT"):
            load({"BURSAR_PROT": "1"})

    @given(st.sampled_from(["OPERATOR_KEY", "DATABASE_URL", "KEY_PEPPER", "SEAL_PRIVATE_KEY"]), st.binary(min_size=16))
    def test_no_secret_is_printed(self, name: str, secret: bytes) -> None:
        settings = load({PREFIX + name: secret.hex()})
        for text in (repr(settings), str(settings)):
            assert secret.hex() not in text
            assert repr(secret)[2:-1] not in text

    def test_every_setting_has_a_sentence(self) -> None:
        for name, field in Settings.model_fields.items():
            assert field.description, name
            assert field.description.endswith((".", "…")), name
