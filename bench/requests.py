"""Requests as bytes, signed beforehand."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time


def get(path: str, secret: str) -> bytes:
    return (
        f"GET {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {secret}\r\nAccept: application/json\r\n\r\n"
    ).encode()


def signed_posts(path: str, secret: str, bodies: list[bytes]) -> list[bytes]:
    """One request per body, each with a key of its own and the legacy signature."""
    run, stamp = secrets.token_hex(6), str(int(time.time()))
    made = []
    for number, body in enumerate(bodies):
        signature = hmac.new(secret.encode(), stamp.encode() + b"." + body, hashlib.sha256).hexdigest()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {secret}\r\nAccept: application/json\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nIdempotency-Key: {run}-{number}\r\n"
            f"X-Service-Timestamp: {stamp}\r\nX-Service-Signature: {signature}\r\n\r\n"
        )
        made.append(head.encode() + body)
    return made
