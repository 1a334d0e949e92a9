"""One request on its way through the pipeline: what was sent, and what is known of it so far."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from bursar.core.errors import UnknownFields, ValidationFailed
from bursar.db.pool import Connection, Database, Record
from bursar.http import body as bodies
from bursar.http.body import Parts
from bursar.http.caller import admit
from bursar.http.context import Account, Caller, Ctx
from bursar.http.idempotency import Claim, Held, Stored, answer_held, answer_own
from bursar.http.instance import Instance
from bursar.http.routes import Route


class Exchange(msgspec.Struct):
    instance: Instance
    route: Route
    request_id: str
    method: str
    target_path: str  # exactly as sent, without the query
    path: Mapping[str, str]
    sandbox: bool
    started: float = msgspec.field(default_factory=time.perf_counter)
    address: str = ""
    raw: bytes = b""
    values: Mapping[str, Any] = {}
    query: Mapping[str, str] = {}
    parts: Parts | None = None
    key: str = ""
    claim: Claim | None = None
    caller: Caller | None = None
    account: Account | None = None
    headers: dict[str, str] = {}
    drawing: asyncio.Task[Record] | None = None  # what its batch will need, asked for ahead
    tried: set[datetime] = set()  # when it claimed its key: a row of that moment is its own

    def ctx(self, db: Connection | Database, now: datetime | None = None) -> Ctx:
        assert self.account is not None
        return Ctx(
            account=self.account,
            caller=self.caller,
            db=db,
            dated=now,
            request_id=self.request_id,
            vault=self.instance.vault,
            settings=self.instance.settings,
            path=self.path,
            idempotency_key=self.key or None,
            address=self.address,
            sandbox=self.sandbox,
            livemode=not self.instance.settings.is_test,
        )

    @property
    def secret(self) -> str:
        """The key that was presented."""
        assert self.caller is not None
        return self.caller.secret

    def answer(self, held: Held, now: datetime) -> Stored:
        """What a key that is taken means for this request: perhaps its own commit, of which it never heard."""
        assert self.claim is not None
        if held.since in self.tried:
            return answer_own(held, self.claim, self.secret)
        return answer_held(held, self.claim, now, self.secret)

    def admitted_body(self) -> Any:
        """The validated body, once the account's state allows this kind of write."""
        assert self.account is not None
        admit(self.account, self.route.gate)
        return self.validated_body()

    def validated_body(self) -> Any:
        if self.route.body is None:
            return None
        values = {**self.values, **self.parts.files} if self.parts else self.values
        return bodies.validate(self.route.body, values, refuses_unknown=self.refuses_unknown)

    def validated_query(self) -> Any:
        if self.route.query is None:
            if self.query and self.route.family.unknown_fields == "refuse":
                error = UnknownFields if self.refuses_unknown else ValidationFailed
                raise error(details={name: ["is not accepted here"] for name in self.query})
            return None
        return bodies.validate(self.route.query, self.query, refuses_unknown=self.refuses_unknown)

    @property
    def refuses_unknown(self) -> bool:
        """The bound families have a code of their own for unknown fields; the operator API says validation_error."""
        return self.route.family.unknown_fields == "refuse" and self.route.family.message is not None
