"""JSON schemas of what goes in (pydantic models) and what comes out (msgspec structs), as named components.

Both are described as they are on the wire: a decimal is a number, a moment has its format, and a field of a reply is
required unless the service may really leave it out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import msgspec
from msgspec import inspect
from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, models_json_schema
from pydantic_core import core_schema

from bursar.http.body import Upload
from bursar.http.openapi_components import Components, Node, reference

_CONSTRAINTS = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "min_length": "minLength",
    "max_length": "maxLength",
    "pattern": "pattern",
    "decimal_places": "x-decimal-places",
}
_DROPPED = ("title", "max_digits", "strict")


_LITERAL = ("default", "examples", "enum", "const")  # values, whatever words they contain


def camel(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"[^A-Za-z0-9]+", name) if part)


# Replies -------------------------------------------------------------------------------------------------------


class Replies:
    """Schemas of reply types. A struct becomes a component of its own name, once."""

    def __init__(self, components: Components) -> None:
        self._components = components
        self._names: dict[type, str] = {}

    def schema(self, reply: Any) -> Node:
        return {} if reply is None else self._of(inspect.type_info(reply))

    def _of(self, info: inspect.Type) -> Node:
        node: Node
        match info:
            case inspect.Metadata(type=inner, extra_json_schema=extra):
                node = self._of(inner) | (extra or {})
            case inspect.StructType() | inspect.DataclassType() | inspect.TypedDictType():
                node = reference("schemas", self._named(info))
            case inspect.UnionType(types=members):
                node = {"anyOf": [self._of(member) for member in members]}
            case inspect.LiteralType(values=values):
                node = _enum(values)
            case inspect.EnumType(cls=cls):
                node = _enum([member.value for member in cls])
            case inspect.DictType(value_type=value):
                of_values = self._of(value)
                node = {"type": "object"} | ({"additionalProperties": of_values} if of_values else {})
            case inspect.TupleType(item_types=items):
                node = {"type": "array", "prefixItems": [self._of(item) for item in items], "items": False}
            case inspect.CollectionType(item_type=item):
                node = {"type": "array", "items": self._of(item)}
            case _:
                node = _scalar(info)
        return node

    def _named(self, info: inspect.StructType | inspect.DataclassType | inspect.TypedDictType) -> str:
        cls = info.cls
        if cls in self._names:
            return self._names[cls]
        kept = self._components.schemas
        name = cls.__name__.lstrip("_")
        if name in kept:
            name = _feature(cls.__module__) + name
        while name in kept:
            name += "_"
        self._names[cls] = name
        kept[name] = {}  # a struct may contain itself
        kept[name] = self._object(info, cls)
        return name

    def _object(self, info: Any, cls: type) -> Node:
        config = getattr(cls, "__struct_config__", None)
        left_out = config is not None and config.omit_defaults
        properties: dict[str, Node] = {}
        required: list[str] = []
        if isinstance(info, inspect.StructType) and info.tag_field is not None:
            properties[info.tag_field] = {"const": info.tag}
            required.append(info.tag_field)
        for entry in info.fields:
            properties[entry.encode_name] = self._of(entry.type)
            has_default = not (entry.default is msgspec.NODEFAULT and entry.default_factory is msgspec.NODEFAULT)
            if entry.required or (has_default and not left_out):
                required.append(entry.encode_name)
        return {"type": "object", **_described(cls), "properties": properties, "required": required}


def _described(cls: type) -> Node:
    words = " ".join((cls.__doc__ or "").split())
    made_up = words.startswith(f"{cls.__name__}(")  # a dataclass without a docstring gets its signature
    return {"description": words} if words and not made_up else {}


def _enum(values: Sequence[Any]) -> Node:
    words = [value for value in values if value is not None]
    node: Node = {"enum": words}
    if all(isinstance(word, str) for word in words):
        node = {"type": "string", **node}
    return {"anyOf": [node, {"type": "null"}]} if len(words) < len(values) else node


_SCALARS: dict[type[inspect.Type], Node] = {
    inspect.NoneType: {"type": "null"},
    inspect.BoolType: {"type": "boolean"},
    inspect.IntType: {"type": "integer"},
    inspect.FloatType: {"type": "number"},
    inspect.DecimalType: {"type": "number", "format": "decimal"},
    inspect.StrType: {"type": "string"},
    inspect.DateTimeType: {"type": "string", "format": "date-time"},
    inspect.DateType: {"type": "string", "format": "date"},
    inspect.TimeType: {"type": "string", "format": "time"},
    inspect.UUIDType: {"type": "string", "format": "uuid"},
    inspect.BytesType: {"type": "string", "contentEncoding": "base64"},
}


def _scalar(info: inspect.Type) -> Node:
    node = dict(_SCALARS.get(type(info), {}))
    for ours, theirs in _CONSTRAINTS.items():
        if (bound := getattr(info, ours, None)) is not None:
            node[theirs] = bound
    return node


# Bodies and queries --------------------------------------------------------------------------------------------


class _Wire(GenerateJsonSchema):
    """pydantic's schemas, less what the wire has no use for: titles made of field names, decimals as text."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonSchemaValue:
        node: JsonSchemaValue = {"type": "number", "format": "decimal"}
        for ours, theirs in _CONSTRAINTS.items():
            if (bound := schema.get(ours)) is not None:
                node[theirs] = _number(bound)  # type: ignore[arg-type]
        return node

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        if schema["cls"] is Upload:
            return {"type": "string", "contentMediaType": "application/octet-stream"}
        return super().dataclass_schema(schema)

    def encode_default(self, dft: Any) -> Any:
        return _number(dft) if isinstance(dft, Decimal) else super().encode_default(dft)


