"""Routes that only tests declare, to hold the conventions to their word: each family with every kind of write.

What a write does is a row in `webhook` (its `description` is the note's text) and an event, so effects can be counted.
`Till` plays the processor: it remembers every call by its key, and answers as the test wishes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import asyncpg
import msgspec
from pydantic import ConfigDict, Field

from bursar.core.errors import ApiError, DuplicateResource, InsufficientBalance, NotFound, RefundFailed
from bursar.db.pool import Connection, Database
from bursar.http.body import Upload
from bursar.http.caller import Gate
from bursar.http.context import Ctx
from bursar.http.envelope import Answer
from bursar.http.families import FAMILIES, LEGACY, Family
from bursar.http.idempotency import MONTH
from bursar.http.routes import Batched, Local, Outside, Prepared, Processor, Read, Route, Unknown
from bursar.http.schemas import Body, Form, Query, StrictBody, StrictQuery
from tests.support.doors import pass_door

SHOWN_SECRET = "whsec_shownonceandneveragain"


# Notes: local writes ------------------------------------------------------------------------------------------------


class Shelf(msgspec.Struct):
    id: int
    text: str


class Note(Body):
    text: str = Field(min_length=1, max_length=100)
    amount: int = Field(1, ge=1, le=1000)
    then: Literal["ok", "refuse", "crash", "broken_sql"] = "ok"
    slow_ms: int = 0
    door: str = ""  # where it stops until the test lets it on
    deep: Any = None


class StrictNote(StrictBody):
    text: str = Field(min_length=1, max_length=100)
    amount: int = Field(1, ge=1, le=1000)
    then: Literal["ok", "refuse", "crash", "broken_sql"] = "ok"
    slow_ms: int = 0
    door: str = ""  # where it stops until the test lets it on
    deep: Any = None


class NoteQuery(Query):
    text: str = ""


class StrictNoteQuery(StrictQuery):
    text: str = ""


async def _put(db: Any, ctx: Ctx, text: str) -> int:
    number: int = await db.fetchval(
        """
        INSERT INTO webhook
            (account_id, id, url, events, description, secret_sealed, secret_hint, created_at, updated_at)
        VALUES ($1, nextval('webhook_id'), 'https://example.com', '{*}', $2, '', '', $3, $3)
        RETURNING id
        """,
        ctx.account.account_id,
        text,
        ctx.now,
    )
    return number


async def write_note(ctx: Ctx, note: Note | StrictNote) -> Shelf:
    number = await _put(ctx.db, ctx, note.text)
    ctx.emit("webhook.test", {"note": note.text})
    if note.slow_ms:
        await asyncio.sleep(note.slow_ms / 1000)
    await pass_door(note.door)
    if note.then == "refuse":
        raise InsufficientBalance(details={"note": note.text})
    if note.then == "crash":
        raise RuntimeError(f"a defect, with a secret in its message: {SHOWN_SECRET}")
    if note.then == "broken_sql":
        await ctx.db.execute("SELECT * FROM table_that_is_not_there")
    return Shelf(number, note.text)


async def read_notes(ctx: Ctx, query: NoteQuery | StrictNoteQuery) -> dict[str, int]:
    count = await ctx.db.fetchval(
        "SELECT count(*) FROM webhook WHERE account_id = $1 AND description = $2", ctx.account.account_id, query.text
    )
    return {"count": count}


async def write_secret(ctx: Ctx, note: Note) -> dict[str, Any]:
    return {"id": await _put(ctx.db, ctx, note.text), "secret": SHOWN_SECRET}


# Charges: writes that call a processor ----------------------------------------------------------------------------


@dataclass
class Till:
    """A processor under the test's control. `answers` says, by reference, what each call of it gets, in order."""

    answers: dict[str, list[Any]] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    finished: list[str] = field(default_factory=list)

    def will(self, reference: str, *answers: Any) -> None:
        self.answers[reference] = list(answers)

    def times(self, reference: str) -> int:
        return self.calls.count(reference)

    async def call(self, _: Outside, intent: Mapping[str, Any]) -> Any:
        reference = intent["reference"]
        self.calls.append(reference)
        left = self.answers.get(reference) or ["ok"]
        answer = left.pop(0) if len(left) > 1 else left[0]
        if callable(answer):
            answer = await answer()
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def begin(self, ctx: Ctx, charge: Charge | StrictCharge) -> Mapping[str, Any]:
        if charge.refuse:
            raise InsufficientBalance
        await _put(ctx.db, ctx, f"{charge.reference} intended")
        ctx.emit("webhook.test", {"intended": charge.reference})
        return {"reference": charge.reference}

    async def finish(self, ctx: Ctx, intent: Mapping[str, Any], outcome: Any) -> Any:
        reference = intent["reference"]
        self.finished.append(reference)
        if outcome == "declined":
            await _put(ctx.db, ctx, f"{reference} declined")
            return RefundFailed(details={"reference": reference})
        number = await _put(ctx.db, ctx, f"{reference} done")
        ctx.emit("webhook.test", {"done": reference})
        return {"id": number, "status": "succeeded", "reference": reference}

    async def pending(self, _: Ctx, intent: Mapping[str, Any]) -> Any:
        return Answer({"status": "pending", "reference": intent["reference"]}, status=202)

    async def dry_run(self, _: Mapping[str, Any]) -> Any:
        return "ok"


