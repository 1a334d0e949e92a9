"""The OpenAPI document as the service under test gives it out: its operations, with what they take and may answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.support.house import House
from tests.support.wire import request

METHODS = ("get", "post", "put", "patch", "delete")


@dataclass(frozen=True)
class Operation:
    name: str
    method: str
    path: str  # with its parameters in braces
    family: str
    media: str | None  # of the body, when there is one
    example: Any
    codes: Mapping[int, frozenset[str]]  # by status
    node: Mapping[str, Any]

    @property
    def writes(self) -> bool:
        return self.method != "GET"

    @property
    def parameters(self) -> list[str]:
        return re.findall(r"\{(\w+)\}", self.path)


class Document:
    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.raw = raw

    def resolve(self, node: Any) -> Any:
        while isinstance(node, dict) and "$ref" in node:
            target: Any = self.raw
            for step in node["$ref"].removeprefix("#/").split("/"):
                target = target[step]
            node = target
        return node

    def operations(self) -> Iterator[Operation]:
        for path, item in self.raw["paths"].items():
            for method in METHODS:
                if method in item:
                    yield self._operation(path, method.upper(), item[method])

    def _operation(self, path: str, method: str, node: Mapping[str, Any]) -> Operation:
        media, example = None, None
        for media, content in node.get("requestBody", {}).get("content", {}).items():  # noqa: B007 - there is one
            example = self.resolve(content["examples"]["example"])["value"]
        return Operation(
            name=node["operationId"],
            method=method,
            path=path,
            family=node["x-family"],
            media=media,
            example=example,
            codes={int(status): self._codes(answer) for status, answer in node["responses"].items()},
            node=node,
        )

    def _codes(self, answer: Any) -> frozenset[str]:
        schema = self.resolve(answer).get("content", {}).get("application/json", {}).get("schema", {})
        narrowed = [self.resolve(part) for part in schema.get("allOf", ())]
        return frozenset(
            code
            for part in narrowed
            for code in part.get("properties", {})
            .get("error", {})
            .get("properties", {})
            .get("code", {})
            .get("enum", ())
        )


async def of(serving: House) -> Document:
    reply = await serving.wire.send(request("GET", "/openapi.json", {}))
    assert reply.status == 200, reply
    return Document(json.loads(reply.body))
