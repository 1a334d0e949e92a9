"""Headers, path and query parameters of the OpenAPI document, read off the family table and the query models."""

from __future__ import annotations

import re
from inspect import get_annotations

from bursar.core.clock import SIGNATURE_TOLERANCE_S
from bursar.http.families import Family, KeyScope
from bursar.http.openapi_components import Components, Node, reference
from bursar.http.routes import Route
from bursar.http.signing import Message, Signed

_ACCOUNT_ID = "acc7k2m9q4x8c1v5n3t_1042"
_IDENTIFIER: Node = {"type": "integer", "minimum": 1, "examples": [42]}
_PATH: dict[str, tuple[Node, str]] = {
    "account_id": ({"type": "string", "examples": [_ACCOUNT_ID]}, "The account's id."),
    "merchant": (
        {"type": "string", "pattern": "^(acc[0-9a-z]{16}_)?[1-9][0-9]{0,14}$", "examples": ["1042"]},
        "The account, by merchant number or account id.",
    ),
}

_SCOPES = {
    KeyScope.TARGET_METHOD_PATH: "the account acted on, the method and the path",
    KeyScope.METHOD_PATH: "the method and the path",
    KeyScope.OWNER: "the calling account: another path, shop or body under the same key is a conflict",
}


def signed_message(message: Message) -> str:
    """The message that is signed, with names for its parts: made by the very function that checks signatures."""
    parts = Signed("{timestamp}", "{method}", "{path}", "{key}", "{account}", b"{body}")
    return message(parts).decode()


def message_in_words(message: Message) -> str:
    names = {"key": "Idempotency-Key", "account": "Service-Account", "method": "METHOD"}
    shown = re.sub(r"\{(\w+)\}", lambda match: f"<{names.get(match[1], match[1])}>", signed_message(message))
    lines = shown.split("\n")
    if len(lines) == 1:
        return f"`{shown}`"
    return f"{len(lines)} parts, a newline between them: " + ", ".join(f"`{line}`" for line in lines)


# Request headers -----------------------------------------------------------------------------------------------


def headers(components: Components, route: Route) -> list[Node]:
    """The headers of an operation, besides those that every HTTP client sends by itself."""
    family = route.family
    found: list[tuple[str, str, Node]] = []  # header, its variant, what is said of it
    if family.account_header:
        found.append(("Service-Account", ".or-field" if family.account_field else "", _service_account(family)))
    if family.name != "operator":
        found.append(("X-Service-Client-Key", "", _matched("client")))
        found.append(("X-Service-Public-Key", "", _matched("public")))
    if route.writes and family.message is not None:
        found.append(("X-Service-Timestamp", "", _TIMESTAMP))
        found.append(("X-Service-Signature", f".{family.name}", _signature(family.message)))
    if route.writes:
        found.append(("Idempotency-Key", f".{family.name}", _idempotency_key(family)))
    return [
        components.put("parameters", name + variant, {"name": name, "in": "header", **node})
        for name, variant, node in found
    ]


def _service_account(family: Family) -> Node:
    also = " `account_id` in the body or the query says the same." if family.account_field else ""
    return {
        "required": False,
        "description": "A platform names the connected account that it acts on; without it, its own account is meant. "
        f"The bare merchant number still works and is answered with `Deprecation`.{also}",
        "schema": {"type": "string", "pattern": "^(acc[0-9a-z]{16}_)?[1-9][0-9]{0,14}$", "examples": [_ACCOUNT_ID]},
    }


def _matched(whose: str) -> Node:
    return {
        "required": False,
        "description": f"When sent, it must be the {whose} key of the caller or of the account acted on.",
        "schema": {"type": "string"},
    }


_TIMESTAMP: Node = {
    "required": True,
    "description": f"Unix seconds at signing; at most {SIGNATURE_TOLERANCE_S // 60} minutes from the service's clock.",
    "schema": {"type": "string", "pattern": "^[0-9]{1,12}$", "examples": ["1769852096"]},
}


def _signature(message: Message) -> Node:
    return {
        "required": True,
        "description": "Lower-case hex HMAC-SHA256, keyed with the secret key, of "
        f"{message_in_words(message)}. The body is the exact bytes sent.",
        "schema": {"type": "string", "pattern": "^[0-9a-fA-F]{64}$"},
    }


