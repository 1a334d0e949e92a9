"""Random kills under load: API, worker, simulator and all of PostgreSQL, while the wire to the database is cut, too."""

from __future__ import annotations

import asyncio
import random
import subprocess
import time
from dataclasses import dataclass

from bursar.db.embedded import binaries
from bursar.db.roles import with_database
from tests.faults.instance import ProcessEnded
from tests.faults.invariants import Memory, judge, sessions, surface
from tests.faults.invariants.log import Log
from tests.faults.load import Load, loaded
from tests.faults.proxy import KINDS
from tests.faults.report import Report
from tests.faults.shop import NeverAnswered
from tests.faults.trap import trap
from tests.faults.world import NotQuiet, World, world
from tests.support.wire import request

# Over the whole schedule of deliveries, and with it over expiries, settlements and looks at the processor.
SCHEDULE_S = (10, 400, 2_100, 7_500, 19_000, 37_000, 52_000, 73_000, 88_000, 90_000)
READY_WITHIN_S = {"api": 10.0, "worker": 30.0, "simulator": 10.0, "database": 15.0}


@dataclass(frozen=True)
class Plan:
    """How often what is killed; the gaps between kills follow from the time there is."""

    seconds: float
    api: int = 0
    worker: int = 0
    simulator: int = 0
    database: int = 0
    cuts: int = 0
    customers: int = 8
    shops: int = 6

    def schedule(self, dice: random.Random) -> list[tuple[float, str]]:
        """(moment, what), in order: the same for the same seed."""
        moments = []
        for what, count in (
            ("api", self.api), ("worker", self.worker), ("simulator", self.simulator), ("database", self.database),
        ):  # fmt: skip
            gap = self.seconds / (count + 1)
            moments += [(gap * (n + 1) + dice.uniform(-gap, gap) / 3, what) for n in range(count)]
        moments += [(dice.uniform(0, self.seconds), f"cut:{dice.choice(KINDS)}") for _ in range(self.cuts)]
        return sorted(moments)


async def run(seed: int, plan: Plan, *, name: str = "random kills", group_commit: bool = True) -> Report:
    report = Report(f"{name}, group commit {'on' if group_commit else 'off'}")
    dice = random.Random(seed)
    together = str(group_commit).lower()
    async with trap() as trapped, world(seed, proxied=plan.cuts > 0, group_commit=together) as made:
        async with loaded(made, seed, shops=plan.shops, customers=plan.customers) as load:
            report.count("traps", len(trapped.urls) * 2)
            report.count("traps taken for addresses", await trapped.bait(made, load.shops[0]))
            await _strike(made, [*plan.schedule(dice), (plan.seconds, "")], report)
        await _as_told(made, report)
        await settle(made, load, report, within_s=120 + plan.seconds)
        load.tell(report)
        await afterwards(made, report)
        report.expect(trapped.connections == 0, f"E4: a trap saw {trapped.connections} connections")
    return report


async def _strike(made: World, schedule: list[tuple[float, str]], report: Report) -> None:
    """Each kind of victim has its own line of deaths; one that comes too soon waits until the victim is back."""
    began = time.monotonic()
    lines: dict[str, list[float]] = {}
    for moment, what in schedule:
        lines.setdefault(what, []).append(moment)

    async def strike(what: str, moments: list[float]) -> None:
        for moment in moments:
            await asyncio.sleep(max(0.0, began + moment - time.monotonic()))
            try:
                await _fault(made, what)
            except (ProcessEnded, TimeoutError) as error:
                report.broke(f"O1: {what} did not come back: {error}")

    await asyncio.gather(*(strike(what, moments) for what, moments in lines.items()))
    if made.instance.proxy is not None:
        made.instance.proxy.relent()


async def _fault(made: World, what: str) -> None:
    if what.startswith("cut:"):
        assert made.instance.proxy is not None
        made.instance.proxy.strike(what.removeprefix("cut:"))
    elif what == "database":
        await made.instance.kill_database()
    elif what:
        await made.instance.kill(what)
        await made.instance.revive(what, over=False)


