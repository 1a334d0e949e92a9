"""A route is declared once, as data; the pipeline, the OpenAPI document and the tests all read the declaration.

There are four kinds of handler. `Read` changes nothing. `Local` is one transaction. `Processor` is intent, call,
outcome, with no transaction open during the call. `Batched` shares its transaction with requests that wait with it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import msgspec
from pydantic import BaseModel

from bursar.core.errors import ApiError
from bursar.db.pool import Connection, Database
from bursar.db.rows import Rows
from bursar.http.caller import Gate
from bursar.http.context import Ctx
from bursar.http.envelope import Answer
from bursar.http.families import LEGACY, Family
from bursar.http.idempotency import DAY
from bursar.settings import Settings


@dataclass(frozen=True, slots=True)
class Read:
    """`handle(ctx, query)`; `ctx.db` runs single statements.

    Whoever asks the same at the same moment may get the same reply: it may not depend on a request's id or address.
    """

    handle: Callable[[Ctx, Any], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Local:
    """`handle(ctx, body)` in one transaction with the key, the events and the stored reply."""

    handle: Callable[[Ctx, Any], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Outside:
    """What a call to the outside may use; no transaction is open meanwhile."""

    db: Database
    settings: Settings
    wake: Callable[[], None]
    may_wait: bool = True  # not in the worker, which would wait for itself


class Unknown(Exception):
    """A processor's answer did not arrive: it may or may not have acted."""


@dataclass(frozen=True, slots=True)
class Processor:
    """`begin` writes the intent and holds the money; `call` talks to the processor; `finish` writes the outcome.

    The intent is JSON. `call` must carry a key derived from it, so that calling again is safe, and raises `Unknown`
    when no answer came; then `pending` makes the reply, and the worker calls again and finishes later.
    """

    kind: str
    begin: Callable[[Ctx, Any], Awaitable[Mapping[str, Any]]]
    call: Callable[[Outside, Mapping[str, Any]], Awaitable[Any]]
    finish: Callable[[Ctx, Mapping[str, Any], Any], Awaitable[Any]]
    pending: Callable[[Ctx, Mapping[str, Any]], Awaitable[Any]]
    dry_run: Callable[[Mapping[str, Any]], Awaitable[Any]]  # the sandbox's call
    timeout_s: float = 20.0


class Prepared(msgspec.Struct, frozen=True):
    """One row of a batch: what to write, and what to answer when it was written."""

    row: Any
    answer: Any
    values: Mapping[str, Any] | None = None  # its columns, where the route declares them


@dataclass(frozen=True, slots=True)
class Batched:
    """`prepare(ctx, body)` decides without the database, for `ctx.id` and `ctx.now`; `apply` writes all rows at once.

    `apply` returns, per row, None (written, answer as prepared), another answer, or the declared error it met. Where
    `rows` declares a single table, a batch without any conflict is written in one statement, and `apply` is not asked.
    """

    sequence: str
    prepare: Callable[[Ctx, Any], Prepared]
    apply: Callable[[Connection, Sequence[Any]], Awaitable[Sequence[Answer | ApiError | None]]]
    rows: Rows | None = None


Handler = Read | Local | Processor | Batched


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    method: str
    path: str  # below the family's prefix, e.g. /transactions/{id}
    name: str  # operation id, unique
    summary: str
    tag: str
    handler: Handler
    family: Family = LEGACY
    scope: str | None = None  # area:read or area:write for restricted keys; None: full keys only
    body: type[BaseModel] | None = None
    query: type[BaseModel] | None = None
    uploads: bool = False
    reply: Any = None  # the type of what the handler returns, for the OpenAPI document
    wrap: str | None = None  # the name under which the object stands in `data`
    is_list: bool = False
    status: int = 200
    also: tuple[int, ...] = ()  # other statuses that a success may have
    gate: Gate = Gate.OPEN
    platform_only: bool = False
    keep: timedelta = DAY  # how long its idempotency keys are kept
    shows_secret: bool = False  # its reply is stored sealed
    takes_cards: bool = False  # the simulator's routes alone
    test_only: bool = False
    successor: str | None = None  # a legacy alias: the path to use instead
    errors: tuple[type[ApiError], ...] = ()
    writes: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "writes", not isinstance(self.handler, Read))
        if isinstance(self.handler, Batched):
            fits = self.family.key_required and not self.family.errors_consume and not self.shows_secret
            assert fits, f"{self.name} cannot be batched"
        if isinstance(self.handler, Processor):
            assert not self.shows_secret, f"{self.name}: a worker that finishes it could not seal its reply"
        if self.body is not None:
            expected = "forbid" if self.family.unknown_fields == "refuse" else "ignore"
            assert self.body.model_config.get("extra") == expected, f"{self.name}: the body's unknown-field rule"
