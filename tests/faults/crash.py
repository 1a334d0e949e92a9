"""Every crash point × every money operation: killed there, started again, repeated under the same key, judged.

Each operation is first played once without a crash; the points that its processes pass are the pairs to try. A point
that an operation does not pass is counted as not reached.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bursar.db.roles import with_database
from tests.faults.instance import ROLES
from tests.faults.invariants import Memory, judge
from tests.faults.operations import OPERATIONS, Facts, Operation
from tests.faults.report import Report
from tests.faults.shop import Account, NeverAnswered
from tests.faults.world import NotQuiet, World, world

# The idle worker passes these in its polls, so they say nothing about an operation; they die in the random kills.
POLLED = {"transaction.before_commit", "transaction.after_commit"}
AHEAD_S = 120


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

    async def passed(self, operation: Operation) -> list[Pair]:
        """One healthy round of an operation: the points it passes, in each process."""
        facts = await operation.prepare(self.world, self.who)
        await self.world.quiet()
        for role in ROLES:
            self._passings(role).unlink(missing_ok=True)
        try:
            await self._play(operation, facts)
        except (AssertionError, NotQuiet, NeverAnswered, TimeoutError) as error:
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
        facts = await pair.operation.prepare(self.world, self.who)
        await self.world.quiet()
        order = instance.arm_file(pair.role)
        dying = instance.processes[pair.role].gone
        order.write_text(pair.point)
        playing = asyncio.create_task(self._play(pair.operation, facts))
        try:
            either: list[asyncio.Future[Any]] = [dying, playing]
            await asyncio.wait(either, timeout=90, return_when=asyncio.FIRST_COMPLETED)
            died = dying.done()
            order.write_text("")
            if died:
                instance.kills[pair.role] += 1
                await instance.revive(pair.role)
            await playing
        except (AssertionError, NotQuiet, NeverAnswered, TimeoutError) as error:
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
            self.report.broke(f"{about}: {broken}")


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
    async with world(seed, group_commit=str(group_commit).lower()) as made:
        platform = await made.open_account("platform")
        who = await made.open_account(platform=platform.account_id)
        await made.endpoint(who)
        await made.endpoint(platform)
        await made.shop.ops(
            "POST", f"/accounts/{who.merchant_id}/wallet-adjustments",
            {"currency": "GBP", "amount": 1000, "note": "Start"}, key=made.shop.new_key("start"),
        )  # fmt: skip
        stage = Stage(made, who, report)
        pairs: list[Pair] = []
        wanted = {name.partition(" × ")[0] for name in named}
        operations = [one for one in OPERATIONS if only in one.name and (not wanted or one.name in wanted)]
        for operation in operations:
            pairs += await stage.passed(operation)
        await stage.judge("without a crash")
        points = {(pair.role, pair.point) for pair in pairs}
        report.count("points", len(points))
        report.count("operations", len(operations))
        report.count("pairs", len(pairs))
        report.count("not passed", len(points) * len(operations) - len(pairs))
        chosen = dice.sample(pairs, max(1, round(len(pairs) * share)))
        if named:
            chosen = [pair for pair in pairs if str(pair).startswith(tuple(named))]
        until = time.monotonic() + seconds
        for pair in chosen * times:
            if time.monotonic() > until:
                report.count("out of time")
            elif await stage.try_pair(pair):
                report.count("crashes")
            else:
                report.count("not reached")
                report.notes.append(f"not reached: {pair}")
    return report
