"""The OpenAPI document says what the routes declare, all of it and nothing else."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, get_type_hints

import msgspec
import pytest

from bursar.app import ROUTES
from bursar.core.errors import ApiError
from bursar.http import openapi
from bursar.http.asgi import prefixes
from bursar.http.envelope import CursorPage, Page
from bursar.http.families import FAMILIES
from bursar.http.openapi_examples import problems
from bursar.http.openapi_guide import TAGS
from bursar.http.openapi_parameters import path_names
from bursar.http.routes import Read, Route
from bursar.settings import Settings
from tests.support.json_schema import Checker

DOCUMENT = openapi.document(ROUTES, Settings(env="test"))
CHECK = Checker(DOCUMENT)


def place(route: Route) -> tuple[str, str]:
    [prefix, _], *_mirrors = prefixes(route)
    return route.method.lower(), prefix + route.path


def operation(route: Route) -> dict[str, Any]:
    method, path = place(route)
    found: dict[str, Any] = DOCUMENT["paths"][path][method]
    return found


def references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        node = list(node.values())
    if isinstance(node, list):
        for entry in node:
            yield from references(entry)


every_route = pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)


class TestWhole:
    def test_is_openapi_3_1_with_what_it_must_have(self) -> None:
        assert DOCUMENT["openapi"] == "3.1.0"
        assert DOCUMENT.keys() == {"openapi", "info", "servers", "tags", "paths", "components"}
        assert DOCUMENT["info"].keys() >= {"title", "version", "description"}

    def test_is_the_same_every_time(self) -> None:
        assert openapi.encode(openapi.document(ROUTES, Settings(env="test"))) == openapi.encode(DOCUMENT)

    def test_every_declared_route_appears_exactly_once_and_nothing_else_does(self) -> None:
        declared = Counter(place(route) for route in ROUTES)
        documented = Counter((method, path) for path, methods in DOCUMENT["paths"].items() for method in methods)
        assert documented == declared

    def test_operation_ids_are_unique(self) -> None:
        names = Counter(node["operationId"] for methods in DOCUMENT["paths"].values() for node in methods.values())
        assert names == Counter(route.name for route in ROUTES)
        assert set(names.values()) == {1}

    def test_every_reference_resolves_and_every_component_is_used(self) -> None:
        found = set(references(DOCUMENT))
        for target in found:
            assert CHECK.resolve({"$ref": target}) is not None
        kept = {
            f"#/components/{kind}/{name}"
            for kind, parts in DOCUMENT["components"].items()
            if kind != "securitySchemes"
            for name in parts
        }
        assert found == kept

    def test_the_sandbox_is_a_server(self) -> None:
        assert [server["url"] for server in DOCUMENT["servers"]] == [
            "http://127.0.0.1:8484",
            "http://127.0.0.1:8484/sandbox",
        ]

    def test_every_tag_in_use_is_described(self) -> None:
        assert {route.tag for route in ROUTES} - TAGS.keys() == set(), "describe it in http/openapi_guide.py"
        assert all(tag["description"] for tag in DOCUMENT["tags"])

    def test_the_introduction_covers_every_family(self) -> None:
        description = DOCUMENT["info"]["description"]
        for family in FAMILIES:
            assert description.count(f"| {family} |") == 3  # signing, idempotency, limits


class TestOperation:
    @every_route
    def test_says_who_may_call_and_how(self, route: Route) -> None:
        node = operation(route)
        key = "operatorKey" if route.family.name == "operator" else "secretKey"
        assert node["security"] == [{key: []}]
        assert key in DOCUMENT["components"]["securitySchemes"]
        assert node["tags"] == [route.tag]
        assert node["summary"] == route.summary
        assert node["description"] or not route.writes

    @every_route
    def test_declares_each_path_parameter(self, route: Route) -> None:
        parameters = [CHECK.resolve(parameter) for parameter in operation(route)["parameters"]]
        in_path = [parameter for parameter in parameters if parameter["in"] == "path"]
        assert [parameter["name"] for parameter in in_path] == path_names(route.path)
        assert all(parameter["required"] and parameter["schema"]["type"] for parameter in in_path)
        places = Counter((parameter["in"], parameter["name"]) for parameter in parameters)
        assert set(places.values()) <= {1}

    @every_route
    def test_declares_each_query_parameter(self, route: Route) -> None:
        parameters = [CHECK.resolve(parameter) for parameter in operation(route)["parameters"]]
        named = {parameter["name"] for parameter in parameters if parameter["in"] == "query"}
        fields = route.query.model_fields if route.query and not route.writes else {}
        assert named == {entry.alias or name for name, entry in fields.items()}

    @every_route
    def test_documents_its_status_and_its_errors(self, route: Route) -> None:
        responses = operation(route)["responses"]
        assert next(iter(responses)) == str(route.status)
        codes = {code for status, code in documented_errors(route)}
        assert codes >= {error.code for error in route.errors}
        assert {"401", "429", "500", "503"} <= responses.keys()

    @every_route
    def test_each_error_exists_with_its_status_and_an_example(self, route: Route) -> None:
        for status, code in documented_errors(route):
            error = ApiError.registry[code]
            moved = route.family.strict_headers or code == "https_required"
            assert status == error.declared_status or moved
            example = CHECK.resolve({"$ref": f"#/components/examples/error.{code}"})["value"]
            assert example["error"]["message"] == error.message

    @every_route
    def test_every_response_has_its_headers(self, route: Route) -> None:
        for status, response in operation(route)["responses"].items():
            named = CHECK.resolve(response)["headers"]
            assert {"Service-Request-Id", "Service-Version"} <= named.keys()
            assert ("Retry-After" in named) == (status in ("429", "503"))

    @every_route
    def test_a_list_is_described_as_its_handler_makes_it(self, route: Route) -> None:
        if not isinstance(route.handler, Read) or not route.is_list:
            return
        content = operation(route)["responses"][str(route.status)]["content"]["application/json"]
        meta = CHECK.resolve(content["schema"])["properties"].get("meta", {}).get("$ref", "").rpartition("/")[2]
        made = get_type_hints(route.handler.handle)["return"]
        assert meta == {Page: "PageMeta", CursorPage: "CursorMeta"}.get(made, "")


def documented_errors(route: Route) -> Iterator[tuple[int, str]]:
    for status, response in operation(route)["responses"].items():
        if int(status) >= 400:
            content = CHECK.resolve(response)["content"]["application/json"]
            codes = content["schema"]["allOf"][1]["properties"]["error"]["properties"]["code"]["enum"]
            assert list(content["examples"]) == codes
            for code in codes:
                yield int(status), code


class TestExamples:
    @every_route
    def test_a_request_example_is_accepted_by_the_model(self, route: Route) -> None:
        if route.body is None:
            return
        [content] = operation(route)["requestBody"]["content"].values()
        example = CHECK.resolve(content["examples"]["example"])["value"]
        assert problems(route.body, example) == [], "give the field examples=[…], or its name a usual value"
        if not route.uploads:
            assert list(CHECK.problems(example, content["schema"])) == []

    @every_route
    def test_a_reply_example_fits_its_schema_and_its_type(self, route: Route) -> None:
        content = operation(route)["responses"][str(route.status)]["content"].get("application/json")
        if content is None:
            assert route.reply is bytes
            return
        example = CHECK.resolve(content["examples"]["example"])["value"]
        assert list(CHECK.problems(example, content["schema"])) == []
        data = example["data"][0] if route.is_list else example["data"]
        inner = data[route.wrap] if route.wrap and not route.is_list else data
        msgspec.json.decode(json.dumps(inner), type=route.reply or Any)

    def test_every_error_example_is_a_failure(self) -> None:
        failure = {"$ref": "#/components/schemas/Failure"}
        for name, example in DOCUMENT["components"]["examples"].items():
            if name.startswith("error."):
                assert list(CHECK.problems(example["value"], failure)) == []
