"""The shared parts of the OpenAPI document: each is kept once, under a name, and referred to from everywhere else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Node = dict[str, Any]
Kind = Literal["schemas", "parameters", "headers", "responses", "examples"]


@dataclass(slots=True)
class Components:
    schemas: dict[str, Node] = field(default_factory=dict)
    parameters: dict[str, Node] = field(default_factory=dict)
    headers: dict[str, Node] = field(default_factory=dict)
    responses: dict[str, Node] = field(default_factory=dict)
    examples: dict[str, Node] = field(default_factory=dict)

    def put(self, kind: Kind, name: str, node: Node) -> Node:
        """Keeps a part and returns the reference to it. Another part of the same name gets a number."""
        kept: dict[str, Node] = getattr(self, kind)
        key, number = name, 1
        while kept.setdefault(key, node) != node:
            number += 1
            key = f"{name}{number}"
        return reference(kind, key)

    def resolve(self, node: Node) -> Node:
        """What a reference stands for; anything else is returned as it is."""
        while "$ref" in node:
            _, _, kind, name = node["$ref"].split("/")
            node = getattr(self, kind)[name]
        return node

    def as_node(self) -> Node:
        """Sorted by name, so that a new route adds lines to the document and moves none."""
        kinds: tuple[Kind, ...] = ("schemas", "parameters", "headers", "responses", "examples")
        return {kind: dict(sorted(getattr(self, kind).items())) for kind in kinds if getattr(self, kind)}


def reference(kind: Kind, name: str) -> Node:
    return {"$ref": f"#/components/{kind}/{name}"}
