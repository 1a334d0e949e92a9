"""Whatever is posted, the reply is a declared one, and names what was wrong."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bursar.core.errors import ApiError
from bursar.features.accounts.connected_schemas import NewConnectedAccount
from bursar.http import body as bodies
from tests.features.connected_accounts.factory import new_body
from tests.support.service import Service

FIELDS = sorted(NewConnectedAccount.model_fields)
REQUIRED = {name for name, field in NewConnectedAccount.model_fields.items() if field.is_required()}

numbers = st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False, width=16)
strange = ["", " ", "\x00", "\ud800", "x" * 6000, "𝕬𝖉𝖆", "é", "null", "2026-13-45"]
scalars = st.none() | st.booleans() | numbers | st.text(max_size=40) | st.sampled_from(strange)
trees = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
owner = st.dictionaries(
    st.sampled_from(["first_name", "last_name", "email", "dob", "percent_ownership", "is_owner", "is_director"]), trees
)


@st.composite
def broken_bodies(draw: st.DrawFn) -> tuple[dict[str, Any], set[str]]:
    """A good body with some fields missing or replaced; and the required ones that are missing."""
    body = new_body()
    missing = draw(st.sets(st.sampled_from(FIELDS), max_size=5))
    for name in missing:
        body.pop(name, None)
    for name in draw(st.sets(st.sampled_from(FIELDS), max_size=4)):
        body[name] = draw(st.lists(owner, max_size=3) if name == "owners" else trees)
    return body, {name for name in missing & REQUIRED if name not in body}


def _refusal(body: dict[str, Any]) -> ApiError | None:
    try:
        values = bodies.decode_json(json.dumps(body).encode(), 32)
        bodies.validate(NewConnectedAccount, values, refuses_unknown=False)
    except ApiError as error:
        return error
    return None


class TestFuzz:
    @given(broken_bodies())
    @settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    def test_the_model_names_every_missing_field_and_never_breaks(self, made: tuple[dict[str, Any], set[str]]) -> None:
        body, missing = made
        refused = _refusal(body)
        if refused is None:
            assert not missing
        elif "contains a character" in str(refused.details) or refused.code != "validation_error":
            assert refused.status in (400, 413, 422)
        else:
            assert missing <= set(refused.details or {})

    @pytest.mark.asyncio(loop_scope="module")
    async def test_the_service_never_answers_500(self, service: Service) -> None:
        platform = await service.open_account("platform")
        found: list[dict[str, Any]] = []

        @given(broken_bodies())
        @settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck), database=None)
        def collect(made: tuple[dict[str, Any], set[str]]) -> None:
            found.append(made[0])

        collect()
        for start in range(0, len(found), 20):
            batch = [json.dumps(body).encode() for body in found[start : start + 20]]
            replies = await asyncio.gather(
                *(service.send(platform, "POST", "/connected-accounts", raw) for raw in batch)
            )
            for raw, reply in zip(batch, replies, strict=True):
                assert reply.status_code in (201, 400, 409, 413, 422), (raw, reply.text)
                if reply.status_code == 422:
                    assert reply.json()["error"]["details"], raw