class Charge(Body):
    reference: str = Field(min_length=1, max_length=100)
    refuse: bool = False


class StrictCharge(StrictBody):
    reference: str = Field(min_length=1, max_length=100)
    refuse: bool = False


def unanswered() -> Unknown:
    return Unknown("no answer came")


# Entries: batched writes ------------------------------------------------------------------------------------------

Fate = Literal["ok", "refused", "conflict", "other", "bad_sql", "crash", "late_crash"]


class Entry(Body):
    text: str = Field(min_length=1, max_length=100)
    fate: Fate = "ok"


class StrictEntry(StrictBody):
    text: str = Field(min_length=1, max_length=100)
    fate: Fate = "ok"


def prepare_entry(ctx: Ctx, entry: Entry | StrictEntry) -> Prepared:
    if entry.fate == "refused":
        raise InsufficientBalance
    if entry.fate == "crash":
        raise RuntimeError("a defect in preparing one row")
    ctx.emit("webhook.test", {"entry": entry.text})
    return Prepared((ctx.account.account_id, ctx.id, entry.text, entry.fate, ctx.now), Shelf(ctx.id, entry.text))


async def apply_entries(db: Connection, rows: Sequence[Any]) -> Sequence[Answer | ApiError | None]:
    if any(fate == "late_crash" for _, _, _, fate, _ in rows):
        raise RuntimeError("a defect in writing one row")
    written = [row for row in rows if row[3] not in ("conflict", "other")]
    await db.execute(
        """
        INSERT INTO webhook
            (account_id, id, url, events, description, secret_sealed, secret_hint, created_at, updated_at)
        SELECT account_id, id, url, '{*}', text, '', '', at, at
        FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::timestamptz[])
             AS e (account_id, id, url, text, at)
        """,
        [row[0] for row in written],
        [row[1] for row in written],
        [None if row[3] == "bad_sql" else "https://example.com" for row in written],
        [row[2] for row in written],
        [row[4] for row in written],
    )
    outcomes: dict[str, Answer | ApiError] = {
        "conflict": DuplicateResource(),
        "other": Answer({"reused": True}, status=200),
    }
    return [outcomes.get(row[3]) for row in rows]


# Uploads ----------------------------------------------------------------------------------------------------------


class Document(Form):
    model_config = ConfigDict(extra="ignore", arbitrary_types_allowed=True)

    title: str = Field(min_length=1, max_length=100)
    tags: list[str] | str = ""
    file: list[Upload] = Field(default_factory=list)


async def keep_document(ctx: Ctx, document: Document) -> dict[str, Any]:
    number = await _put(ctx.db, ctx, document.title)
    return {"id": number, "title": document.title, "sizes": [len(upload.content) for upload in document.file]}


# Odds and ends ----------------------------------------------------------------------------------------------------


class Pause(Query):
    seconds: float = Field(0.0, ge=0, le=5)


async def hold_connection(ctx: Ctx, query: Pause) -> dict[str, bool]:
    await ctx.db.execute("SELECT pg_sleep($1)", query.seconds)
    return {"slept": True}


class AtDoor(Query):
    door: str


async def hold_connection_at_door(ctx: Ctx, query: AtDoor) -> dict[str, bool]:
    assert isinstance(ctx.db, Database)
    async with ctx.db.acquire():
        await pass_door(query.door)
    return {"passed": True}


async def fail_read(ctx: Ctx, _: None) -> None:
    try:
        await ctx.db.fetchval("SELECT secret_column FROM table_that_is_not_there")
    except asyncpg.PostgresError as error:
        raise RuntimeError(f"{error} for {SHOWN_SECRET}") from error


