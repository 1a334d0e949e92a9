"""A merchant's program: it signs, sends, and repeats what it is not sure of, always under the same key.

Everything it sends and hears goes into the witness's log. Each write carries its key in a field of its own (identifier,
details, reason, note), so that its effect can be found and counted.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.faults.instance import OPERATOR_KEY
from tests.faults.witness import Witness
from tests.support import signing
from tests.support.wire import Reply, Wire, request

PATIENCE_S = 200.0  # a caller that died may have left an operation whose next look is two minutes away
LOST = (OSError, asyncio.IncompleteReadError, TimeoutError, ValueError)


class NeverAnswered(Exception):
    """A request that could not be brought to an end in all that time."""


@dataclass
class Account:
    """An account with its key, as the operator API handed it out."""

    account_id: str
    merchant_id: int
    secret_key: str
    endpoints: dict[int, str] = field(default_factory=dict)  # webhook id → its secret


@dataclass
class Shop:
    """What the clients of one instance share."""

    wire: Wire
    witness: Witness
    dice: random.Random
    counter: int = 0

    def new_key(self, what: str) -> str:
        """Letters and a number: never a run of digits that could be taken for a card's."""
        self.counter += 1
        return f"{what}-{self.counter:05d}-{''.join(self.dice.choices('abcdefghijkmnpqrstuvwxyz', k=8))}"

    # One request, until it has an end ----------------------------------------------------------------------------

    async def write(self, who: Account, method: str, path: str, body: Any, *, key: str, op: str) -> Reply:
        """A signed write, repeated under its key until the reply is final."""
        raw = json.dumps(body).encode()

        def content() -> bytes:
            headers = {
                "Authorization": f"Bearer {who.secret_key}",
                "Content-Type": "application/json",
                "Idempotency-Key": key,
                **signing.legacy(who.secret_key, raw),
            }
            return request(method, path, headers, raw)

        facts = {"who": who.merchant_id, "method": method, "path": path, "key": key, "op": op, "body": raw.decode()}
        return await self._until_final(content, facts)

    async def ops(self, method: str, path: str, body: Any = None, *, key: str = "", op: str = "ops") -> Reply:
        """The operator's own call, likewise."""
        raw = b"" if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {OPERATOR_KEY}", "Content-Type": "application/json"}
        if key:
            headers["Idempotency-Key"] = key
        full = f"/ops/v1{path}"
        facts = {"who": 0, "method": method, "path": full, "key": key, "op": op, "body": raw.decode()}
        return await self._until_final(lambda: request(method, full, headers, raw), facts)

    async def page(self, method: str, url: str, op: str) -> Reply:
        """A customer's browser on a hosted page; it presses the button again when nothing came."""
        path = "/" + url.split("/", 3)[3]
        facts = {"who": -1, "method": method, "path": path, "key": "", "op": op, "body": ""}
        return await self._until_final(lambda: request(method, path, {}), facts)

    async def read(self, who: Account, path: str, op: str = "read") -> Reply:
        facts = {"who": who.merchant_id, "method": "GET", "path": path, "key": "", "op": op, "body": ""}
        headers = {"Authorization": f"Bearer {who.secret_key}"}
        return await self._until_final(lambda: request("GET", path, headers), facts)

    async def _until_final(self, content: Callable[[], bytes], facts: dict[str, Any]) -> Reply:
        until = time.monotonic() + PATIENCE_S
        wait = 0.05
        while True:
            number = self.witness.note("request", **facts)
            try:
                reply = await self.wire.send(content())
            except LOST as error:
                self.witness.note("lost", request=number, why=type(error).__name__)
            else:
                self._heard(number, reply)
                if final(reply):
                    return reply
            if time.monotonic() > until:
                raise NeverAnswered(f"{facts['method']} {facts['path']} under {facts['key']}")
            await asyncio.sleep(wait * self.dice.uniform(0.5, 1.5))
            wait = min(wait * 1.6, 1.0)

    def _heard(self, number: int, reply: Reply) -> None:
        self.witness.note(
            "reply",
            request=number,
            status=reply.status,
            replayed=reply.headers.get("idempotency-replayed") == "true",
            type=reply.headers.get("content-type"),
            location=reply.headers.get("location"),
            body=reply.body.decode(errors="replace") if reply.headers.get("content-type") == "application/json" else "",
        )


def final(reply: Reply) -> bool:
    """Not a word about the instance, its clock or a twin in flight, but an answer to the request itself."""
    if reply.status >= 500 or reply.status in (401, 429):
        return False
    return not (reply.status == 409 and b'"duplicate_request"' in reply.body)
