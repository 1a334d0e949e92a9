"""Every crash point × every money operation: killed there, started again, repeated under the same key, judged.

Each operation is first played once without a crash; the points that its processes pass are the pairs to try. A point
that an operation does not pass is counted as not reached.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from bursar.db.roles import with_database
from bursar.processors.protocol import Unknown
from tests.faults.instance import ROLES, ProcessEnded
from tests.faults.invariants import Memory, judge
from tests.faults.operations import OPERATIONS, Facts, Operation
from tests.faults.report import Report
from tests.faults.shop import Account, NeverAnswered
from tests.faults.world import NotQuiet, World, world

# The idle worker passes these in its polls, so they say nothing about an operation; they die in the random kills.
POLLED = {"transaction.before_commit", "transaction.after_commit"}
AHEAD_S = 120
AFTERWARDS_S = 2.0
T = TypeVar("T")
WORLDS = 2  # side by side: most of a pair's time is waiting
TROUBLES = (AssertionError, NotQuiet, NeverAnswered, ProcessEnded, TimeoutError, Unknown)


@dataclass(frozen=True)
class Pair:
    operation: Operation
    role: str
    point: str

    def __str__(self) -> str:
        return f"{self.operation.name} × {self.role} {self.point}"


@dataclass
class Stage:
    """The world that the pairs are tried in, one after another."""

    world: World
    who: Account
    report: Report
    memory: Memory = field(default_factory=Memory)
    told: set[str] = field(default_factory=set)  # what is broken stays so; it is told of once

    async def passed(self, operation: Operation) -> list[Pair]:
        """One healthy round of an operation: the points it passes, in each process."""
        try:
            facts = await operation.prepare(self.world, self.who)
            await self.world.quiet()
            for role in ROLES:
                self._passings(role).unlink(missing_ok=True)
            await self._play(operation, facts)
        except TROUBLES as error:
            self.report.broke(f"{operation.name}, without a crash: {error}")
        found = []
        for role in ROLES:
            if self._passings(role).exists():
                names = dict.fromkeys(self._passings(role).read_text().split("\n"))
                found += [Pair(operation, role, name) for name in names if name and not _polled(role, name)]
        return found

    def _passings(self, role: str) -> Path:
        file = self.world.instance.arm_file(role)
        return file.with_name(file.name + ".passed")

    async def _ends(self, operation: Operation, facts: Facts) -> None:
        await self.world.quiet(ahead_s=AHEAD_S)
        rows = await self.world.instance.fetch(operation.ended, facts["id"])
        if [row[0] for row in rows] != [True]:
            raise AssertionError(f"{operation.name} did not come to its end: {facts}")

    async def try_pair(self, pair: Pair) -> bool:
        """Whether the process died there; the report has whatever did not hold."""
        instance = self.world.instance
        try:
            facts = await pair.operation.prepare(self.world, self.who)
            await self.world.quiet()
        except TROUBLES as error:
            self.report.broke(f"{pair}, before the crash: {error}")
            return False
        order = instance.arm_file(pair.role)
        dying = instance.processes[pair.role].gone
        order.write_text(pair.point)
        playing = asyncio.create_task(self._play(pair.operation, facts))
        try:
            either: list[asyncio.Future[Any]] = [dying, playing]
            await asyncio.wait(either, timeout=90, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait([dying], timeout=AFTERWARDS_S)  # some points come after all that a client sees
            order.write_text("")
            await asyncio.wait([dying], timeout=AFTERWARDS_S)  # it may have read its order, and not yet be dead
            died = dying.done()
            if died:
                instance.kills[pair.role] += 1
                await instance.revive(pair.role)
            await self.world.seen_through(playing)
        except TROUBLES as error:
            self.report.broke(f"{pair}: {error}")
            died = dying.done()
        finally:
            order.write_text("")
            playing.cancel()
            await asyncio.gather(playing, return_exceptions=True)
            if dying.done() and instance.processes[pair.role].gone is dying:
                await instance.revive(pair.role)
        await self.judge(str(pair))
        return died

    async def _play(self, operation: Operation, facts: Facts) -> None:
        await operation.act(self.world, self.who, facts)
        await self._ends(operation, facts)

    async def judge(self, about: str) -> None:
        url = with_database(self.world.instance.urls.admin, "bursar")
        verdict = await judge(url, self.world.witness.path, memory=self.memory)
        self.report.count("judgements")
        self.report.count("checks", verdict.checks)
        for broken in verdict.broken:
            if broken not in self.told:
                self.report.broke(f"{about}: {broken}")
                self.told.add(broken)


def _polled(role: str, name: str) -> bool:
    return role == "worker" and name in POLLED


async def run(
    seed: int,
    *,
    share: float = 1.0,
    times: int = 1,
    seconds: float = 1e9,
    group_commit: bool = True,
    only: str = "",
    named: Sequence[str] = (),
) -> Report:
    """Tries a share of all pairs, chosen by the seed, each so many times, until the time is over.

    `only` is part of the names of the operations to try; `named` are (beginnings of) names of pairs, of which all are.
    """
    report = Report(f"crash points, group commit {'on' if group_commit else 'off'}")
    dice = random.Random(seed)
    wanted = {name.partition(" × ")[0] for name in named}
    operations = [one for one in OPERATIONS if only in one.name and (not wanted or one.name in wanted)]
    async with AsyncExitStack() as stack:
        together = str(group_commit).lower()
        stages = await _together(
            _opened(stack, seed + n, together, report) for n in range(min(WORLDS, len(operations)))
        )
        pairs = await _all_passed(stages, operations)
        points = {(pair.role, pair.point) for pair in pairs}
        report.count("points", len(points))
        report.count("operations", len(operations))
        report.count("pairs", len(pairs))
        report.count("not passed", len(points) * len(operations) - len(pairs))
        chosen = dice.sample(pairs, max(1, round(len(pairs) * share)))
        if named:
            chosen = [pair for pair in pairs if str(pair).startswith(tuple(named))]
        left = deque(chosen * times)
        until = time.monotonic() + seconds
        await _together(_try_all(stage, left, until) for stage in stages)
        if left:
            report.count("out of time", len(left))
    return report


async def _together(doing: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """All at once; when one fails, the others are ended before anything is cleared away."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one) for one in doing]
    return [task.result() for task in tasks]


