"""S: what was written or said where it should not have been."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.faults.invariants.log import Log

# The cards that customers of the load pay with: no number may be found anywhere.
CARDS = ("4242424242424242", "4000000000000002", "4000000000000077", "4100000000000019")


def leaks(log: Path, secrets: Iterable[str], written: Mapping[str, bytes]) -> list[str]:
    """S2: no secret and no card number in any log or in a dump of the database."""
    wanted = {*secrets, *Log.read(log).secrets, *CARDS}
    return [
        f"S2: {name} holds {secret[:9]}…"
        for name, text in written.items()
        for secret in wanted
        if secret and secret.encode() in text
    ]


def undocumented(log: Path, document: str) -> list[str]:
    """S3: every error code that a client saw is in the API's own description."""
    documented = set(_strings(json.loads(document)))
    seen = {one.code for one in Log.read(log).exchanges if one.status is not None and one.path.startswith("/v2")}
    return [f"S3: {code} is not documented" for code in seen - documented if code is not None]


def _strings(node: object) -> Iterable[str]:
    if isinstance(node, str):
        yield node
    elif isinstance(node, dict):
        for value in node.values():
            yield from _strings(value)
    elif isinstance(node, list):
        for value in node:
            yield from _strings(value)
