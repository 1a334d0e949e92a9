"""The table of families is the table of the documents."""

from __future__ import annotations

from datetime import timedelta

from bursar.http.families import FAMILIES, OPERATOR, KeyScope
from bursar.http.signing import five_lines, six_lines, timestamp_and_body

KB = 1024


def test_there_are_five_and_the_operator_s() -> None:
    assert set(FAMILIES) == {"legacy", "dispute", "subscriptions", "commerce", "management"}
    assert all(name == family.name for name, family in FAMILIES.items())
    assert OPERATOR.message is None


def test_what_each_signs() -> None:
    assert {name: family.message for name, family in FAMILIES.items()} == {
        "legacy": timestamp_and_body, "dispute": timestamp_and_body, "subscriptions": six_lines,
        "commerce": six_lines, "management": five_lines,
    }  # fmt: skip


def test_what_a_key_is_unique_within() -> None:
    assert {name: family.key_scope for name, family in FAMILIES.items()} == {
        "legacy": KeyScope.TARGET_METHOD_PATH, "dispute": KeyScope.TARGET_METHOD_PATH,
        "subscriptions": KeyScope.TARGET_METHOD_PATH, "commerce": KeyScope.OWNER, "management": KeyScope.METHOD_PATH,
    }  # fmt: skip


def test_which_replay_and_in_which_errors_use_a_key_up() -> None:
    assert {name for name, family in FAMILIES.items() if family.replays} == {"legacy", "subscriptions", "commerce"}
    assert {name for name, family in FAMILIES.items() if family.errors_consume} == {
        "dispute", "subscriptions", "management"
    }  # fmt: skip
    assert FAMILIES["subscriptions"].review_after == timedelta(hours=23)


def test_limits_of_the_documents() -> None:
    limits = {
        name: (family.writes_per_minute, family.reads_per_minute, family.address_per_minute)
        for name, family in FAMILIES.items()
    }
    assert limits == {
        "legacy": (None, None, None), "dispute": (6, None, None), "subscriptions": (20, 120, None),
        "commerce": (60, 120, None), "management": (20, 60, 60),
    }  # fmt: skip
    assert FAMILIES["subscriptions"].retry_after_s == 60


def test_bound_families_are_strict() -> None:
    for name in ("subscriptions", "commerce", "management"):
        family = FAMILIES[name]
        assert family.live_only
        assert family.body_limit == 64 * KB
        assert family.unknown_fields == "refuse"
        assert not family.query_on_writes
        assert not family.account_field
        assert family.https_status == (400 if name == "subscriptions" else 403)
    assert FAMILIES["subscriptions"].depth_limit == 16
    assert FAMILIES["commerce"].uri_limit == 2048
    assert not FAMILIES["management"].account_header