async def _opened(stack: AsyncExitStack, seed: int, group_commit: str, report: Report) -> Stage:
    made = await stack.enter_async_context(world(seed, group_commit=group_commit))
    platform = await made.open_account("platform")
    who = await made.open_account(platform=platform.account_id)
    await made.endpoint(who)
    await made.endpoint(platform)
    await made.shop.ops(
        "POST", f"/accounts/{who.merchant_id}/wallet-adjustments",
        {"currency": "GBP", "amount": 1000, "note": "Start"}, key=made.shop.new_key("start"),
    )  # fmt: skip
    return Stage(made, who, report)


async def _all_passed(stages: Sequence[Stage], operations: Sequence[Operation]) -> list[Pair]:
    """Each stage plays its share of the operations; the pairs come in the order of the operations."""

    async def play(stage: Stage, its: Sequence[Operation]) -> list[list[Pair]]:
        found = [await stage.passed(operation) for operation in its]
        await stage.judge("without a crash")
        return found

    count = len(stages)
    played = await _together(play(stage, operations[n::count]) for n, stage in enumerate(stages))
    return [pair for n in range(len(operations)) for pair in played[n % count][n // count]]


async def _try_all(stage: Stage, left: deque[Pair], until: float) -> None:
    """Takes the next pair, whoever is free, until the time is over."""
    while left and time.monotonic() <= until:
        pair = left.popleft()
        if await stage.try_pair(pair):
            stage.report.count("crashes")
        else:
            stage.report.count("not reached")
            stage.report.notes.append(f"not reached: {pair}")
