"""Examples made from schemas: the same every time, and, for bodies, accepted by the model they are examples of.

A field whose rule no schema shows (a validator) says so itself: `Field(examples=["transaction.succeeded"])`.
"""

from __future__ import annotations

import json
import re
from typing import Any

from pydantic import BaseModel, ValidationError

from bursar.http.body import Upload, decode_json
from bursar.http.openapi_components import Components, Node

DEEPEST = 8  # lists and nulls end what contains itself here
FIELDS_SHOWN = 6
REPAIRS = 4
FILE = "<file>"

# What a field of this name usually holds; used where its schema allows it. A tuple offers several values.
_USUAL: dict[str, Any] = {
    "id": (42, "acc7k2m9q4x8c1v5n3t_1042"),
    "merchant_id": 1042,
    "account_id": "acc7k2m9q4x8c1v5n3t_1042",
    "name": "Ada Lovelace",
    "first_name": "Ada",
    "firstname": "Ada",
    "last_name": "Lovelace",
    "lastname": "Lovelace",
    "dob": "1990-12-10",
    "nationality": "GB",
    "mobile": "+447400123456",
    "mobile_code": "+44",
    "business_type": "company",
    "company_registration_number": "01234567",
    "ownership_percent": 60,
    "percent_ownership": 20,
    "job_title": "Director",
    "address": "12 St James's Square",
    "industry": "Software",
    "ip": "203.0.113.7",
    "website_or_product_description": "https://shop.example",
    "customer_name": "Ada Lovelace",
    "business_company_name": "Analytical Engines Ltd",
    "email": "ada@example.com",
    "customer_email": "ada@example.com",
    "phone": "+442079460018",
    "currency": "GBP",
    "country_code": "GB",
    "country": "GB",
    "postcode": "SW1Y 4JU",
    "city": "London",
    "amount": 49.99,
    "amount_minor": 4999,
    "percent": 1.5,
    "percent_fee": 1.5,
    "fixed_fee": 0.2,
    "fee": 0.2,
    "paused": False,
    "blocked": False,
    "break_glass": False,
    "status": "active",
    "kyc_status": "verified",
    "kind": "merchant",
    "platform": "acc2b7r4w9k1m6q8d0x_1001",
    "fee_payer": "connected_account",
    "action": "operator_change_account",
    "actor": "operator",
    "target": "/ops/v1/accounts/1042",
    "quantity": 1,
    "description": "Order 1042",
    "reference": "order-1042",
    "identifier": "order-1042",
    "request_id": "req_5f0c1d2e3b4a59687766aa01",
    "payment_reference": "pay_8Zk3vQ1xW7",
    "events": ["transaction.succeeded"],
    "scopes": ["payments:read"],
    "url": "https://shop.example/hooks",
    "secret": "whsec_…",
    "secret_hint": "whsec_Z…0pS",
    "key": "sk_live_…",
    "secret_key": "sk_live_…",
    "test_secret_key": "sk_test_…",
    "public_key": "pk_live_…",
    "client_key": "ck_live_…",
    "hint": "sk_live_…0000",
    "sort_code": "200415",
    "account_number": "38290008",
    "iban": "GB33BUKB20201555555555",
    "metadata": {"order": "1042"},
    "current_page": 1,
    "per_page": 25,
    "limit": 25,
    "total": 1,
    "last_page": 1,
}
_BY_FORMAT = {
    "date-time": "2026-01-31T09:34:56Z",
    "date": "2026-01-31",
    "time": "09:34:56",
    "uuid": "3f2b8c1e-5d4a-4b6f-9c7e-1a2b3c4d5e6f",
    "email": "ada@example.com",
    "uri": "https://shop.example/",
    "decimal": 49.99,
}
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


