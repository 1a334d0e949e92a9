"""Which errors an operation can answer: those that its family and kind of handler bring, and those of its own.

The list follows the pipeline step by step; a step that gets a new error gets a line here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from bursar.core.errors import (
    AccountBanned,
    AccountInactive,
    AccountKeyMismatch,
    AccountNotAllowed,
    AccountNotFound,
    ApiError,
    BadRequest,
    BillingReviewRequired,
    ConnectNotEnabled,
    DuplicateRequest,
    Forbidden,
    HttpsRequired,
    IdempotencyConflict,
    InternalError,
    InvalidAccountId,
    InvalidCredentials,
    InvalidCursor,
    InvalidIdempotencyKey,
    InvalidSignature,
    InvalidTimestamp,
    KycRequired,
    LiveOnly,
    MalformedSignature,
    MissingCredentials,
    MissingIdempotencyKey,
    PayloadTooLarge,
    PaymentsPaused,
    PayoutsPaused,
    RateLimited,
    ServiceUnavailable,
    Unauthenticated,
    UnknownFields,
    UnsupportedMediaType,
    UriTooLong,
    ValidationFailed,
)
from bursar.http.caller import Gate
from bursar.http.openapi_components import Components, Node, reference
from bursar.http.routes import Route

Declared = tuple[type[ApiError], int]  # an error, and the status that this family gives it

_GATES: dict[Gate, tuple[type[ApiError], ...]] = {
    Gate.OPEN: (),
    Gate.WRITE: (AccountBanned,),
    Gate.PAYMENTS: (AccountBanned, AccountInactive, PaymentsPaused),
    Gate.TRANSFERS: (AccountBanned, KycRequired, PayoutsPaused),
}

_DETAILS: dict[str, Any] = {
    "validation_error": {"email": ["must be an e-mail address"]},
    "unknown_fields": {"colour": ["Extra inputs are not permitted"]},
    "invalid_signature": {"reason": "signature_mismatch"},
    "invalid_timestamp": {"reason": "timestamp_out_of_range", "server_time": 1769852096},
    "malformed_signature": {"reason": "signature_missing"},
    "account_key_mismatch": {"header": "X-Service-Client-Key"},
    "forbidden": {"required_scope": "payments:write"},
    "payload_too_large": {"max_bytes": 1048576},
    "internal_error": {"request_id": "req_5f0c1d2e3b4a59687766aa01"},
}


def errors_of(route: Route) -> dict[int, list[type[ApiError]]]:
    """Every error of an operation by its status, codes in alphabetical order."""
    by_status: dict[int, set[type[ApiError]]] = defaultdict(set)
    for error, status in _all(route):
        by_status[status].add(error)
    return {status: sorted(by_status[status], key=lambda error: error.code) for status in sorted(by_status)}


def is_cursor_list(route: Route) -> bool:
    return route.is_list and route.query is not None and "cursor" in route.query.model_fields


def _all(route: Route) -> Iterator[Declared]:
    yield from _anywhere(route)
    if route.family.name != "operator":
        yield from _account(route)
    if route.writes:
        yield from _signature(route)
        yield from _key(route)
        yield from _plain(UnsupportedMediaType, PayloadTooLarge, *_GATES[route.gate])
    if route.family.unknown_fields == "refuse" and route.family.message and (route.body or not route.writes):
        yield from _plain(UnknownFields)
    if is_cursor_list(route):
        yield from _plain(InvalidCursor)
    yield from _plain(*route.errors)


def _plain(*errors: type[ApiError]) -> Iterator[Declared]:
    return ((error, error.declared_status) for error in errors)


def _anywhere(route: Route) -> Iterator[Declared]:
    yield from _plain(UriTooLong, BadRequest, ValidationFailed, RateLimited, InternalError, ServiceUnavailable)
    yield from _plain(MissingCredentials, Unauthenticated, InvalidCredentials)
    if route.family.https_status:
        yield HttpsRequired, route.family.https_status
    if route.family.live_only:
        yield from _plain(LiveOnly)


def _account(route: Route) -> Iterator[Declared]:
    yield from _plain(AccountKeyMismatch, Forbidden)
    if route.family.account_header:
        yield from _plain(InvalidAccountId, AccountNotAllowed, ConnectNotEnabled, AccountNotFound)
    elif route.platform_only:
        yield from _plain(ConnectNotEnabled)


def _signature(route: Route) -> Iterator[Declared]:
    if route.family.message is None:
        return
    yield from _plain(InvalidSignature)
    if route.family.strict_headers:
        yield from _plain(MalformedSignature, InvalidTimestamp)


def _key(route: Route) -> Iterator[Declared]:
    family = route.family
    if family.key_required:
        yield from _plain(MissingIdempotencyKey)
    yield InvalidIdempotencyKey, 400 if family.strict_headers else InvalidIdempotencyKey.declared_status
    yield from _plain(DuplicateRequest)
    if family.replays:
        yield from _plain(IdempotencyConflict)
    if family.review_after:
        yield from _plain(BillingReviewRequired)


# As nodes of the document --------------------------------------------------------------------------------------

FAILURE: Node = {
    "type": "object",
    "description": "Every error looks like this.",
    "required": ["success", "error"],
    "properties": {
        "success": {"const": False},
        "error": {
            "type": "object",
            "required": ["code", "message", "details"],
            "properties": {
                "code": {"type": "string", "description": "What went wrong, for programs; codes never change."},
                "message": {"type": "string", "description": "What went wrong, for people; may be reworded."},
                "details": {
                    "anyOf": [{"type": "object"}, {"type": "null"}],
                    "description": "More, where there is more: for `validation_error`, messages by field.",
                },
            },
        },
    },
}


def responses(components: Components, route: Route, headers: Node) -> dict[str, Node]:
    """The error responses of an operation; operations with the same codes share them."""
    return {str(status): _response(components, status, errors, headers) for status, errors in errors_of(route).items()}


def _response(components: Components, status: int, errors: list[type[ApiError]], headers: Node) -> Node:
    codes = [error.code for error in errors]
    narrowed = {"properties": {"error": {"properties": {"code": {"enum": codes}}}}}
    waits = {"Retry-After": reference("headers", "Retry-After")} if status in (429, 503) else {}
    node = {
        "description": f"{HTTPStatus(status).phrase}: {', '.join(f'`{code}`' for code in codes)}.",
        "headers": {**headers, **waits},
        "content": {
            "application/json": {
                "schema": {"allOf": [reference("schemas", "Failure"), narrowed]},
                "examples": {error.code: _example(components, error) for error in errors},
            }
        },
    }
    return components.put("responses", ".".join([str(status), *codes]), node)


def _example(components: Components, error: type[ApiError]) -> Node:
    failure = {"code": error.code, "message": error.message, "details": _DETAILS.get(error.code)}
    value = {"success": False, "error": failure}
    return components.put("examples", f"error.{error.code}", {"summary": error.message, "value": value})
