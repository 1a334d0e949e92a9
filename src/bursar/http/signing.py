"""What a write's signature covers, per family, and how it is checked.

The request carries the secret key itself, so signatures are verified with what was presented; nothing is looked up.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from bursar.core.clock import SIGNATURE_TOLERANCE_S
from bursar.core.crypto import HmacKey, same
from bursar.core.errors import ApiError, InvalidSignature, InvalidTimestamp, MalformedSignature

_DIGEST = re.compile(r"[0-9a-fA-F]{64}", re.ASCII)
_SECONDS = re.compile(r"[0-9]{1,12}", re.ASCII)


class Signed(msgspec.Struct, frozen=True):
    """The parts of a request that a signature may cover, exactly as they were sent."""

    timestamp: str
    method: str
    path: str
    key: str
    account: str
    body: bytes


Message = Callable[[Signed], bytes]


def timestamp_and_body(signed: Signed) -> bytes:
    return signed.timestamp.encode() + b"." + signed.body


def six_lines(signed: Signed) -> bytes:
    """Subscriptions and commerce: the account header is a line of its own, empty when it was not sent."""
    lines = (signed.timestamp, signed.method, signed.path, signed.key, signed.account)
    return "\n".join(lines).encode() + b"\n" + signed.body


def five_lines(signed: Signed) -> bytes:
    """Management: the platform itself is always meant, so there is no account line."""
    lines = (signed.timestamp, signed.method, signed.path, signed.key)
    return "\n".join(lines).encode() + b"\n" + signed.body


def verify(signed: Signed, message: Message, signature: str, key: HmacKey, now: int, *, strict: bool) -> None:
    """Raises unless the signature is right and fresh.

    `strict` families (subscriptions) tell a malformed request (400) from a wrong digest (401).
    """
    if not _SECONDS.fullmatch(signed.timestamp):
        raise _fault(InvalidTimestamp, strict, reason="timestamp_missing")
    if not _DIGEST.fullmatch(signature):
        raise _fault(MalformedSignature, strict, reason="signature_missing" if not signature else "signature_malformed")
    if abs(now - int(signed.timestamp)) > SIGNATURE_TOLERANCE_S:
        raise _fault(InvalidTimestamp, strict, reason="timestamp_out_of_range", server_time=now)
    if not same(key.digest(message(signed)).hex(), signature.lower()):
        raise InvalidSignature(details={"reason": "signature_mismatch"})


def _fault(precise: type[ApiError], strict: bool, **details: Any) -> ApiError:
    return precise(details=details) if strict else InvalidSignature(details=details)