def _idempotency_key(family: Family) -> Node:
    second = (
        "The same request again gets the first reply, byte for byte, with `Idempotency-Replayed: true`."
        if family.replays
        else "Any second use is answered 409 `duplicate_request`."
    )
    consumed = (
        "A request that fails uses its key up: correct it and send a new key."
        if family.errors_consume
        else "A request that fails leaves its key free."
    )
    return {
        "required": family.key_required,
        "description": f"One key per operation you mean to happen once, unique within {_SCOPES[family.key_scope]}. "
        f"{second} {consumed}",
        "schema": {"type": "string", "pattern": f"^{family.key_shape.pattern}$", "examples": ["order-1042-attempt-1"]},
    }


# Path and query ------------------------------------------------------------------------------------------------


def path(components: Components, route: Route) -> list[Node]:
    return [_path(components, name) for name in path_names(route.path)]


def path_names(template: str) -> list[str]:
    return re.findall(r"\{(\w+)[^}]*\}", template)


def _path(components: Components, name: str) -> Node:
    if name in _PATH:
        schema, description = _PATH[name]
    elif name == "id" or name.endswith("_id"):
        what = name.removesuffix("id").replace("_", " ").strip()
        schema, description = _IDENTIFIER, f"The {what}'s id." if what else "The object's id."
    else:
        schema, description = {"type": "string"}, f"The {name.replace('_', ' ')}."
    node = {"name": name, "in": "path", "required": True, "description": description, "schema": schema}
    return components.put("parameters", f"path.{name}", node)


def query(components: Components, route: Route, model: Node) -> list[Node]:
    """One parameter per field of the query model; fields of a base model are shared by all who inherit them."""
    required = model.get("required", [])
    return [
        _query(components, _defined_in(route, name), name, schema, required=name in required)
        for name, schema in model.get("properties", {}).items()
    ]


def _defined_in(route: Route, name: str) -> str:
    assert route.query is not None
    fields = route.query.model_fields
    python_name = next((own for own, entry in fields.items() if (entry.alias or own) == name), name)
    return next(base.__name__ for base in route.query.__mro__ if python_name in get_annotations(base))


def _query(components: Components, owner: str, name: str, schema: Node, *, required: bool) -> Node:
    schema = _without_null(schema)
    description = schema.pop("description", "")
    node = {"name": name, "in": "query", "required": required, "description": description, "schema": schema}
    if not description:
        del node["description"]
    return components.put("parameters", f"{owner}.{name}", node)


def _without_null(schema: Node) -> Node:
    """A query parameter is absent or text; there is no way to send null."""
    schema = dict(schema)
    choices = [choice for choice in schema.pop("anyOf", []) if choice.get("type") != "null"]
    if len(choices) == 1:
        return {**choices[0], **schema}
    return {"anyOf": choices, **schema} if choices else schema


# Response headers ----------------------------------------------------------------------------------------------

_RESPONSE_HEADERS: dict[str, tuple[str, Node]] = {
    "Service-Request-Id": ("Quote it when you ask about this request.", {"type": "string", "pattern": "^req_"}),
    "Service-Version": ("The version of the API.", {"type": "string", "const": "2"}),
    "RateLimit-Limit": ("Requests allowed in the window.", {"type": "integer"}),
    "RateLimit-Remaining": ("Requests left in the window.", {"type": "integer"}),
    "RateLimit-Reset": ("Seconds until the window is full again.", {"type": "integer"}),
    "Retry-After": ("Seconds to wait before the next try.", {"type": "integer"}),
    "Idempotency-Replayed": (
        "`true` when this is the stored reply of an earlier request with the same key.",
        {"type": "string", "const": "true"},
    ),
    "Deprecation": ("Since when this is superseded, as `@` and Unix seconds (RFC 9745).", {"type": "string"}),
    "Content-Disposition": ("The file's name; it is always saved, never shown.", {"type": "string"}),
    "Link": ('The successor, with `rel="successor-version"`.', {"type": "string"}),
}
_LIMITS = ("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset")


def add_response_headers(components: Components) -> None:
    for name, (description, schema) in _RESPONSE_HEADERS.items():
        components.put("headers", name, {"description": description, "schema": schema})


def response_headers(route: Route, *, failed: bool = False) -> Node:
    names = ["Service-Request-Id", "Service-Version"]
    if not failed:
        names += _LIMITS if route.family.name != "operator" else ()
        names += ("Idempotency-Replayed",) if route.writes and route.family.replays else ()
        names += ("Deprecation", "Link") if route.successor else ()
        names += ("Content-Disposition",) if route.reply is bytes else ()
    return {name: reference("headers", name) for name in names}
