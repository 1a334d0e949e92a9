"""Secrets at rest: a dump of every table with the API's own configuration holds none that works. Nor do the logs."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from io import StringIO
from typing import Any

import pytest
import pytest_asyncio
from pydantic import SecretStr

from bursar.core.crypto import CannotOpen, Opener, Vault, new_sealing_pair, open_for_reader
from bursar.db.embedded import Urls
from bursar.features.api_keys.service import seal_context as key_context
from bursar.features.webhooks.service import seal_context as webhook_context
from tests.http.sending import code, everything, write
from tests.support.routes import declared_routes
from tests.support.service import OPERATOR_KEY, Party, Service, new_key, running_service

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bursar(module_urls: Urls) -> AsyncIterator[Service]:
    """An API process with what API processes are given: no opener of seals, and of the operator's key only a hash."""
    async with (
        running_service(module_urls, routes=declared_routes()) as whole,
        running_service(
            module_urls, like=whole, routes=declared_routes(), worker=False, seal_private_key=b"",
            operator_key=SecretStr(""), operator_key_hash=_hash(whole),
        ) as api,
    ):  # fmt: skip
        api.worker = whole.worker
        yield api


def _hash(whole: Service) -> str:
    vault: Vault = whole.instance.vault
    return vault.lookup(OPERATOR_KEY)


class Shown:
    """Every secret that a reply has shown."""

    def __init__(self) -> None:
        self.secrets: list[str] = [OPERATOR_KEY]

    def collect(self, tree: Any) -> Any:
        for name, value in tree.items():
            if isinstance(value, dict):
                self.collect(value)
            elif name in ("secret_key", "test_secret_key", "key", "secret"):
                self.secrets.append(value)
        return tree


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shown(bursar: Service) -> Shown:
    """Accounts, keys and webhooks, made and rotated in every way there is, all under idempotency keys."""
    shown = Shown()

    async def ops(path: str, body: dict[str, Any]) -> Any:
        reply = await bursar.ops("POST", path, body, **{"Idempotency-Key": new_key()})
        assert reply.status_code == 201, reply.text
        return shown.collect(reply.json()["data"])

    async def send(party: Party, path: str, body: dict[str, Any]) -> Any:
        reply = await bursar.send(party, "POST", path, body)
        assert reply.is_success, reply.text
        return shown.collect(reply.json()["data"])

    account = {"name": "A name", "email": "someone@example.com"}
    platform = Party(**await ops("/accounts", {**account, "kind": "platform", "partner_enabled": True}))
    shop = Party(**await ops("/accounts", {**account, "kind": "merchant", "platform": platform.account_id}))
    await ops(f"/accounts/{platform.merchant_id}/partners", {"name": "Partner", "email": "partner@example.com"})
    for kind, scopes in (("secret", []), ("test", []), ("restricted", ["payments:write"])):
        await ops(f"/accounts/{shop.merchant_id}/keys", {"kind": kind, "scopes": scopes})
    hook = {"url": "https://example.com/hook", "events": ["*"]}
    await ops(f"/accounts/{shop.merchant_id}/webhooks", hook)
    number = (await send(shop, "/webhooks", hook))["webhook"]["id"]
    await send(shop, f"/webhooks/{number}/rotate-secret", {"grace_seconds": 60})
    keys = (await bursar.get(shop, "/api-keys?sort=id")).json()["data"]
    await send(shop, f"/api-keys/{keys[0]['id']}/rotate", {"grace_seconds": 3600})
    await write(bursar, "legacy", shop, "/secrets")
    assert len(shown.secrets) > 12
    return shown


def _traces(secret: str) -> list[str]:
    """How a secret would look raw, in hex, and in base64 wherever it starts."""
    raw = secret.encode()
    shifted = [base64.b64encode(b"\0" * pad + raw).decode()[4 if pad else 0 : -4] for pad in range(3)]
    return [secret, raw.hex(), *shifted, *(text.replace("+", "-").replace("/", "_") for text in shifted)]


class TestADumpOfEveryTable:
    async def test_holds_no_secret(self, bursar: Service, shown: Shown) -> None:
        dump = "\n".join(line for lines in (await everything(bursar)).values() for line in lines)
        configuration = str(bursar.settings.model_dump()) + repr(bursar.settings)
        for secret in shown.secrets:
            for trace in _traces(secret):
                assert trace not in dump
                assert trace not in configuration

    async def test_what_is_stored_by_hash_cannot_be_presented(self, bursar: Service, shown: Shown) -> None:
        rows = await bursar.db.fetch("SELECT value FROM directory WHERE kind = 'api_key'")
        assert len(rows) >= 10
        for row in rows[:5]:
            reply = await bursar.get(row["value"], "/account")
            assert (reply.status_code, code(reply)) == (401, "invalid_credentials")


