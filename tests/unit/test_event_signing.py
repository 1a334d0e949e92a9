"""Signatures of deliveries are plain HMACs, whatever the key."""

from __future__ import annotations

import base64
import hashlib
import hmac

from hypothesis import given
from hypothesis import strategies as st

from bursar.events.signing import service_signature, standard_signature


def digest(key: bytes, message: bytes) -> bytes:
    return hmac.new(key, message, hashlib.sha256).digest()


@given(secrets=st.lists(st.text(max_size=150), max_size=3), timestamp=st.integers(0, 2**34), body=st.binary())
def test_service_signature(secrets: list[str], timestamp: int, body: bytes) -> None:
    message = str(timestamp).encode() + b"." + body
    expected = ",".join(digest(secret.encode(), message).hex() for secret in secrets)
    assert service_signature(secrets, timestamp, body) == expected


@given(keys=st.lists(st.binary(max_size=150), max_size=3), timestamp=st.integers(0, 2**34), body=st.binary())
def test_standard_signature(keys: list[bytes], timestamp: int, body: bytes) -> None:
    secrets = ["whsec_" + base64.b64encode(key).decode() for key in keys]
    message = b"evt_1." + str(timestamp).encode() + b"." + body
    expected = " ".join("v1," + base64.b64encode(digest(key, message)).decode() for key in keys)
    assert standard_signature(secrets, "evt_1", timestamp, body) == expected
