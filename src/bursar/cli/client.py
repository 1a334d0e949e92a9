"""The operator API's client: a few lines over the standard library, for the command line and the demo."""

from __future__ import annotations

import http.client
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec

from bursar import __version__

TIMEOUT_S = 330.0  # moving the clock answers when everything that fell due has run
_decode = msgspec.json.Decoder(float_hook=Decimal).decode


class ClientError(Exception):
    """The operator API could not be reached, or refused; one line says why."""


class NotThere(ClientError):
    """What was asked for does not exist."""


class _Problem(msgspec.Struct):
    code: str = ""
    message: str = ""
    details: Any = None


class _Envelope(msgspec.Struct):
    data: msgspec.Raw = msgspec.Raw(b"null")
    meta: Any = None
    error: _Problem | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """`raw` is `data` as it was sent, to the last digit."""

    raw: bytes
    meta: Mapping[str, Any]

    @property
    def data(self) -> Any:
        return _decode(self.raw)


class OperatorClient:
    """Calls `/ops/v1` of one instance with its operator key."""

    def __init__(self, url: str, key: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ClientError(f"{url} is not an http or https address")
        self.url = url.rstrip("/")
        self._connect = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._place = (parts.hostname, parts.port)
        self._prefix = f"{parts.path.rstrip('/')}/ops/v1"
        self._key = key

    def get(self, path: str, **query: Any) -> Reply:
        given = {name: value for name, value in query.items() if value is not None}
        return self._call("GET", f"{path}?{urlencode(given)}" if given else path)

    def post(self, path: str, body: Mapping[str, Any], key: str | None = None) -> Reply:
        """`key` is the idempotency key, for a caller that may have to ask again; else there is one for this call."""
        return self._call("POST", path, body, {"Idempotency-Key": key or secrets.token_hex(16)})

    def patch(self, path: str, body: Mapping[str, Any]) -> Reply:
        return self._call("PATCH", path, body)

    def delete(self, path: str) -> Reply:
        return self._call("DELETE", path)

    def _call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, more: Mapping[str, str] | None = None
    ) -> Reply:
        headers = {"Authorization": f"Bearer {self._key}", "User-Agent": f"bursar/{__version__}", **(more or {})}
        content = None if body is None else msgspec.json.encode(body)
        if content is not None:
            headers["Content-Type"] = "application/json"
        connection = self._connect(self._place[0], self._place[1], timeout=TIMEOUT_S)
        try:
            connection.request(method, self._prefix + path, content, headers)
            response = connection.getresponse()
            return self._reply(response.status, response.getheader("Service-Request-Id") or "", response.read())
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise ClientError(f"cannot reach {self.url}: {reason}; is the service running?") from error
        finally:
            connection.close()

    def _reply(self, status: int, request_id: str, raw: bytes) -> Reply:
        try:
            envelope = msgspec.json.decode(raw, type=_Envelope)
        except msgspec.DecodeError:
            raise ClientError(f"{self.url} answered {status}, and not as a bursar service does") from None
        if status < 400:
            return Reply(bytes(envelope.data), envelope.meta or {})
        problem = envelope.error or _Problem(code=str(status))
        kind = NotThere if status == 404 and problem.code != "endpoint_not_found" else ClientError
        raise kind(_sentence(problem, status, request_id))


def _sentence(problem: _Problem, status: int, request_id: str) -> str:
    hint = {
        "endpoint_not_found": "this instance does not offer that; clock, jobs and simulator are for test instances",
        "invalid_credentials": "the operator key is not the one of this instance",
    }.get(problem.code)
    text = hint or problem.message.rstrip(".")
    details = _details(problem.details)
    code = f" ({problem.code})" if problem.code else ""
    asked = f" [{request_id}]" if status >= 500 and request_id else ""
    return f"{text}{code}{': ' if details else ''}{details}{asked}"


def _details(details: Any) -> str:
    if not isinstance(details, dict):
        return ""
    return "; ".join(
        f"{name} {', '.join(map(str, value)) if isinstance(value, list) else value}" for name, value in details.items()
    )
