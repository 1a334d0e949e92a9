"""The OpenAPI 3.1 document, made from the route declarations alone: what is not declared is not documented.

Schemas, parameters, errors, examples and prose each have a module of their own (`openapi_*`); this one puts an
operation together.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel

from bursar import __version__
from bursar.http import openapi_errors, openapi_guide, openapi_parameters
from bursar.http.asgi import prefixes
from bursar.http.openapi_components import Components, Node, reference
from bursar.http.openapi_examples import Examples
from bursar.http.openapi_schemas import Replies, add_models, camel
from bursar.http.routes import Route
from bursar.settings import Settings

_PAGINATION: Node = {
    "type": "object",
    "description": "Where in the whole list this page stands.",
    "required": ["current_page", "per_page", "total", "last_page"],
    "properties": {
        "current_page": {"type": "integer", "minimum": 1},
        "per_page": {"type": "integer", "minimum": 1},
        "total": {"type": "integer", "minimum": 0},
        "last_page": {"type": "integer", "minimum": 1},
    },
}
_PAGE_META: Node = {
    "type": "object",
    "required": ["pagination"],
    "properties": {"pagination": reference("schemas", "Pagination")},
}
_CURSOR_META: Node = {
    "type": "object",
    "description": "How to read on.",
    "required": ["next_cursor", "has_more", "limit"],
    "properties": {
        "next_cursor": {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "Pass it on as `cursor`."},
        "has_more": {"type": "boolean"},
        "limit": {"type": "integer", "minimum": 1},
    },
}
_OWN_SCHEMAS = {
    "Failure": openapi_errors.FAILURE,
    "Pagination": _PAGINATION,
    "PageMeta": _PAGE_META,
    "CursorMeta": _CURSOR_META,
    "EmptyObject": {"type": "object", "description": "An empty object.", "properties": {}},
}
_FILE_CONTENT: Node = {"*/*": {}}  # whatever the file is


def document(routes: Sequence[Route], settings: Settings) -> dict[str, Any]:
    """The whole document for these routes; the same bytes for the same routes and settings."""
    components = Components()
    openapi_parameters.add_response_headers(components)
    components.schemas |= _OWN_SCHEMAS
    operations = _Operations(components, routes, settings)
    paths: dict[str, Node] = {}
    for route in routes:
        [prefix, _], *_mirrors = prefixes(route)
        paths.setdefault(prefix + route.path, {})[route.method.lower()] = operations.operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Bursar API",
            "version": __version__,
            "summary": "Payments, accounts and money movement.",
            "description": openapi_guide.introduction(settings),
        },
        "servers": [_server(settings.public_url, "Live"), _server(f"{settings.public_url}/sandbox", "Sandbox")],
        "tags": openapi_guide.tags(routes),
        "paths": paths,
        "components": components.used_by(paths) | {"securitySchemes": _SECURITY},
    }


def encode(made: dict[str, Any]) -> bytes:
    return json.dumps(made, ensure_ascii=False, separators=(",", ":")).encode()


_SECURITY: Node = {
    "secretKey": {"type": "http", "scheme": "bearer", "description": "A secret or restricted key of the account."},
    "operatorKey": {"type": "http", "scheme": "bearer", "description": "The key of whoever runs this instance."},
}


def _server(url: str, description: str) -> Node:
    return {"url": url, "description": description}


class _Operations:
    """What all operations of one document share."""

    def __init__(self, components: Components, routes: Sequence[Route], settings: Settings) -> None:
        self._components = components
        self._settings = settings
        self._replies = Replies(components)
        self._examples = Examples(components)
        for route in routes:
            self._replies.schema(route.reply)  # replies choose their names first, bodies work round them
        models = [model for route in routes for model in (route.body, route.query) if model is not None]
        self._models = add_models(components, models)

    def operation(self, route: Route) -> Node:
        node: Node = {
            "operationId": route.name,
            "summary": route.summary,
            "description": openapi_guide.fine_print(route),
            "tags": [route.tag],
            "security": [{"operatorKey" if route.family.name == "operator" else "secretKey": []}],
            "parameters": self._parameters(route),
        }
        if (body := self._request_body(route)) is not None:
            node["requestBody"] = body
        errors = openapi_errors.responses(
            self._components, route, openapi_parameters.response_headers(route, failed=True)
        )
        successes = {str(status): self._success(route, status) for status in (route.status, *route.also)}
        node["responses"] = {**successes, **errors}
        if route.successor:
            node["deprecated"] = True
        return node | self._servers(route) | _extensions(route)

    def _servers(self, route: Route) -> Node:
        """Operations without a sandbox, and those of the operator's own address, say where they are."""
        if route.family.name == "operator" and self._settings.ops_listen:
            return {"servers": [_server(f"http://{self._settings.ops_listen}", "Operator")]}
        if route.family.live_only or route.family.name == "operator":
            return {"servers": [_server(self._settings.public_url, "Live")]}
        return {}

    def _parameters(self, route: Route) -> list[Node]:
        found = openapi_parameters.path(self._components, route)
        if route.query is not None and (not route.writes or route.family.query_on_writes):
            model = self._components.schemas[self._models[route.query]]
            found += openapi_parameters.query(self._components, route, model)
        return found + openapi_parameters.headers(self._components, route)

    def _request_body(self, route: Route) -> Node | None:
        bound = route.family.message is not None and not route.family.query_on_writes
        if not route.writes or (route.body is None and not bound):
            return None
        name = self._models[route.body] if route.body else "EmptyObject"
        schema = reference("schemas", name)
        example = self._examples.body(route.body, schema) if route.body else {}
        required = route.body is not None and _has_required(route.body)
        kept = self._components.put("examples", f"request.{name}", {"value": example})
        media = "multipart/form-data" if route.uploads else "application/json"
        return {"required": bound or required, "content": {media: {"schema": schema, "examples": {"example": kept}}}}

    def _success(self, route: Route, status: int) -> Node:
        return {
            "description": HTTPStatus(status).phrase,
            "headers": openapi_parameters.response_headers(route),
            "content": _FILE_CONTENT if route.reply is bytes else self._reply_content(route),
        }

    def _reply_content(self, route: Route) -> Node:
        reply = self._replies.schema(route.reply)
        name = reply["$ref"].rpartition("/")[2] if "$ref" in reply else camel(route.name)
        kind = "List" if route.is_list else camel(route.wrap or "data")
        envelope = self._envelope(route, reply)
        schema = self._components.put("schemas", f"{name}.{kind}", envelope)
        example = self._components.put("examples", f"reply.{name}.{kind}", {"value": self._examples.of(envelope)})
        return {"application/json": {"schema": schema, "examples": {"example": example}}}

    def _envelope(self, route: Route, reply: Node) -> Node:
        meta: Node | None = None
        data = reply
        if route.is_list:
            data = {"type": "array", "items": reply}
            if openapi_errors.is_cursor_list(route):
                meta = reference("schemas", "CursorMeta")
            elif route.query is not None and "page" in route.query.model_fields:
                meta = reference("schemas", "PageMeta")
        elif route.wrap:
            data = {"type": "object", "required": [route.wrap], "properties": {route.wrap: reply}}
        return {
            "type": "object",
            "required": ["success", "data", *(["meta"] if meta else [])],
            "properties": {"success": {"const": True}, "data": data, **({"meta": meta} if meta else {})},
        }


def _has_required(model: type[BaseModel]) -> bool:
    return any(field.is_required() for field in model.model_fields.values())


def _extensions(route: Route) -> Node:
    """What the reference page and clients need and OpenAPI has no word for."""
    family = route.family
    node: Node = {"x-family": family.name, "x-errors": [error.code for error in route.errors]}
    if route.writes and family.message is not None:
        node["x-signed-message"] = openapi_parameters.signed_message(family.message)
    if route.scope:
        node["x-scope"] = route.scope
    return node