class TestSealedCopies:
    async def test_of_keys_open_with_the_worker_s_key_and_their_own_context(
        self, bursar: Service, shown: Shown
    ) -> None:
        worker = Opener(bursar.worker._desk.settings.seal_private_key)
        stranger = Opener(new_sealing_pair()[0])
        rows = await bursar.db.fetch("SELECT account_id, id, sealed FROM api_key WHERE account_id > 1000")
        opened = {worker.open(key_context(row["account_id"], row["id"]), row["sealed"]) for row in rows}
        assert opened <= set(shown.secrets)
        assert len(opened) == len(rows)
        one, other = rows[0], rows[1]
        for opener, context in (
            (stranger, key_context(one["account_id"], one["id"])),
            (worker, key_context(other["account_id"], other["id"])),
            (worker, key_context(one["account_id"], one["id"] + 1)),
            (worker, webhook_context(one["account_id"], one["id"])),
        ):
            with pytest.raises(CannotOpen):
                opener.open(context, one["sealed"])

    async def test_of_webhook_secrets(self, bursar: Service, shown: Shown) -> None:
        worker = Opener(bursar.worker._desk.settings.seal_private_key)
        rows = await bursar.db.fetch(
            "SELECT account_id, id, secret_sealed, previous_sealed FROM webhook"
            " WHERE account_id > 1000 AND secret_hint <> ''"
        )
        sealed = [(row, row[name]) for row in rows for name in ("secret_sealed", "previous_sealed") if row[name]]
        assert len(sealed) == 3
        for row, box in sealed:
            assert worker.open(webhook_context(row["account_id"], row["id"]), box) in shown.secrets

    async def test_of_replies_open_for_whoever_presents_the_key_again(self, bursar: Service, shown: Shown) -> None:
        rows = await bursar.db.fetch("SELECT account_id, fingerprint, body FROM idempotency_key WHERE sealed")
        assert len(rows) >= 9
        for row in rows:
            opened = [secret for secret in shown.secrets if _opens(secret, row["body"], row["fingerprint"])]
            assert len(opened) == 1
            assert (opened[0] == OPERATOR_KEY) is (row["account_id"] == 0)
        for wrong in (bursar.settings.key_pepper.hex(), bursar.settings.operator_key_hash):
            assert not any(_opens(wrong, row["body"], row["fingerprint"]) for row in rows)


def _opens(secret: str, body: bytes, fingerprint: bytes) -> bool:
    try:
        return b'"success":true' in open_for_reader(secret, body, fingerprint)
    except CannotOpen:
        return False


class TestTheLogs:
    async def test_hold_no_secret(self, bursar: Service, shown: Shown, log_lines: StringIO) -> None:
        for secret in shown.secrets:
            await bursar.get(secret, "/testing/legacy/crash")
            await bursar.get(f"{secret}x", "/account")
        written = log_lines.getvalue()
        assert "request.failed" in written
        for secret in shown.secrets:
            assert not any(trace in written for trace in _traces(secret))

    async def test_the_access_log_names_route_and_account_alone(
        self, bursar: Service, merchant: Party, capsys: pytest.CaptureFixture[str]
    ) -> None:
        async with running_service(
            bursar.urls, like=bursar, routes=declared_routes(), worker=False, access_log=True
        ) as talkative:
            await talkative.get(merchant, "/testing/legacy/notes?text=very-private")
            await write(talkative, "legacy", merchant, body={"text": "also-private"})
        line = next(line for line in capsys.readouterr().err.splitlines() if '"event":"request"' in line)
        assert merchant.account_id in line
        assert '"route":"/testing/legacy/notes"' in line
        for private in ("very-private", "also-private", merchant.secret_key):
            assert private not in line


class TestSettingsAsTheyPrint:
    async def test_show_no_secret(self, bursar: Service) -> None:
        worker = bursar.worker._desk.settings
        for text in (repr(worker), str(worker)):
            assert OPERATOR_KEY not in text
            assert worker.key_pepper.hex() not in text
            assert repr(worker.key_pepper) not in text
            assert repr(worker.seal_private_key) not in text
            assert worker.database_url.get_secret_value() not in text
