"""Signatures on the link between the service and the simulator, in both directions, each with its own key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bursar.core.clock import SIGNATURE_TOLERANCE_S, unix_now
from bursar.core.crypto import hmac_hex, same
from bursar.core.tokens import derive_key

TIMESTAMP = "processor-timestamp"
EVENT_ID = "processor-event-id"
SIGNATURE = "processor-signature"


@dataclass(frozen=True, repr=False)
class LinkKeys:
    """Keys that both sides derive from the shared secret."""

    calls: str
    callbacks: str
    pages: bytes

    @classmethod
    def of(cls, secret: bytes) -> LinkKeys:
        return cls(
            calls=derive_key(secret, "simulator calls").hex(),
            callbacks=derive_key(secret, "simulator callbacks").hex(),
            pages=derive_key(secret, "simulator pages"),
        )


def sign_call(key: str, method: str, path: str, body: bytes, now: int | None = None) -> dict[str, str]:
    stamp = str(unix_now() if now is None else now)
    return {TIMESTAMP: stamp, SIGNATURE: hmac_hex(key, _call(stamp, method, path, body))}


def call_is_authentic(key: str, headers: Mapping[str, str], method: str, path: str, body: bytes) -> bool:
    stamp = headers.get(TIMESTAMP, "")
    return _is_recent(stamp) and same(headers.get(SIGNATURE, ""), hmac_hex(key, _call(stamp, method, path, body)))


def sign_callback(key: str, event_id: str, raw: bytes, now: int | None = None) -> dict[str, str]:
    stamp = str(unix_now() if now is None else now)
    return {TIMESTAMP: stamp, EVENT_ID: event_id, SIGNATURE: hmac_hex(key, _callback(stamp, event_id, raw))}


def callback_is_authentic(key: str, headers: Mapping[str, str], raw: bytes) -> bool:
    stamp, event_id = headers.get(TIMESTAMP, ""), headers.get(EVENT_ID, "")
    return _is_recent(stamp) and same(headers.get(SIGNATURE, ""), hmac_hex(key, _callback(stamp, event_id, raw)))


def _call(stamp: str, method: str, path: str, body: bytes) -> bytes:
    return f"{stamp}\n{method}\n{path}\n".encode() + body


def _callback(stamp: str, event_id: str, raw: bytes) -> bytes:
    return f"{stamp}\n{event_id}\n".encode() + raw


def _is_recent(stamp: str) -> bool:
    return stamp.isascii() and stamp.isdigit() and abs(unix_now() - int(stamp[:12])) <= SIGNATURE_TOLERANCE_S
