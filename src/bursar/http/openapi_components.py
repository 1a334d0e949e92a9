"""The shared parts of the OpenAPI document: each is kept once, under a name, and referred to from everywhere else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

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

    def used_by(self, paths: Node) -> Node:
        """The parts that the paths refer to, directly or not; by name, so that a new route moves no line of another."""
        found: dict[str, dict[str, Node]] = {}
        waiting: list[Any] = [paths]
        while waiting:
            node = waiting.pop()
            if isinstance(node, list):
                waiting.extend(node)
            elif isinstance(node, dict):
                waiting.extend(node.values())
                if isinstance(target := node.get("$ref"), str):
                    _, _, kind, name = target.split("/")
                    if name not in found.setdefault(kind, {}):
                        found[kind][name] = getattr(self, kind)[name]
                        waiting.append(found[kind][name])
        return {kind: dict(sorted(found[kind].items())) for kind in get_args(Kind) if kind in found}


def reference(kind: Kind, name: str) -> Node:
    return {"$ref": f"#/components/{kind}/{name}"}