async def show_number(ctx: Ctx, _: None) -> dict[str, int]:
    return {"id": ctx.path_id()}


async def missing(_: Ctx, __: None) -> None:
    raise NotFound


# The declarations -------------------------------------------------------------------------------------------------


def family_routes(family: Family, till: Till) -> list[Route]:
    """The same in each family: notes (local), charges (processor) and, where keys allow it, entries (batched).

    For each gate there is a local write, and for money that leaves one that calls a processor.
    """
    strict = family.unknown_fields == "refuse"
    base = f"/testing/{family.name}"
    common: dict[str, Any] = {"tag": "Testing", "family": family, "summary": "A route of the tests."}
    note, charge, entry = (StrictNote, StrictCharge, StrictEntry) if strict else (Note, Charge, Entry)
    scopes = {"write": "payments:write", "read": "payments:read"}

    def write(path: str, name: str, handler: Any, **more: Any) -> Route:
        fields = {"method": "POST", "scope": scopes["write"], **common, **more}
        return Route(path=base + path, name=f"testing_{family.name}_{name}", handler=handler, **fields)

    local = Local(write_note)

    def processor(kind: str) -> Processor:
        return Processor(kind, till.begin, till.call, till.finish, till.pending, till.dry_run, timeout_s=1.0)

    routes = [
        write("/notes", "write_note", local, body=note, status=201),
        write("/notes", "put_note", local, body=note, method="PUT"),
        write("/notes", "patch_note", local, body=note, method="PATCH"),
        write("/other-notes", "write_other_note", local, body=note, status=201),
        write("/kept-notes", "write_kept_note", local, body=note, status=201, keep=MONTH),
        write("/notes", "read_notes", Read(read_notes), method="GET", scope=scopes["read"],
              query=StrictNoteQuery if strict else NoteQuery),
        write("/charges", "charge", processor(f"testing_{family.name}"), body=charge, status=201),
        *(write(f"/gates/{gate.name.lower()}", f"gate_{gate.name.lower()}", local, body=note, gate=gate, status=201)
          for gate in Gate),
        write("/withdrawals", "withdraw", processor(f"testing_{family.name}_withdrawal"), body=charge,
              gate=Gate.TRANSFERS, status=201),
    ]  # fmt: skip
    if not family.errors_consume:
        batched = Batched("webhook_id", prepare_entry, apply_entries)
        routes.append(write("/entries", "enter", batched, body=entry, status=201))
    return routes


def declared_routes(till: Till | None = None) -> list[Route]:
    """Every route that the tests of the conventions use."""
    till = till or Till()
    common: dict[str, Any] = {"tag": "Testing", "family": LEGACY, "summary": "A route of the tests."}

    def legacy(method: str, path: str, name: str, handler: Any, **more: Any) -> Route:
        return Route(
            method=method, path=f"/testing/legacy{path}", name=f"testing_{name}", handler=handler, **{**common, **more}
        )

    routes = [route for family in FAMILIES.values() for route in family_routes(family, till)]
    routes += [
        legacy("DELETE", "/notes", "delete_notes", Local(_delete_notes), scope="payments:write"),
        legacy("POST", "/documents", "keep_document", Local(keep_document), body=Document, uploads=True, status=201),
        legacy("POST", "/secrets", "write_secret", Local(write_secret), body=Note, shows_secret=True, status=201),
        legacy("POST", "/full-keys", "full_keys_only", Local(write_note), body=Note, status=201),
        legacy("GET", "/platforms", "platforms_only", Read(read_notes), query=NoteQuery, platform_only=True),
        legacy("GET", "/alias", "alias", Read(read_notes), query=NoteQuery, successor="/testing/legacy/notes"),
        legacy("GET", "/slow", "slow", Read(hold_connection), query=Pause),
        legacy("GET", "/held", "held", Read(hold_connection_at_door), query=AtDoor),
        legacy("GET", "/crash", "crash", Read(fail_read)),
        legacy("GET", "/numbers/{id}", "number", Read(show_number)),
        legacy("GET", "/missing", "missing", Read(missing), errors=(NotFound,)),
    ]
    return routes


async def _delete_notes(ctx: Ctx, _: None) -> dict[str, bool]:
    await ctx.db.execute(
        "DELETE FROM webhook WHERE account_id = $1 AND description LIKE 'delete me%'", ctx.account.account_id
    )
    return {"deleted": True}
