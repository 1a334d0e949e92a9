"""What both channels have in common: a timestamp that is fresh, and a signature over the unmodified body."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Mapping, Sequence

TOLERANCE_S = 300


class VerificationFailed(Exception):
    """The request is not proven to be genuine: answer 400 and do nothing else."""


def lowered(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def as_list(secrets: str | Sequence[str]) -> list[str]:
    return [secrets] if isinstance(secrets, str) else list(secrets)


def digest(secret: str, message: bytes) -> str:
    return hmac.new(secret.encode(), message, hashlib.sha256).hexdigest()


def check_body(
    body: bytes, headers: Mapping[str, str], secrets: Sequence[str], tolerance_s: int, now: float | None
) -> None:
    """The timestamp and `X-Service-Signature`, which lists one digest per secret while one is being rotated."""
    stamp = headers.get("x-service-timestamp", "")
    if not (stamp.isascii() and stamp.isdigit()):
        raise VerificationFailed("the timestamp is missing or malformed")
    if abs((time.time() if now is None else now) - int(stamp)) > tolerance_s:
        raise VerificationFailed("the timestamp is too old, or ahead of time")
    signatures = [part.strip() for part in headers.get("x-service-signature", "").split(",")]
    message = stamp.encode() + b"." + body
    matched = False
    for expected in [digest(secret, message) for secret in secrets]:
        for signature in signatures:
            matched |= hmac.compare_digest(expected.encode(), signature.encode())
    if not matched:
        raise VerificationFailed("the signature does not match")