class Examples:
    def __init__(self, components: Components) -> None:
        self._components = components

    def of(self, schema: Node, name: str = "", depth: int = 0) -> Any:
        """A value that the schema allows, as telling as its field's name makes possible."""
        node = self._components.resolve(schema)
        given = [*node.get("examples", ()), *_fixed(node)]
        if given:
            return given[0]
        if choices := [choice for choice in node.get("anyOf", ()) if choice.get("type") != "null"]:
            ends = depth >= DEEPEST and len(choices) < len(node["anyOf"])
            return None if ends else self.of(choices[0], name, depth)
        return self._made_up(node, name, depth)

    def _made_up(self, node: Node, name: str, depth: int) -> Any:
        kind = node.get("type")
        if kind == "object" and node.get("properties"):
            return self._object(node, depth)
        if usual := [value for value in _usual(name) if _fits(value, node)]:
            return usual[0]
        if kind == "array":
            entries = node.get("prefixItems") or [node.get("items", {})]
            return [] if depth >= DEEPEST else [self.of(entry, name.removesuffix("s"), depth + 1) for entry in entries]
        return self._map(node, depth) if kind == "object" else _plain(node, name)

    def _object(self, node: Node, depth: int) -> dict[str, Any]:
        if depth >= 2 * DEEPEST:
            return {}
        return {name: self.of(field, name, depth + 1) for name, field in node["properties"].items()}

    def _map(self, node: Node, depth: int) -> dict[str, Any]:
        values = node.get("additionalProperties")
        if not isinstance(values, dict) or depth >= DEEPEST:
            return {}
        keys = node.get("propertyNames", {}).get("enum", ["name"])
        return {keys[0]: self.of(values, keys[0], depth + 1)}

    def body(self, model: type[BaseModel], schema: Node) -> dict[str, Any]:
        """An example that the model accepts: required fields, the first few others, and what these call for."""
        full = self.of(schema)
        node = self._components.resolve(schema)
        required = list(node.get("required", ()))
        others = [name for name in full if name not in required]
        first = [*required, *others[: max(0, FIELDS_SHOWN - len(required))]]
        for names in (first, required, *([*required, name] for name in others)):
            if (example := _repaired(model, full, names, required)) is not None:
                return example
        return {name: full[name] for name in required}


def _repaired(
    model: type[BaseModel], full: dict[str, Any], names: list[str], required: list[str]
) -> dict[str, Any] | None:
    """The example with these fields, less optional ones that the model refuses, plus those that it misses."""
    shown = set(names)
    for _ in range(REPAIRS):
        example = {name: value for name, value in full.items() if name in shown}
        refused = set(problems(model, example))
        if not refused:
            return example
        shown ^= {name for name in refused if name in full and name not in required}
    return None


def problems(model: type[BaseModel], example: Any) -> list[str]:
    """The fields that the service would refuse, read as the service reads bodies."""
    try:
        values = decode_json(json.dumps(example).encode(), depth_limit=32)
        model.model_validate({name: _with_files(value) for name, value in values.items()})
    except ValidationError as error:
        return [str(problem["loc"][0]) if problem["loc"] else "body" for problem in error.errors()]
    return []


def _with_files(value: Any) -> Any:
    if value == FILE:
        return Upload("document.pdf", b"%PDF-1.7")
    return [_with_files(entry) for entry in value] if isinstance(value, list) else value


def _fixed(node: Node) -> list[Any]:
    """The values that a constant or an enumeration allows, its default first."""
    if "const" in node:
        return [node["const"]]
    return [node["default"], *node["enum"]] if "enum" in node and "default" in node else node.get("enum", [])


def _usual(name: str) -> tuple[Any, ...]:
    """By the whole name or its longest known ending: `api_percent_fee` is a `percent_fee`."""
    words = name.split("_")
    endings = ("_".join(words[start:]) for start in range(len(words)))
    found = next((_USUAL[ending] for ending in endings if ending in _USUAL), ())
    return found if isinstance(found, tuple) else (found,)


def _fits(value: Any, node: Node) -> bool:
    wanted = _TYPES.get(node.get("type", ""))
    if wanted is None or not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted):
        return False
    if isinstance(value, str):
        long_enough = node.get("minLength", 0) <= len(value) <= node.get("maxLength", len(value))
        plain = node.get("format") in (None, "date") and "contentMediaType" not in node
        return long_enough and plain and re.search(node.get("pattern", ""), value) is not None
    if isinstance(value, int | float):
        return bool(node.get("minimum", value) <= value <= node.get("maximum", value))
    entries = node.get("items", {}) if isinstance(value, list) else node.get("additionalProperties", {})
    return not isinstance(entries, dict) or entries.get("type", "" if entries else "string") == "string"


def _plain(node: Node, name: str) -> Any:
    """The last resort: a value of the right type and size."""
    if "contentMediaType" in node:
        return FILE
    if node.get("default") is not None:
        return node["default"]
    kind = node.get("type", "null")
    if kind in ("integer", "number"):
        wanted = _BY_FORMAT["decimal"] if node.get("format") == "decimal" else 1
        return min(max(wanted, node.get("minimum", wanted)), node.get("maximum", wanted))
    if kind == "string":
        text = str(_BY_FORMAT.get(node.get("format", ""), name.replace("_", " ") or "text"))
        return text.ljust(node.get("minLength", 0), "x")[: node.get("maxLength", len(text) + 1)]
    return {"boolean": True}.get(kind)
