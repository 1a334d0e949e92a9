"""Signing as a client would, written from the specification alone: none of the service's own code is used."""

from __future__ import annotations

import hashlib
import hmac
import time


def digest(secret: str, message: bytes) -> str:
    return hmac.new(secret.encode(), message, hashlib.sha256).hexdigest()


def legacy(secret: str, body: bytes, timestamp: int | None = None) -> dict[str, str]:
    stamp = str(int(time.time()) if timestamp is None else timestamp)
    return _headers(stamp, digest(secret, stamp.encode() + b"." + body))


def six_lines(
    secret: str, method: str, path: str, key: str, account: str, body: bytes, timestamp: int | None = None
) -> dict[str, str]:
    """Subscriptions and commerce."""
    stamp = str(int(time.time()) if timestamp is None else timestamp)
    message = "\n".join([stamp, method, path, key, account, ""]).encode() + body
    return _headers(stamp, digest(secret, message))


def five_lines(
    secret: str, method: str, path: str, key: str, body: bytes, timestamp: int | None = None
) -> dict[str, str]:
    """Management."""
    stamp = str(int(time.time()) if timestamp is None else timestamp)
    message = "\n".join([stamp, method, path, key, ""]).encode() + body
    return _headers(stamp, digest(secret, message))


def _headers(stamp: str, signature: str) -> dict[str, str]:
    return {"X-Service-Timestamp": stamp, "X-Service-Signature": signature}