async def _as_told(made: World, report: Report) -> None:
    """Before the clock is moved: stored replies are kept for a day, and each that was told must be among them."""
    verdict = await judge(with_database(made.instance.urls.admin, "bursar"), made.witness.path, quiet=False)
    report.count("checks", verdict.checks)
    for broken in verdict.broken:
        report.broke(broken)


async def settle(made: World, load: Load, report: Report, within_s: float = 120) -> None:
    """Faults are over: receivers recover, leases of the dead run out, and everything that is due gets done."""
    load.heal_receivers()
    await made.instance.end_all_leases()
    try:
        await made.quiet(within_s)
        for seconds in SCHEDULE_S:
            await made.jump(seconds)
            await made.quiet(within_s)
    except (NotQuiet, NeverAnswered, AssertionError, TimeoutError) as error:
        report.broke(f"{type(error).__name__}: {error}")


async def judged(made: World, load: Load, report: Report) -> None:
    """Everything that is due gets done; then all is judged."""
    await settle(made, load, report)
    load.tell(report)
    await afterwards(made, report)


async def afterwards(made: World, report: Report) -> None:
    """The judge, and what shows from outside: how long recovery took, which sessions are left, what the disk says."""
    instance = made.instance
    for what, count in sorted(instance.kills.items()):
        report.count(f"kills of {what}", count)
    if instance.proxy is not None:
        for kind, count in sorted(instance.proxy.cuts.items()):
            report.count(kind, count)
    for what, times in instance.down_s.items():
        worst = max(times)
        report.expect(worst <= READY_WITHIN_S[what], f"O1: {what} needed {worst:.1f} s to come back")
    report.count("deliveries", len(made.receiver.requests))
    tries = Log.read(made.witness.path).exchanges
    report.count("requests", len(tries))
    report.count("lost", sum(one.status is None for one in tries))
    report.count("answered 5xx", sum(one.status is not None and one.status >= 500 for one in tries))
    if unbelieved := sum(one.status == 401 for one in tries):
        report.count("answered 401", unbelieved)
    url = with_database(instance.urls.admin, "bursar")
    report.notes += [f"{what} was back in {max(times):.1f} s at the worst" for what, times in instance.down_s.items()]
    for broken in await sessions.left_behind(url):
        report.broke(broken)
    verdict = await judge(url, made.witness.path, memory=Memory())
    report.count("checks", verdict.checks)
    for broken in verdict.broken:
        report.broke(broken)
    for broken in await asyncio.to_thread(surface.leaks, made.witness.path, instance.secrets, _written(made)):
        report.broke(broken)
    for broken in surface.undocumented(made.witness.path, (await _document(made)).decode()):
        report.broke(broken)
    report.count("checks", 2)
    if instance.kills["database"]:
        checked = await asyncio.to_thread(_amcheck, url)
        report.expect(checked == "", f"pg_amcheck: {checked}")


async def _document(made: World) -> bytes:
    reply = await made.shop.wire.send(request("GET", "/openapi.json", {}))
    assert reply.status == 200, reply.status
    return reply.body


def _written(made: World) -> dict[str, bytes]:
    """Everything that the service and its database wrote where somebody could read it: logs, and a dump."""
    instance = made.instance
    texts = {file.name: file.read_bytes() for file in instance.directory.glob("*.log")}
    texts["postgres.log"] = instance.server.log.read_bytes()
    url = with_database(instance.urls.admin, "bursar")
    dumped = subprocess.run([binaries() / "pg_dump", "--data-only", url], capture_output=True, check=False)
    assert dumped.returncode == 0, dumped.stderr
    return {**texts, "the database": dumped.stdout}


def _amcheck(url: str) -> str:
    """What is wrong on the disk, or nothing."""
    done = subprocess.run(
        [binaries() / "pg_amcheck", "--install-missing", "--no-dependent-toast", url],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return "" if done.returncode == 0 else (done.stdout + done.stderr)[:500]
