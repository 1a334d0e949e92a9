"""From the OpenAPI document to what a reader wants to see of it: fields with their rules in words, errors by code."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from bursar.docs.snippets import shell_snippet

Node = Mapping[str, Any]
DEEPEST = 6


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    type: str
    required: bool
    description: str = ""
    rules: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    children: tuple[Field, ...] = ()


@dataclass(frozen=True, slots=True)
class ErrorRow:
    status: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Operation:
    id: str
    title: str
    method: str
    path: str
    summary: str
    fine_print: str
    family: str
    deprecated: bool
    parameters: dict[str, list[Field]]  # by place: path, query, header
    body: list[Field]
    body_media: str
    reply_status: str
    reply_place: str  # where in the envelope the fields stand
    reply: list[Field]
    reply_headers: list[Field]
    reply_example: str
    own_errors: list[ErrorRow]
    shared_errors: list[ErrorRow]
    snippet: str


@dataclass(frozen=True, slots=True)
class Group:
    name: str
    slug: str
    description: str
    operations: list[Operation] = field(default_factory=list)


def slug(words: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")


def groups(document: Node) -> list[Group]:
    """The operations by tag, in the document's order."""
    reader = _Reader(document)
    found = {tag["name"]: Group(tag["name"], slug(tag["name"]), tag.get("description", "")) for tag in document["tags"]}
    for path, methods in document["paths"].items():
        for method, node in methods.items():
            found[node["tags"][0]].operations.append(reader.operation(method.upper(), path, node))
    return list(found.values())


def sections(document: Node) -> list[tuple[str, str, str]]:
    """The introduction by its headings: slug, title, Markdown."""
    parts = re.split(r"^## +(.+)$", document["info"]["description"], flags=re.MULTILINE)
    return [(slug(title), title, text.strip()) for title, text in zip(parts[1::2], parts[2::2], strict=True)]


