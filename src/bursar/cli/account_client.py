"""The public API's client for the developer tools: an account's own key, writes signed the legacy way."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from bursar.cli.client import OperatorClient, Reply


class AccountClient(OperatorClient):
    """Calls `/v2` of one instance with an account's secret key."""

    def __init__(self, url: str, key: str) -> None:
        super().__init__(url, key)
        self._prefix = f"{urlsplit(url).path.rstrip('/')}/v2"

    def post(self, path: str, body: Mapping[str, Any] | None = None, key: str | None = None) -> Reply:
        content = b"" if body is None else msgspec.json.encode(body)
        stamp = str(int(time.time()))
        signature = hmac.new(self._key.encode(), stamp.encode() + b"." + content, hashlib.sha256).hexdigest()
        headers = {
            "X-Service-Timestamp": stamp,
            "X-Service-Signature": signature,
            "Idempotency-Key": key or secrets.token_hex(16),
        }
        return self._call("POST", path, body, headers)
