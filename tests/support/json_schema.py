"""The part of JSON Schema that the OpenAPI document uses: enough to hold replies to it, with messages that point."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float, Decimal),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}
_FORMATS = {"date-time": datetime.fromisoformat, "date": date.fromisoformat}
_KNOWN = {
    "$ref", "type", "enum", "const", "anyOf", "allOf", "properties", "required", "additionalProperties",
    "propertyNames", "items", "prefixItems", "minItems", "maxItems", "minLength", "maxLength", "pattern", "minimum",
    "maximum", "exclusiveMinimum", "exclusiveMaximum", "uniqueItems", "format", "description", "default", "examples",
    "contentMediaType", "contentEncoding", "x-decimal-places", "discriminator", "oneOf", "deprecated",
}  # fmt: skip


class Checker:
    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document

    def resolve(self, node: Any) -> Any:
        while isinstance(node, dict) and "$ref" in node:
            target: Any = self._document
            for step in node["$ref"].removeprefix("#/").split("/"):
                target = target[step]
            node = target
        return node

    def problems(self, value: Any, schema: Any, path: str = "$") -> Iterator[str]:
        node = self.resolve(schema)
        if isinstance(node, bool):
            if not node:
                yield f"{path}: nothing is allowed here"
            return
        assert not node.keys() - _KNOWN, f"this checker does not know {node.keys() - _KNOWN}"
        yield from self._choices(value, node, path)
        if (kind := node.get("type")) and not _is(value, kind):
            yield f"{path}: {value!r} is no {kind}"
            return
        if isinstance(value, dict):
            yield from self._object(value, node, path)
        elif isinstance(value, list):
            yield from self._array(value, node, path)
        elif isinstance(value, str):
            yield from _text(value, node, path)
        elif not isinstance(value, bool) and value is not None:
            yield from _number(value, node, path)

    def _choices(self, value: Any, node: Mapping[str, Any], path: str) -> Iterator[str]:
        if "const" in node and value != node["const"]:
            yield f"{path}: {value!r} is not {node['const']!r}"
        if "enum" in node and value not in node["enum"]:
            yield f"{path}: {value!r} is not one of {node['enum']}"
        for part in node.get("allOf", ()):
            yield from self.problems(value, part, path)
        for word in ("anyOf", "oneOf"):
            if word in node and all(any(True for _ in self.problems(value, part, path)) for part in node[word]):
                yield f"{path}: {value!r} fits no choice of {node[word]}"

    def _object(self, value: dict[str, Any], node: Mapping[str, Any], path: str) -> Iterator[str]:
        known = node.get("properties", {})
        for name in node.get("required", ()):
            if name not in value:
                yield f"{path}.{name} is missing"
        for name, entry in value.items():
            schema = known.get(name, node.get("additionalProperties", True))
            yield from self.problems(entry, schema, f"{path}.{name}")
            yield from self.problems(name, node.get("propertyNames", True), f"{path}.{name}")

    def _array(self, value: list[Any], node: Mapping[str, Any], path: str) -> Iterator[str]:
        if not node.get("minItems", 0) <= len(value) <= node.get("maxItems", len(value)):
            yield f"{path}: {len(value)} entries"
        first = node.get("prefixItems", [])
        for position, entry in enumerate(value):
            schema = first[position] if position < len(first) else node.get("items", True)
            yield from self.problems(entry, schema, f"{path}[{position}]")


def _is(value: Any, kind: str) -> bool:
    return isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))


def _text(value: str, node: Mapping[str, Any], path: str) -> Iterator[str]:
    if not node.get("minLength", 0) <= len(value) <= node.get("maxLength", len(value)):
        yield f"{path}: {len(value)} characters"
    if "pattern" in node and not re.search(node["pattern"], value):
        yield f"{path}: {value!r} does not match {node['pattern']}"
    if (parse := _FORMATS.get(node.get("format", ""))) is not None:
        try:
            parse(value)
        except ValueError:
            yield f"{path}: {value!r} is no {node['format']}"


def _number(value: Any, node: Mapping[str, Any], path: str) -> Iterator[str]:
    if not node.get("minimum", value) <= value <= node.get("maximum", value):
        yield f"{path}: {value} is out of range"
    if value <= node.get("exclusiveMinimum", value - 1) or value >= node.get("exclusiveMaximum", value + 1):
        yield f"{path}: {value} is out of range"
