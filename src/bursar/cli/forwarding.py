"""Forwarding to a developer's machine: what an endpoint would have been sent, byte for byte."""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import SplitResult, urlsplit

from bursar.cli.client import ClientError
from bursar.events import signing

TIMEOUT_S = 15.0
REMEMBERED_S = 60.0  # the service repeats the last quarter of a minute


class Follower:
    """Follows the tail of what happens, each thing once."""

    def __init__(self, tail: Callable[[str], Mapping[str, Any]], after: str) -> None:
        self._tail = tail
        self._after = after
        self._seen: dict[tuple[str, str], float] = {}

    def poll(self) -> list[Mapping[str, Any]]:
        """What is new, in the order it happened. IPNs are those with `fields`."""
        tail = self._tail(self._after)
        self._after = tail["after"]
        now = time.monotonic()
        self._seen = {key: at for key, at in self._seen.items() if at > now - REMEMBERED_S}
        new = []
        for entry in sorted([*tail["events"], *tail["ipns"]], key=lambda entry: entry["event_id"]):
            key = ("ipn" if "fields" in entry else "webhook", entry["event_id"])
            if key not in self._seen:
                self._seen[key] = now
                new.append(entry)
        return new


class Forwarder:
    """Sends to the local server, signed as the worker signs; the secret is this session's own."""

    def __init__(self, webhooks: str, ipns: str, secret: str, key: str) -> None:
        self.webhooks, self._ipns = _address(webhooks), _address(ipns)
        self._secret, self._key = secret, key
        self._count = 0

    def forward(self, entry: Mapping[str, Any]) -> str:
        """One line on how it went."""
        self._count += 1
        facts = (entry["event_id"], entry["type"], self._count, 1, int(time.time()))
        if "fields" in entry:
            channel, target = "ipn", self._ipns
            body = signing.ipn_body(entry["fields"], [self._key], entry["amount"], entry["identifier"])
            headers = signing.ipn_headers([self._key], *facts, body)
        else:
            channel, target = "webhook", self.webhooks
            body = entry["body"].encode()
            headers = signing.webhook_headers([self._secret], *facts, body)
        started = time.perf_counter()
        outcome = _post(target, headers, body)
        took_ms = round((time.perf_counter() - started) * 1000)
        return f"{outcome:>7}  {took_ms:>5} ms  {channel:<7}  {entry['type']}  {entry['event_id']}"


def _address(text: str) -> SplitResult:
    parts = urlsplit(text if "://" in text else f"http://{text}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ClientError(f"{text} is not an address to forward to")
    return parts


def _post(target: SplitResult, headers: Mapping[str, str], body: bytes) -> str:
    connect = http.client.HTTPSConnection if target.scheme == "https" else http.client.HTTPConnection
    assert target.hostname is not None
    connection = connect(target.hostname, target.port, timeout=TIMEOUT_S)
    try:
        path = (target.path or "/") + (f"?{target.query}" if target.query else "")
        connection.request("POST", path, body, dict(headers))
        return str(connection.getresponse().status)
    except TimeoutError:
        return "timeout"
    except (OSError, http.client.HTTPException):
        return "refused"
    finally:
        connection.close()
