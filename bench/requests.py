"""Requests as bytes, signed beforehand."""

from __future__ import annotations

import hashlib
import hmac
import json
import random
import time


def get(path: str, secret: str) -> bytes:
    return (
        f"GET {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {secret}\r\nAccept: application/json\r\n\r\n"
    ).encode()


def signed_posts(path: str, secret: str, bodies: list[bytes]) -> list[bytes]:
    """One request per body, each with a key of its own and the legacy signature."""
    stamp = str(int(time.time()))
    made = []
    for body in bodies:
        signature = hmac.new(secret.encode(), stamp.encode() + b"." + body, hashlib.sha256).hexdigest()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {secret}\r\nAccept: application/json\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
            f"Idempotency-Key: bench-{_letters()}\r\n"
            f"X-Service-Timestamp: {stamp}\r\nX-Service-Signature: {signature}\r\n\r\n"
        )
        made.append(head.encode() + body)
    return made


def _letters() -> str:
    """Random, and without digits: sixteen of those could be taken for a card's number."""
    return "".join(random.choices("abcdefghijklmnopqrstuvwxyz", k=16))


def creates(secret: str, count: int) -> list[bytes]:
    """New hosted payments, each of an order of its own."""
    return signed_posts("/v2/hosted-payments", secret, [_order() for _ in range(count)])


def _order() -> bytes:
    return json.dumps(
        {
            "identifier": f"order-{_letters()}", "amount": 49.99, "currency": "GBP", "details": "Two books",
            "ipn_url": "https://shop.example/ipn", "success_url": "https://shop.example/paid",
            "cancel_url": "https://shop.example/cancelled", "customer_name": "Ada Lovelace",
            "customer_email": "ada@example.com",
        }
    ).encode()  # fmt: skip
