"""A whole service as `bursar serve` runs it, for tests that kill it, starve it or read its logs."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bursar.db.embedded import EmbeddedServer, Urls
from tests.lifecycle.serving import Serving, directory, serving
from tests.support.service import Party
from tests.support.wire import Reply, Wire, get, request, signed, wire

OPERATOR_KEY = "operator-key-of-the-house"


@dataclass
class House:
    """The service, its operator, and a way to talk to it."""

    serving: Serving
    wire: Wire
    urls: Urls
    operator_key: str

    @property
    def port(self) -> int:
        port = urlsplit(self.serving.url).port
        assert port is not None
        return port

    async def ops(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        raw = b"" if body is None else json.dumps(body).encode()
        sent = {"Authorization": f"Bearer {self.operator_key}", **headers}
        if raw:
            sent["Content-Type"] = "application/json"
        return await self.wire.send(request(method, f"/ops/v1{path}", sent, raw))

    async def open_account(self, kind: str = "merchant", **fields: Any) -> Party:
        body = {"kind": kind, "name": f"A {kind}", "email": f"{secrets.token_hex(6)}@example.com", **fields}
        reply = await self.ops("POST", "/accounts", body)
        assert reply.status == 201, reply
        return Party(**reply.data)

    async def get(self, party: Party, path: str, **headers: str) -> Reply:
        return await self.wire.send(get(party.secret_key, f"/v2{path}", **headers))

    async def send(self, party: Party, method: str, path: str, body: Any, **more: Any) -> Reply:
        return await self.wire.send(signed(party.secret_key, method, f"/v2{path}", body, **more))

    async def audit(self) -> list[str]:
        """The names of what the service's own audit finds wrong."""
        reply = await self.ops("POST", "/audit/verify", {})
        assert reply.status == 200, reply
        return [check["name"] for check in reply.data["checks"] if not check["ok"]]

    def api_pids(self) -> list[int]:
        return self.serving.pids("api")

    def log(self) -> str:
        return self.serving.log.read_text(errors="replace")


def resident_mib(pid: int) -> float:
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


@asynccontextmanager
async def house(*arguments: str, **settings: str) -> AsyncIterator[House]:
    """Everything is started afresh and gone afterwards. `settings` are those of the service."""
    chosen = {"operator_key": OPERATOR_KEY, "access_log": "false", **settings}
    async with AsyncExitStack() as stack:
        place = stack.enter_context(directory())
        running = serving(place, "--no-demo", *arguments, **chosen)
        up = await asyncio.to_thread(running.__enter__)
        stack.push_async_callback(asyncio.to_thread, running.__exit__, None, None, None)
        port = urlsplit(up.url).port
        assert port is not None
        opened = await stack.enter_async_context(wire(port))
        yield House(up, opened, EmbeddedServer(place).urls(), chosen["operator_key"])
