"""The running service answers what its own document says."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import httpx
import pytest

from tests.support.json_schema import Checker
from tests.support.service import Party, Service


class Contract:
    """The document that the service serves, and what it says of a reply."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self._check = Checker(document)

    def reads(self) -> list[tuple[str, dict[str, Any]]]:
        """Every GET that needs neither a path parameter nor a query."""
        return [
            (path, methods["get"])
            for path, methods in self.document["paths"].items()
            if "get" in methods and "{" not in path and not self._asks(methods["get"])
        ]

    def _asks(self, operation: dict[str, Any]) -> bool:
        parameters = [self._check.resolve(parameter) for parameter in operation["parameters"]]
        return any(parameter["required"] for parameter in parameters)

    def holds(self, reply: httpx.Response, path: str) -> Any:
        """Asserts that a reply is as documented: its status, its body and its headers; returns the body."""
        operation = self.document["paths"][path][reply.request.method.lower()]
        assert str(reply.status_code) in operation["responses"], f"{reply.status_code} of {path}: {reply.text}"
        documented = self._check.resolve(operation["responses"][str(reply.status_code)])
        content = json.loads(reply.content, parse_float=Decimal)
        schema = documented["content"]["application/json"]["schema"]
        assert list(self._check.problems(content, schema)) == []
        assert reply.headers["Content-Type"] == "application/json"
        for name in ("Service-Request-Id", "Service-Version"):
            described = self._check.resolve(documented["headers"][name])["schema"]
            assert list(self._check.problems(reply.headers[name], described)) == []
        return content


@pytest.fixture
async def contract(service: Service) -> Contract:
    reply = await service.client.get("/openapi.json")
    return Contract(reply.json())


@pytest.fixture
async def platform(service: Service) -> Party:
    """A platform with a webhook and a connected account, so that lists have something to show."""
    party = await service.open_account("platform")
    await service.open_account(platform=party.merchant_id)
    await service.send(party, "POST", "/webhooks", {"url": "https://shop.example/hooks", "events": ["*"]})
    return party


class TestReads:
    async def test_every_read_without_parameters(self, service: Service, contract: Contract, platform: Party) -> None:
        reads = contract.reads()
        assert len(reads) >= 6
        for path, _ in reads:
            is_operator = path.startswith("/ops/v1")
            call = service.ops("GET", path.removeprefix("/ops/v1")) if is_operator else service.get(platform, path)
            reply = await call
            assert reply.status_code == 200, f"{path}: {reply.text}"
            contract.holds(reply, path)

    async def test_the_sandbox_answers_alike(self, service: Service, contract: Contract, platform: Party) -> None:
        for path in ("/v2/account", "/v2/webhooks"):
            reply = await service.get(platform.test_secret_key, f"/sandbox{path}")
            assert reply.status_code == 200
            contract.holds(reply, path)

    async def test_what_a_read_refuses(self, service: Service, contract: Contract, platform: Party) -> None:
        for headers, status in (
            ({}, 401),
            ({"Authorization": "Basic x"}, 401),
            ({"Authorization": "Bearer sk_live_unknown"}, 401),
            ({"Authorization": f"Bearer {platform.secret_key}", "Service-Account": "nonsense"}, 422),
            ({"Authorization": f"Bearer {platform.secret_key}", "Service-Account": "9999999"}, 404),
            ({"Authorization": f"Bearer {platform.secret_key}", "X-Service-Client-Key": "ck_live_other"}, 401),
        ):
            reply = await service.client.get("/v2/webhooks", headers=headers)
            assert reply.status_code == status
            contract.holds(reply, "/v2/webhooks")
        reply = await service.get(platform, "/webhooks?sort=colour")
        assert contract.holds(reply, "/v2/webhooks")["error"]["code"] == "validation_error"


class TestWrites:
    async def test_the_life_of_a_webhook(self, service: Service, contract: Contract, platform: Party) -> None:
        new = {"url": "https://shop.example/hooks", "events": ["transaction.succeeded"]}
        reply = await service.send(platform, "POST", "/webhooks", new, key="webhook-1")
        webhook = contract.holds(reply, "/v2/webhooks")["data"]["webhook"]
        again = await service.send(platform, "POST", "/webhooks", new, key="webhook-1")
        assert again.headers["Idempotency-Replayed"] == "true"
        contract.holds(again, "/v2/webhooks")
        one = f"/webhooks/{webhook['id']}"
        contract.holds(await service.get(platform, one), "/v2/webhooks/{id}")
        paused = await service.send(platform, "PATCH", one, {"status": "paused"})
        assert contract.holds(paused, "/v2/webhooks/{id}")["data"]["webhook"]["status"] == "paused"
        rotated = await service.send(platform, "POST", f"{one}/rotate-secret", {})
        contract.holds(rotated, "/v2/webhooks/{id}/rotate-secret")
        contract.holds(await service.send(platform, "DELETE", one), "/v2/webhooks/{id}")
        gone = await service.get(platform, one)
        assert contract.holds(gone, "/v2/webhooks/{id}")["error"]["code"] == "not_found"

    async def test_what_a_write_refuses(self, service: Service, contract: Contract, platform: Party) -> None:
        good = {"url": "https://shop.example/hooks", "events": ["*"]}
        used = await service.send(platform, "POST", "/webhooks", good, key="used")
        assert used.status_code == 201
        for body, headers, code in (
            ({"url": 7, "events": []}, {}, "validation_error"),
            (good, {"X_Service_Signature": "0" * 64}, "invalid_signature"),
            (good, {"Idempotency_Key": "two words"}, "invalid_idempotency_key"),
            (good, {"Idempotency_Key": ""}, "missing_idempotency_key"),
            (good, {"Content_Type": "text/plain"}, "unsupported_media_type"),
            (b"{", {}, "bad_request"),
            ({**good, "description": "another"}, {"Idempotency_Key": "used"}, "idempotency_conflict"),
            ({**good, "description": "x" * 1_100_000}, {}, "payload_too_large"),
        ):
            reply = await service.send(platform, "POST", "/webhooks", body, **headers)
            assert contract.holds(reply, "/v2/webhooks")["error"]["code"] == code

    async def test_the_operator(self, service: Service, contract: Contract) -> None:
        new = {"kind": "merchant", "name": "A merchant", "email": "ada@example.com"}
        opened = contract.holds(await service.ops("POST", "/accounts", new), "/ops/v1/accounts")["data"]
        unknown = await service.ops("POST", "/accounts", {**new, "colour": "red"})
        assert contract.holds(unknown, "/ops/v1/accounts")["error"]["code"] == "validation_error"
        one = f"/accounts/{opened['merchant_id']}"
        contract.holds(await service.ops("GET", one), "/ops/v1/accounts/{merchant}")
        contract.holds(await service.ops("PATCH", one, {"status": "review"}), "/ops/v1/accounts/{merchant}")
        contract.holds(await service.ops("GET", "/accounts/999999"), "/ops/v1/accounts/{merchant}")
        contract.holds(await service.ops("POST", f"{one}/keys", {"kind": "secret"}), "/ops/v1/accounts/{merchant}/keys")
        contract.holds(await service.ops("POST", "/clock/advance", {"seconds": 60}), "/ops/v1/clock/advance")
        contract.holds(await service.ops("POST", "/jobs/run", {}), "/ops/v1/jobs/run")