class _Reader:
    def __init__(self, document: Node) -> None:
        self._document = document

    def _resolve(self, node: Node) -> Node:
        while "$ref" in node:
            _, _, kind, name = node["$ref"].split("/")
            node = self._document["components"][kind][name]
        return node

    def operation(self, method: str, path: str, node: Node) -> Operation:
        parameters = [self._resolve(parameter) for parameter in node["parameters"]]
        status, success = next(iter(node["responses"].items()))
        content = success["content"].get("application/json", {})
        place, reply = self._reply(content) if content else ("a file", {})
        errors = list(self._errors(node))
        own = set(node["x-errors"])
        media, body = self._body(node)
        server = node.get("servers", self._document["servers"])[0]["url"]
        return Operation(
            id=node["operationId"],
            title=node["operationId"].removeprefix("operator_").replace("_", " ").capitalize(),
            method=method,
            path=path,
            summary=node["summary"],
            fine_print=node["description"],
            family=node["x-family"],
            deprecated=node.get("deprecated", False),
            parameters={place: self._parameters(parameters, place) for place in ("path", "query", "header")},
            body=list(self._fields(body.get("schema", {}))),
            body_media=media,
            reply_status=status,
            reply_place=place,
            reply=list(self._fields(reply)),
            reply_headers=[
                self._field(name, self._resolve(header), required=False) for name, header in success["headers"].items()
            ],
            reply_example=_pretty(self._example(content)) if content else "",
            own_errors=[error for error in errors if error.code in own],
            shared_errors=[error for error in errors if error.code not in own],
            snippet=shell_snippet(method, path, node, parameters, server, media, self._example(body)),
        )

    def _parameters(self, parameters: list[Node], place: str) -> list[Field]:
        return [
            self._field(parameter["name"], parameter, required=parameter["required"])
            for parameter in parameters
            if parameter["in"] == place
        ]

    def _body(self, node: Node) -> tuple[str, Node]:
        for media, content in node.get("requestBody", {}).get("content", {}).items():
            return media, content
        return "", {}

    def _example(self, content: Node) -> Any:
        return self._resolve(content["examples"]["example"])["value"] if content else None

    def _reply(self, content: Node) -> tuple[str, Node]:
        """The interesting part of an envelope, and the way to it."""
        envelope = self._resolve(content["schema"])
        data = self._resolve(envelope["properties"]["data"])
        if data.get("type") == "array":
            return "data[]", self._resolve(data["items"])
        inner = data.get("properties", {})
        if "$ref" not in envelope["properties"]["data"] and len(inner) == 1:
            [(name, wrapped)] = inner.items()
            return f"data.{name}", self._resolve(wrapped)
        return "data", data

    def _errors(self, node: Node) -> Iterator[ErrorRow]:
        for status, response in node["responses"].items():
            if int(status) >= 400:
                examples = self._resolve(response)["content"]["application/json"]["examples"]
                for code, example in examples.items():
                    yield ErrorRow(status, code, self._resolve(example)["summary"])

    # Fields --------------------------------------------------------------------------------------------------

    def _fields(self, schema: Node, depth: int = 0) -> Iterator[Field]:
        node = self._resolve(schema)
        if depth >= DEEPEST:
            return
        required = node.get("required", ())
        for name, entry in node.get("properties", {}).items():
            yield self._field(name, {"schema": entry}, required=name in required, depth=depth)

    def _field(self, name: str, holder: Node, *, required: bool, depth: int = 0) -> Field:
        """A field of an object, or a parameter, whose schema it holds."""
        schema = holder["schema"]
        node = self._resolve(schema)
        core = self._core(schema)
        return Field(
            name=name,
            type=self._type(schema),
            required=required,
            description=holder.get("description") or schema.get("description") or node.get("description", ""),
            rules=tuple(dict.fromkeys([*_rules({**core, "default": None}), *_rules(node)])),
            choices=tuple(str(choice) for choice in core.get("enum", ())),
            children=tuple(self._fields(core, depth + 1)),
        )

    def _core(self, schema: Node) -> dict[str, Any]:
        """What a field holds when it is neither null nor a list of it."""
        node = self._resolve(schema)
        choices = [choice for choice in node.get("anyOf", ()) if choice.get("type") != "null"]
        if len(choices) == 1:
            return self._core(choices[0])
        if node.get("type") == "array" and node.get("items"):
            return self._core(node["items"])
        if isinstance(node.get("additionalProperties"), dict) and not node.get("properties"):
            return self._core(node["additionalProperties"])
        return dict(node)

    def _type(self, schema: Node) -> str:
        node = self._resolve(schema)
        if "anyOf" in node:
            return " or ".join(dict.fromkeys(self._type(choice) for choice in node["anyOf"]))
        if node.get("type") == "array":
            entries = node.get("prefixItems") or [node.get("items") or {}]
            return f"list of {', '.join(self._type(entry) for entry in entries)}"
        if isinstance(node.get("additionalProperties"), dict) and not node.get("properties"):
            return f"map of {self._type(node['additionalProperties'])}"
        if "contentMediaType" in node:
            return "file"
        if "const" in node:
            return json.dumps(node["const"])
        return str({"date-time": "date and time", "date": "date", "decimal": "decimal"}.get(
            node.get("format", ""), node.get("type", "anything")
        ))  # fmt: skip


def _rules(node: Node) -> Iterator[str]:
    if "minLength" in node or "maxLength" in node:
        yield f"{_span(node.get('minLength'), node.get('maxLength'))} characters"
    if "minItems" in node or "maxItems" in node:
        yield f"{_span(node.get('minItems'), node.get('maxItems'))} entries"
    if "minimum" in node or "maximum" in node:
        yield _span(node.get("minimum"), node.get("maximum"))
    if "exclusiveMinimum" in node:
        yield f"above {_count(node['exclusiveMinimum'])}"
    if "exclusiveMaximum" in node:
        yield f"below {_count(node['exclusiveMaximum'])}"
    if "x-decimal-places" in node:
        yield f"up to {node['x-decimal-places']} decimals"
    if "pattern" in node:
        yield f"`{node['pattern']}`"
    if node.get("default") not in (None, ""):
        yield f"default `{json.dumps(node['default'])}`"


def _span(least: Any, most: Any) -> str:
    if most is None:
        return f"at least {_count(least)}"
    return f"at most {_count(most)}" if least is None else f"{_count(least)} to {_count(most)}"


def _count(number: float) -> str:
    return f"{int(number):,}" if number == int(number) else str(number)


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
