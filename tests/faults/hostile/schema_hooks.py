"""What Schemathesis needs to be let in: real ids in most paths, and a real signature on most writes.

Loaded by Schemathesis itself. FAULTS_CALLER holds, as JSON, the keys and ids to use. Whether a value is replaced
follows from the value, so that the same seed sends the same requests; some are always left as they were generated.
"""

from __future__ import annotations

import json
import os
import zlib
from itertools import pairwise
from typing import Any

import schemathesis
from requests.auth import AuthBase
from schemathesis import Case, HookContext

from requests import PreparedRequest
from tests.support import signing
from tests.support.service import new_key

_CALLER = json.loads(os.environ["FAULTS_CALLER"])
_MATCHED = ("Service-Account", "X-Service-Client-Key", "X-Service-Public-Key")
_SIX_LINES, _FIVE_LINES = ("subscriptions", "commerce"), ("management",)


def _left_alone(value: Any) -> bool:
    return zlib.crc32(repr(value).encode(errors="replace")) % 8 == 0


@schemathesis.hook
def map_path_parameters(context: HookContext, path_parameters: dict[str, Any]) -> dict[str, Any]:
    if not path_parameters or _left_alone(path_parameters) or context.operation is None:
        return path_parameters
    ids = _CALLER["other_ids" if context.operation.path.startswith("/ops/") else "ids"]
    parts = context.operation.path.split("/")
    known = {part.strip("{}"): ids.get(before) for before, part in pairwise(parts) if "{" in part}
    return {name: known.get(name) or value for name, value in path_parameters.items()}


@schemathesis.hook
def map_headers(context: HookContext, headers: dict[str, Any]) -> dict[str, Any]:
    """Almost any value of these is refused before anything else is looked at."""
    if not headers or _left_alone(headers):
        return headers
    return {name: value for name, value in headers.items() if name not in _MATCHED}


@schemathesis.hook
def before_call(context: HookContext, case: Case[Any], kwargs: dict[str, Any]) -> None:
    family = case.operation.definition.raw["x-family"]
    kwargs["auth"] = _Signed(family)


class _Signed(AuthBase):
    """Runs last, on the bytes that will be sent."""

    def __init__(self, family: str) -> None:
        self._family = family

    def __call__(self, request: PreparedRequest) -> PreparedRequest:
        secret = _CALLER["operator" if self._family == "operator" else "secret"]
        request.headers["Authorization"] = f"Bearer {secret}"
        raw = request.body or b""
        raw = raw.encode() if isinstance(raw, str) else raw
        assert isinstance(raw, bytes)
        if request.method == "GET" or self._family == "operator" or _left_alone(raw):
            return request
        key, path = new_key(), request.path_url.partition("?")[0]
        account = str(request.headers.get("Service-Account", ""))
        if self._family in _SIX_LINES:
            signed = signing.six_lines(secret, str(request.method), path, key, account, raw)
        elif self._family in _FIVE_LINES:
            signed = signing.five_lines(secret, str(request.method), path, key, raw)
        else:
            signed = signing.legacy(secret, raw)
        request.headers.update({"Idempotency-Key": key, **signed})
        return request
