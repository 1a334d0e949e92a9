"""What the document says of each family and each kind of declaration, on routes made for it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, Literal

import msgspec
import pytest
from pydantic import BaseModel, Field

from bursar.core.errors import InsufficientBalance
from bursar.http import openapi
from bursar.http.body import Upload
from bursar.http.caller import Gate
from bursar.http.envelope import CursorPage
from bursar.http.families import COMMERCE, DISPUTE, FAMILIES, LEGACY, MANAGEMENT, OPERATOR, SUBSCRIPTIONS, Family
from bursar.http.idempotency import MONTH
from bursar.http.openapi_examples import problems
from bursar.http.routes import Local, Read, Route
from bursar.http.schemas import Body, Form, StrictBody, StrictQuery
from bursar.settings import Settings
from tests.support.json_schema import Checker


class Part(msgspec.Struct):
    """A part of a thing."""

    parts: list[Part]
    weight: Decimal | None


class Thing(msgspec.Struct, omit_defaults=True):
    id: int
    amount: Decimal
    at: datetime
    day: date
    state: Literal["new", "old"]
    part: Part
    extra: dict[str, Any]
    always: list[str]
    pair: tuple[str, int]
    several: tuple[Part, ...]
    note: str | msgspec.UnsetType = msgspec.UNSET
    count: int = 0


class Kept(msgspec.Struct):
    count: int = 0


class Line(Body):
    sku: str
    price: Annotated[Decimal, Field(gt=0, max_digits=9, decimal_places=2, strict=False)]


class Order(Body):
    lines: list[Line] = Field(min_length=1)
    share: Annotated[Decimal, Field(ge=0, le=100, strict=False)] = Decimal("12.5")
    note: str | None = None


class BoundOrder(StrictBody):
    amount_minor: int = Field(ge=1)


class Proof(Form):
    statement: str
    proof_file: list[Upload] = Field(min_length=1)


class Cursor(StrictQuery):
    cursor: str | None = Field(None, max_length=200)
    limit: int = Field(25, ge=1, le=50)


@dataclass(frozen=True)
class Made:
    node: dict[str, Any]
    document: dict[str, Any]

    @property
    def check(self) -> Checker:
        return Checker(self.document)

    @property
    def headers(self) -> dict[str, dict[str, Any]]:
        found = [self.check.resolve(parameter) for parameter in self.node["parameters"]]
        return {parameter["name"]: parameter for parameter in found if parameter["in"] == "header"}

    def codes(self, status: int) -> set[str]:
        response = self.check.resolve(self.node["responses"].get(str(status), {}))
        return set(response["content"]["application/json"]["examples"]) if response else set()


async def nothing(ctx: Any, body: Any) -> Any: ...


async def cursor_list(ctx: Any, query: Cursor) -> CursorPage:
    return CursorPage([], None, query.limit)


def made(*, writes: bool = True, **fields: Any) -> Made:
    handler: Any = Local(nothing) if writes else Read(fields.pop("handle", nothing))
    route = Route(
        method="POST" if writes else "GET", path=fields.pop("path", "/things"), name="do", summary="Does it.",
        tag="Things", handler=handler, **fields,
    )  # fmt: skip
    document = openapi.document([route], Settings())
    [methods] = document["paths"].values()
    [node] = methods.values()
    return Made(node, document)


SIGNED = {"X-Service-Timestamp", "X-Service-Signature", "Idempotency-Key"}
MATCHED = {"X-Service-Client-Key", "X-Service-Public-Key"}
LEGACY_MESSAGE = "{timestamp}.{body}"
SIX_LINES = "{timestamp}\n{method}\n{path}\n{key}\n{account}\n{body}"
FIVE_LINES = "{timestamp}\n{method}\n{path}\n{key}\n{body}"


class TestHeaders:
    @pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
    def test_a_write_is_signed_and_has_a_key(self, family: Family) -> None:
        headers = made(family=family).headers
        accounts = {"Service-Account"} if family is not MANAGEMENT else set()
        assert headers.keys() == SIGNED | MATCHED | accounts
        assert all(headers[name]["required"] for name in SIGNED)

    @pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
    def test_a_read_is_not(self, family: Family) -> None:
        assert not made(family=family, writes=False).headers.keys() & SIGNED

    def test_the_operator_has_neither_account_nor_signature(self) -> None:
        headers = made(family=OPERATOR).headers
        assert headers.keys() == {"Idempotency-Key"}
        assert not headers["Idempotency-Key"]["required"]

    @pytest.mark.parametrize(
        ("family", "message"),
        [
            (LEGACY, LEGACY_MESSAGE),
            (DISPUTE, LEGACY_MESSAGE),
            (SUBSCRIPTIONS, SIX_LINES),
            (COMMERCE, SIX_LINES),
            (MANAGEMENT, FIVE_LINES),
        ],
        ids=FAMILIES,
    )
    def test_says_what_is_signed(self, family: Family, message: str) -> None:
        operation = made(family=family)
        assert operation.node["x-signed-message"] == message
        described = operation.headers["X-Service-Signature"]["description"]
        assert ("`<Service-Account>`" in described) == ("{account}" in message)

    @pytest.mark.parametrize(
        ("family", "pattern"),
        [
            (LEGACY, "^[!-~]{1,255}$"),
            (COMMERCE, "^[!-~]{8,100}$"),
            (SUBSCRIPTIONS, "^[A-Za-z0-9._:-]{8,100}$"),
            (MANAGEMENT, "^[A-Za-z0-9._:-]{8,100}$"),
        ],
    )
    def test_says_what_a_key_looks_like(self, family: Family, pattern: str) -> None:
        assert made(family=family).headers["Idempotency-Key"]["schema"]["pattern"] == pattern

    def test_replays_are_announced_where_there_are_any(self) -> None:
        for family in FAMILIES.values():
            headers = made(family=family).node["responses"]["200"]["headers"]
            assert ("Idempotency-Replayed" in headers) == family.replays

    def test_an_alias_is_deprecated_and_names_its_successor(self) -> None:
        node = made(successor="/other-things").node
        assert node["deprecated"]
        assert {"Deprecation", "Link"} <= node["responses"]["200"]["headers"].keys()
        assert "`/other-things`" in node["description"]


class TestErrors:
    def test_legacy_write(self) -> None:
        operation = made(body=Order, gate=Gate.TRANSFERS, errors=(InsufficientBalance,), keep=MONTH)
        assert operation.codes(400) == {"bad_request", "missing_idempotency_key"}
        assert operation.codes(401) == {
            "missing_credentials", "unauthenticated", "invalid_credentials", "account_key_mismatch",
            "invalid_signature",
        }  # fmt: skip
        assert operation.codes(403) == {
            "forbidden", "account_not_allowed", "connect_not_enabled", "account_banned", "kyc_required",
            "payouts_paused",
        }  # fmt: skip
        assert operation.codes(409) == {"idempotency_conflict", "duplicate_request"}
        assert operation.codes(422) == {
            "validation_error", "invalid_idempotency_key", "invalid_account_id", "insufficient_balance",
        }  # fmt: skip
        assert [operation.codes(status) for status in (413, 414, 415, 429, 500, 503)] == [
            {"payload_too_large"}, {"uri_too_long"}, {"unsupported_media_type"}, {"rate_limited"}, {"internal_error"},
            {"service_unavailable"},
        ]  # fmt: skip
        assert "30 days" in operation.node["description"]

    def test_payments_gate(self) -> None:
        assert made(gate=Gate.PAYMENTS).codes(403) >= {"account_banned", "account_inactive", "payments_paused"}

    def test_a_used_dispute_key_is_only_ever_a_duplicate(self) -> None:
        assert made(family=DISPUTE).codes(409) == {"duplicate_request"}

    def test_subscriptions_tell_malformed_from_wrong(self) -> None:
        operation = made(family=SUBSCRIPTIONS, body=BoundOrder)
        assert operation.codes(400) >= {
            "malformed_signature", "invalid_timestamp", "invalid_idempotency_key", "https_required",
        }  # fmt: skip
        assert operation.codes(409) == {"duplicate_request", "idempotency_conflict", "billing_review_required"}
        assert "unknown_fields" in operation.codes(422)
        assert "live_only" in operation.codes(403)

    def test_commerce_and_management_want_https(self) -> None:
        assert "https_required" in made(family=COMMERCE).codes(403)
        assert "https_required" in made(family=MANAGEMENT).codes(403)

    def test_management_knows_no_named_account(self) -> None:
        operation = made(family=MANAGEMENT, platform_only=True)
        assert "account_not_found" not in operation.codes(404)
        assert operation.codes(403) >= {"forbidden", "connect_not_enabled"}

    def test_a_read_has_no_errors_of_writes(self) -> None:
        operation = made(writes=False)
        assert not operation.codes(409) | operation.codes(413) | operation.codes(415)
        assert "invalid_signature" not in operation.codes(401)

    def test_the_operator_has_no_account_errors(self) -> None:
        operation = made(family=OPERATOR, body=BoundOrder)
        assert operation.codes(401) == {"missing_credentials", "unauthenticated", "invalid_credentials"}
        assert not operation.codes(403)
        assert "unknown_fields" not in operation.codes(422)


class TestServers:
    def test_live_only_families_have_no_sandbox(self) -> None:
        assert [server["url"] for server in made(family=COMMERCE).node["servers"]] == ["http://127.0.0.1:8484"]
        assert "servers" not in made(family=LEGACY).node

    def test_the_operator_may_have_an_address_of_its_own(self) -> None:
        route = Route(
            method="GET", path="/x", name="x", summary="X.", tag="X", family=OPERATOR, handler=Read(nothing)
        )  # fmt: skip
        document = openapi.document([route], Settings(ops_listen="127.0.0.1:9000"))
        assert document["paths"]["/ops/v1/x"]["get"]["servers"][0]["url"] == "http://127.0.0.1:9000"


class TestReply:
    def schema(self, operation: Made) -> dict[str, Any]:
        found: dict[str, Any] = operation.check.resolve(
            operation.node["responses"]["200"]["content"]["application/json"]["schema"]
        )
        return found

    def test_is_described_as_it_is_on_the_wire(self) -> None:
        operation = made(writes=False, reply=Thing, wrap="thing")
        assert self.schema(operation)["properties"]["data"]["properties"].keys() == {"thing"}
        thing = operation.document["components"]["schemas"]["Thing"]
        assert thing["properties"]["amount"]["type"] == "number"
        assert thing["properties"]["at"] == {"type": "string", "format": "date-time"}
        assert thing["properties"]["state"] == {"type": "string", "enum": ["new", "old"]}
        assert set(thing["required"]) == {
            "id",
            "amount",
            "at",
            "day",
            "state",
            "part",
            "extra",
            "always",
            "pair",
            "several",
        }

    def test_its_example_fits(self) -> None:
        operation = made(writes=False, reply=Thing, wrap="thing")
        example = operation.document["components"]["examples"]["reply.Thing.Thing"]["value"]
        assert list(operation.check.problems(example, self.schema(operation))) == []
        assert len(example["data"]["thing"]["pair"]) == 2

    def test_a_field_with_a_default_is_always_there_unless_defaults_are_left_out(self) -> None:
        kept = made(writes=False, reply=Kept).document["components"]["schemas"]["Kept"]
        assert kept["required"] == ["count"]

    def test_a_struct_may_contain_itself(self) -> None:
        part = made(writes=False, reply=Thing).document["components"]["schemas"]["Part"]
        assert part["properties"]["parts"]["items"] == {"$ref": "#/components/schemas/Part"}
        assert part["description"] == "A part of a thing."

    def test_a_cursor_list_says_how_to_read_on(self) -> None:
        operation = made(
            writes=False, family=COMMERCE, query=Cursor, reply=Thing, is_list=True, handle=cursor_list
        )  # fmt: skip
        meta = operation.check.resolve(self.schema(operation)["properties"]["meta"])
        assert set(meta["required"]) == {"next_cursor", "has_more", "limit"}
        assert "invalid_cursor" in operation.codes(422)

    def test_a_download_is_no_json(self) -> None:
        content = made(writes=False, reply=bytes).node["responses"]["200"]["content"]
        assert content.keys() == {"*/*"}


class TestBody:
    def content(self, operation: Made, media: str = "application/json") -> dict[str, Any]:
        found: dict[str, Any] = operation.node["requestBody"]["content"][media]
        return found

    def example(self, operation: Made, media: str = "application/json") -> Any:
        return operation.check.resolve(self.content(operation, media)["examples"]["example"])["value"]

    def test_decimals_are_numbers_and_so_are_their_defaults(self) -> None:
        operation = made(body=Order)
        order = operation.check.resolve(self.content(operation)["schema"])
        assert order["properties"]["share"]["type"] == "number"
        assert order["properties"]["share"]["default"] == 12.5
        line = operation.check.resolve(order["properties"]["lines"]["items"])
        assert line["properties"]["price"]["x-decimal-places"] == 2
        assert problems(Order, self.example(operation)) == []

    def test_is_required_where_a_field_is(self) -> None:
        assert made(body=Order).node["requestBody"]["required"]

    def test_bound_families_want_an_object_even_when_there_is_nothing_to_say(self) -> None:
        operation = made(family=COMMERCE)
        assert operation.node["requestBody"]["required"]
        assert self.example(operation) == {}
        assert "requestBody" not in made(family=LEGACY).node

    def test_uploads_are_forms_with_files(self) -> None:
        operation = made(body=Proof, uploads=True)
        proof = operation.check.resolve(self.content(operation, "multipart/form-data")["schema"])
        file = operation.check.resolve(proof["properties"]["proof_file"]["items"])
        assert file == {"type": "string", "contentMediaType": "application/octet-stream"}
        assert problems(Proof, self.example(operation, "multipart/form-data")) == []

    def test_models_of_one_name_are_told_apart(self) -> None:
        other: type[BaseModel] = type("Thing", (Body,), {"__annotations__": {"size": int}, "__module__": __name__})
        operation = made(body=other, reply=Thing)
        assert operation.check.resolve(self.content(operation)["schema"])["properties"].keys() == {"size"}
        assert "amount" in operation.document["components"]["schemas"]["Thing"]["properties"]
