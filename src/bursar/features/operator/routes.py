"""/ops/v1/clock, /ops/v1/jobs/run and /ops/v1/audit/log."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from bursar.db import listing, tallies
from bursar.db.clock import clock_offset, instance_now
from bursar.db.listing import Listing
from bursar.features.operator import commands
from bursar.features.operator.errors import WorkFailed
from bursar.features.operator.schemas import (
    FARTHEST_S,
    Advance,
    Advanced,
    AuditEntry,
    AuditQuery,
    Clock,
    Nothing,
    Ran,
)
from bursar.http.context import Audit, Ctx
from bursar.http.envelope import Answer, Page
from bursar.http.families import OPERATOR
from bursar.http.idempotency import DAY
from bursar.http.routes import Outside, Processor, Read, Route

WAIT_S = 300.0

AUDIT = Listing(
    select="SELECT * FROM operator_audit",
    scope="true",
    sorts={"id": "id"},
    filters={"merchant": "account_id = {}", "action": "action = {}"},
    total=tallies.AUDIT_TRAIL.total("0"),
)


async def show_clock(ctx: Ctx, _: None) -> Clock:
    return Clock(await instance_now(ctx.db), (await clock_offset(ctx.db)).total_seconds())


async def _begin_advance(ctx: Ctx, body: Advance) -> Mapping[str, Any]:
    command_id = await commands.order(ctx.db, "advance_clock", {"seconds": body.seconds})
    return {"command_id": command_id, "seconds": body.seconds}


async def _begin_run(ctx: Ctx, _: Nothing | None) -> Mapping[str, Any]:
    return {"command_id": await commands.order(ctx.db, "run_jobs", {})}


async def _wait(outside: Outside, intent: Mapping[str, Any]) -> Any:
    outside.wake()
    return await commands.outcome(outside.db, intent["command_id"], WAIT_S if outside.may_wait else 0)


async def _advanced(ctx: Ctx, intent: Mapping[str, Any], outcome: Any) -> Advanced | WorkFailed:
    if isinstance(outcome, WorkFailed):
        return outcome
    ctx.audit = Audit(after={"seconds": intent["seconds"], "now": outcome["now"]})
    ran = [Ran(entry["job"], entry["rows"], datetime.fromisoformat(entry["at"])) for entry in outcome["ran"]]
    return Advanced(datetime.fromisoformat(outcome["now"]), ran)


async def _ran(ctx: Ctx, intent: Mapping[str, Any], outcome: Any) -> dict[str, int] | WorkFailed:
    if isinstance(outcome, WorkFailed):
        return outcome
    ctx.audit = Audit(after=outcome["counts"])
    return dict(outcome["counts"])


async def _still_running(ctx: Ctx, intent: Mapping[str, Any]) -> Answer:
    return Answer({"now": ctx.now, "ran": [], "state": "running"}, status=202)


async def _nothing_runs(intent: Mapping[str, Any]) -> Any:
    raise AssertionError("the operator API has no sandbox")


async def audit_log(ctx: Ctx, query: AuditQuery) -> Page:
    rows, total = await listing.page(
        ctx.db, AUDIT, (), number=query.page, size=query.per_page, sort="-id",
        filters={"merchant": query.merchant, "action": query.action},
    )  # fmt: skip
    entries = [AuditEntry(**{name: row[name] for name in AuditEntry.__struct_fields__}) for row in rows]
    return Page(entries, query.page, query.per_page, total)


ROUTES = (
    Route(
        method="GET",
        path="/clock",
        name="operator_show_clock",
        summary="The instance's time.",
        tag="Operator: test instance",
        family=OPERATOR,
        reply=Clock,
        test_only=True,
        handler=Read(show_clock),
    ),
    Route(
        method="POST",
        path="/clock/advance",
        name="operator_advance_clock",
        summary="Move the instance's clock and run, in order, everything that falls due on the way.",
        tag="Operator: test instance",
        family=OPERATOR,
        body=Advance,
        reply=Advanced,
        also=(202,),
        test_only=True,
        keep=timedelta(seconds=FARTHEST_S) + DAY,  # it must not outrun its own key
        errors=(WorkFailed,),
        handler=Processor(
            "advance_clock", _begin_advance, _wait, _advanced, _still_running, _nothing_runs, WAIT_S + 10
        ),
    ),
    Route(
        method="POST",
        path="/jobs/run",
        name="operator_run_jobs",
        summary="Run everything that is due now, until nothing is; counts per job.",
        tag="Operator: test instance",
        family=OPERATOR,
        body=Nothing,
        reply=dict[str, int],
        also=(202,),
        test_only=True,
        errors=(WorkFailed,),
        handler=Processor("run_jobs", _begin_run, _wait, _ran, _still_running, _nothing_runs, WAIT_S + 10),
    ),
    Route(
        method="GET",
        path="/audit/log",
        name="operator_audit_log",
        summary="What operators did, newest first.",
        tag="Operator",
        family=OPERATOR,
        query=AuditQuery,
        reply=AuditEntry,
        is_list=True,
        handler=Read(audit_log),
    ),
)
