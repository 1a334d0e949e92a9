"""How outgoing requests are signed, so that a receiver can prove where they come from. Pure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from functools import lru_cache
from urllib.parse import urlencode

from bursar.core.crypto import HmacKey, hmac_hex

SECRET_PREFIX = "whsec_"  # noqa: S105 - what a secret begins with, not a secret


def service_signature(secrets: Sequence[str], timestamp: int, body: bytes) -> str:
    """Lowercase hex HMAC-SHA256 of `timestamp.body`; one per valid secret, newest first, with commas."""
    message = b"%d.%b" % (timestamp, body)
    return ",".join([_service_key(secret).digest(message).hex() for secret in secrets])


def standard_signature(secrets: Sequence[str], message_id: str, timestamp: int, body: bytes) -> str:
    """The signature of the Standard Webhooks specification: `v1,` and base64, one per valid secret, with spaces."""
    message = b"%b.%d.%b" % (message_id.encode(), timestamp, body)
    digests = [_standard_key(secret).digest(message) for secret in secrets]
    return " ".join(["v1," + base64.b64encode(digest).decode() for digest in digests])


@lru_cache(maxsize=1024)
def _service_key(secret: str) -> HmacKey:
    return HmacKey(secret.encode())


@lru_cache(maxsize=1024)
def _standard_key(secret: str) -> HmacKey:
    """Libraries of that specification read what follows the prefix as base64."""
    text = secret.removeprefix(SECRET_PREFIX)
    try:
        return HmacKey(base64.b64decode(text, validate=True))
    except binascii.Error:
        return HmacKey(text.encode())


def webhook_headers(
    secrets: Sequence[str], event_id: str, type_: str, delivery_id: int, attempt: int, timestamp: int, body: bytes
) -> dict[str, str]:
    return {
        "Content-Type": "application/json",
        **identifying_headers(event_id, type_, delivery_id, attempt, timestamp),
        "X-Service-Signature": service_signature(secrets, timestamp, body),
        "webhook-id": event_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": standard_signature(secrets, event_id, timestamp, body),
    }


def ipn_headers(
    secrets: Sequence[str], event_id: str, type_: str, delivery_id: int, attempt: int, timestamp: int, body: bytes
) -> dict[str, str]:
    return {
        "Content-Type": "application/x-www-form-urlencoded",
        **identifying_headers(event_id, type_, delivery_id, attempt, timestamp),
        "X-Service-Signature": service_signature(secrets, timestamp, body),
    }


def identifying_headers(event_id: str, type_: str, delivery_id: int, attempt: int, timestamp: int) -> dict[str, str]:
    return {
        "X-Service-Timestamp": str(timestamp),
        "X-Service-Event-Id": event_id,
        "X-Service-Event-Type": type_,
        "X-Service-Delivery-Id": str(delivery_id),
        "X-Service-Attempt": str(attempt),
    }


def ipn_signature(secret: str, amount: str, identifier: str) -> str:
    """Uppercase hex HMAC-SHA256 of amount and identifier, as IPN receivers have always checked it."""
    return hmac_hex(secret, (amount + identifier).encode()).upper()


def ipn_body(fields: Sequence[Sequence[str]], secrets: Sequence[str], amount: str, identifier: str) -> bytes:
    """The form of an IPN. `secrets`: the newest key first, then one still in its grace period, if there is one."""
    pairs: list[tuple[str, str]] = []
    for name, value in fields:
        pairs.append((name, value))
        if name == "identifier":
            pairs.append(("signature", ipn_signature(secrets[0], amount, identifier)))
            if len(secrets) > 1:
                pairs.append(("signature_previous", ipn_signature(secrets[1], amount, identifier)))
    return urlencode(pairs).encode()