def _number(value: Decimal) -> int | float:
    return int(value) if value == int(value) else float(value)


def add_models(components: Components, models: Sequence[type[BaseModel]]) -> dict[type[BaseModel], str]:
    """Adds the models and all that they contain; returns the name of each."""
    unique = list(dict.fromkeys(models))
    refs, made = models_json_schema([(model, "validation") for model in unique], schema_generator=_Wire)
    definitions: dict[str, Node] = made.get("$defs", {})
    names: dict[str, str] = {}
    for given in definitions:
        names[given] = _free_name(given, {*components.schemas, *names.values()})
    for given, node in definitions.items():
        components.schemas[names[given]] = _settled(node, names)
    return {model: names[refs[model, "validation"]["$ref"].rpartition("/")[2]] for model in unique}


def _free_name(given: str, taken: set[str]) -> str:
    """pydantic tells models of the same name apart by their module; a feature's name is enough for that."""
    module, _, name = given.rpartition("__")
    wanted = _feature(module.replace("__", ".")) + name if module else given
    return f"{wanted}Body" if wanted in taken else wanted


def _feature(module: str) -> str:
    """`bursar.features.accounts.schemas` is `Accounts`."""
    parts = module.split(".")
    return camel(parts[-2] if len(parts) > 1 else parts[-1])


def _settled(node: Any, names: dict[str, str]) -> Any:
    """With references into the components, and without the words that say nothing on the wire.

    Constraints behind a validator come under pydantic's own names, so these are translated here, too.
    """
    if isinstance(node, list):
        return [_settled(entry, names) for entry in node]
    if not isinstance(node, dict):
        return node
    settled: Node = {}
    for key, value in node.items():
        if key == "$ref":
            settled[key] = f"#/components/schemas/{names[value.rpartition('/')[2]]}"
        elif key == "properties":
            settled[key] = {name: _settled(entry, names) for name, entry in value.items()}
        elif key in _LITERAL:
            if value is not None:
                settled[key] = value
        elif key not in _DROPPED:
            settled[_CONSTRAINTS.get(str(key), str(key))] = _settled(value, names)
    return settled
