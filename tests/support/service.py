"""A running instance for tests: the real application over real HTTP on loopback, with a worker beside it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import socket
import string
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
from pydantic import SecretStr

from bursar.app import ROUTES, SWEEPS, create_app, http_server
from bursar.core.crypto import new_sealing_pair
from bursar.db.embedded import Urls
from bursar.db.pool import Database
from bursar.db.sweep import Sweep
from bursar.http.instance import Instance
from bursar.http.recovery import recovery_sweep
from bursar.http.routes import Route
from bursar.settings import Settings
from bursar.worker.loop import Worker
from tests.support import signing

OPERATOR_KEY = "operator-key-of-the-tests"


def new_key() -> str:
    """Letters alone: a run of random digits would now and then be taken for a card number."""
    return "test-" + "".join(secrets.choice(string.ascii_lowercase) for _ in range(16))


@dataclass
class Party:
    """An account with its keys, as the operator API handed them out."""

    account_id: str
    merchant_id: int
    kind: str
    secret_key: str
    test_secret_key: str
    public_key: str
    client_key: str


@dataclass
class Service:
    """What tests talk to."""

    base_url: str
    settings: Settings
    instance: Instance
    client: httpx.AsyncClient
    urls: Urls
    worker: Worker = field(repr=False)

    @property
    def db(self) -> Database:
        return self.instance.db

    async def ops(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        sent = {"Authorization": f"Bearer {OPERATOR_KEY}", **headers}
        content = None if body is None else json.dumps(body).encode()
        if content is not None:
            sent.setdefault("Content-Type", "application/json")
        return await self.client.request(method, f"/ops/v1{path}", content=content, headers=sent)

    async def open_account(self, kind: str = "merchant", **fields: Any) -> Party:
        body = {"kind": kind, "name": f"A {kind}", "email": f"{secrets.token_hex(6)}@example.com", **fields}
        reply = await self.ops("POST", "/accounts", body)
        assert reply.status_code == 201, reply.text
        return Party(**reply.json()["data"])

    async def get(self, party: Party | str, path: str, **headers: str) -> httpx.Response:
        """A read of /v2 (or of the whole path, when it starts with /sandbox)."""
        secret = party if isinstance(party, str) else party.secret_key
        sent = {"Authorization": f"Bearer {secret}", **_dashed(headers)}
        return await self.client.get(_full(path), headers=sent)

    async def send(
        self, party: Party | str, method: str, path: str, body: Any = None, *, key: str | None = None, **headers: str
    ) -> httpx.Response:
        """A write with the legacy signature. `body` is sent as JSON unless it is bytes."""
        secret = party if isinstance(party, str) else party.secret_key
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        sent = {
            "Authorization": f"Bearer {secret}",
            "Content-Type": "application/json",
            "Idempotency-Key": key or new_key(),
            **signing.legacy(secret, raw),
            **_dashed(headers),
        }
        return await self.client.request(method, _full(path), content=raw, headers=sent)


def _full(path: str) -> str:
    return path if path.startswith(("/sandbox", "/v2", "/ops")) else f"/v2{path}"


def _dashed(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


def test_settings(urls: Urls, **more: Any) -> Settings:
    private, public = new_sealing_pair()
    values: dict[str, Any] = {
        "env": "test",
        "database_url": SecretStr(urls.service),
        "operator_key": SecretStr(OPERATOR_KEY),
        "key_pepper": secrets.token_bytes(32),
        "seal_public_key": public,
        "seal_private_key": private,
        "access_log": False,
        **more,
    }
    return Settings(**values)


test_settings.__test__ = False  # type: ignore[attr-defined]  # a helper, not a test


@asynccontextmanager
async def running_service(
    urls: Urls,
    *,
    routes: Sequence[Route] = (),
    sweeps: Sequence[Sweep] = (),
    worker: bool = True,
    like: Service | None = None,
    **settings: Any,
) -> AsyncIterator[Service]:
    """The application on a free port of loopback, and a worker, both in this process.

    `like` makes it another process of a service that runs already: the same database, the same keys.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    base_url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    settings = settings if like else {"base_url": base_url, **settings}
    chosen = like.settings.model_copy(update=settings) if like else test_settings(urls, **settings)
    instance = await Instance.open(chosen)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # or each reply waits 40 ms for an acknowledgement
    server = http_server(create_app(instance, routes))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    worker_db = await Database.open(urls.service, size=4, name="test worker")
    # The tests' own operations are finished by the worker, too.
    recovery = recovery_sweep((*ROUTES, *routes))
    own = [recovery if sweep.name == recovery.name else sweep for sweep in SWEEPS]
    due = Worker(chosen, worker_db, (*own, *sweeps))
    working = asyncio.create_task(due.run()) if worker else None
    try:
        while not server.started:  # noqa: ASYNC110 - uvicorn offers nothing to wait for
            await asyncio.sleep(0.005)
        async with httpx.AsyncClient(base_url=base_url, timeout=30) as client:
            yield Service(base_url, chosen, instance, client, urls, due)
    finally:
        if working is not None:
            working.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await working
        server.should_exit = True
        await serving
        listener.close()
        await worker_db.close()
        await instance.close()
