"""`python -m tests.faults --tier push|full|soak [--seed N] [--only crash,kills,…]`: breaks the service on purpose, says
what was done and what held, and ends with 1 if anything did not. `--pair "cancel × simulator"` tries crash points by
their names alone.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from tests.faults import backup, clocks, crash, kills, shortage
from tests.faults.hostile.parts import PARTS as HOSTILE
from tests.faults.races.parts import PARTS as RACES
from tests.faults.report import Report
from tests.faults.running import TIERS
from tests.faults.running import Part as Runner

Run = Callable[[int], Awaitable[Report]]


@dataclass(frozen=True)
class Part:
    """One part of the suite, and how it is run in each tier."""

    name: str
    tiers: dict[str, Run]


def _kills(**counts: int) -> Callable[..., Run]:
    def part(name: str, seconds: float, *, group_commit: bool = True) -> Run:
        plan = kills.Plan(seconds, **counts)
        return lambda seed: kills.run(seed, plan, name=name, group_commit=group_commit)

    return part


def _half(parts: Mapping[str, Runner]) -> tuple[Part, ...]:
    """The parts that know their tiers themselves."""
    return tuple(Part(name, {tier: partial(run, tier) for tier in TIERS}) for name, run in parts.items())


# The times are those of the part that makes trouble; what follows (settling, judging) comes on top.
BREAKING = (
    Part(
        "crash",
        {
            "push": lambda seed: crash.run(seed, share=1 / 3, seconds=40),
            "full": lambda seed: crash.run(seed, seconds=1200),
            "soak": lambda seed: crash.run(seed, times=10, seconds=2000),
        },
    ),
    Part(
        "kills",
        {
            "push": _kills(api=30, worker=30, simulator=10, database=10, customers=16)("random kills", 30),
            "full": _kills(api=150, worker=150, simulator=50, database=50, customers=10)("random kills", 130),
            "soak": _kills(api=500, worker=500, simulator=150, database=150, customers=10)("random kills", 1000),
        },
    ),
    Part(
        "cuts",
        {
            "push": _kills(cuts=500, customers=24)("cut connections", 12),
            "full": _kills(cuts=5_000, customers=24)("cut connections", 100),
            "soak": _kills(cuts=20_000, customers=24)("cut connections", 700),
        },
    ),
    Part(
        "load",
        {
            "push": _kills(customers=24, shops=11)("processor and receivers misbehave", 10),
            "full": _kills(customers=24, shops=11)("processor and receivers misbehave", 60),
            "soak": _kills(customers=24, shops=11)("processor and receivers misbehave", 700),
        },
    ),
    Part(
        "clocks",
        {
            "push": lambda seed: clocks.run(seed, 3),
            "full": lambda seed: clocks.run(seed, 18),
            "soak": lambda seed: clocks.run(seed, 80),
        },
    ),
    Part(
        "clocks-database",
        {
            "push": lambda seed: clocks.database(seed, 1),
            "full": lambda seed: clocks.database(seed, 6),
            "soak": lambda seed: clocks.database(seed, 20),
        },
    ),
    Part(
        "disk",
        {
            "push": lambda seed: shortage.disk_full(seed, 1),
            "full": lambda seed: shortage.disk_full(seed, 5),
            "soak": lambda seed: shortage.disk_full(seed, 20),
        },
    ),
    Part(
        "connections",
        {
            "push": lambda seed: shortage.no_connections(seed, 1),
            "full": lambda seed: shortage.no_connections(seed, 5),
            "soak": lambda seed: shortage.no_connections(seed, 20),
        },
    ),
    Part(
        "restore",
        {
            "push": lambda seed: backup.run(seed, 1),
            "full": lambda seed: backup.run(seed, 3),
            "soak": lambda seed: backup.run(seed, 10),
        },
    ),
    Part(
        "crash-alone",
        {
            "push": lambda seed: crash.run(seed, share=1 / 3, seconds=8, group_commit=False, only="create"),
            "full": lambda seed: crash.run(seed, seconds=120, group_commit=False, only="create"),
            "soak": lambda seed: crash.run(seed, seconds=600, group_commit=False),
        },
    ),
    Part(
        "kills-alone",
        {
            "push": _kills(api=5, worker=5, database=1)("random kills", 6, group_commit=False),
            "full": _kills(api=150, worker=150, simulator=50, database=50)("random kills", 130, group_commit=False),
            "soak": _kills(api=500, worker=500, simulator=150, database=150)("random kills", 1000, group_commit=False),
        },
    ),
)

PARTS = (*_half(HOSTILE), *BREAKING, *_half(RACES))  # the longest comes first, so that little is under way at the end

# No part is begun after this; what is under way then ends within the tier's 10 minutes, 45 minutes, two hours.
LIMIT_S = {"push": 520, "full": 2_500, "soak": 6_600}


def table(reports: list[tuple[Report, float]]) -> str:
    lines = ["| Part | Done | Took | Held |", "| --- | --- | --- | --- |"]
    for report, took_s in reports:
        done = ", ".join(f"{count:,} {what}" for what, count in report.done.items())
        lines.append(f"| {report.name} | {done} | {took_s:.0f} s | {'yes' if report.held else '**NO**'} |")
    return "\n".join(lines)


async def suite(tier: str, seed: int, parts: Sequence[Part]) -> bool:
    reports: list[tuple[Report, float]] = []
    late: list[str] = []
    started = time.monotonic()
    own = asyncio.current_task()
    assert own is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, own.cancel)  # no server is left behind
    for part in parts:
        began = time.monotonic()
        if began - started > LIMIT_S[tier]:
            say(f"{part.name}: not run, the tier's time is over")
            late.append(part.name)
            continue
        say(f"{part.name} …")
        try:
            report = await part.tiers[tier](seed)
        except Exception as error:  # a part that cannot be run has not held
            report = Report(part.name)
            if isinstance(error, ExceptionGroup):
                error = error.exceptions[0]
            report.broke(f"could not be run: {type(error).__name__}: {error}")
        took_s = time.monotonic() - began
        reports.append((report, took_s))
        for note in report.notes[:40]:
            say(f"  {note}")
        say(f"{part.name}: {'held' if report.held else 'BROKEN'} in {took_s:.0f} s: {report.done}")
    say("")
    say(f"Tier {tier}, seed {seed}: python -m tests.faults --tier {tier} --seed {seed}")
    say("")
    say(table(reports))
    if late:
        say(f"\nNot run, for want of time: {', '.join(late)}.")
    # A push on a slow machine may leave something out, and says so; whoever asks for everything is owed everything.
    return all(report.held for report, _ in reports) and (tier == "push" or not late)


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    names = [part.name for part in PARTS]
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--tier", choices=("push", "full", "soak"), default="push")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1, 1_000_000))
    parser.add_argument("--only", default="", help=f"some of: {', '.join(names)}")
    parser.add_argument(
        "--pair", action="append", default=[], metavar="OPERATION[ × ROLE POINT]",
        help="only these pairs of `crash`, as its notes name them, or all whose name begins so; may be given again",
    )  # fmt: skip
    chosen = parser.parse_args()
    only = {name for name in chosen.only.split(",") if name}
    if unknown := only - set(names):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    say(f"Tier {chosen.tier}, seed {chosen.seed}.")
    parts = [part for part in PARTS if not only or part.name in only]
    if chosen.pair:
        parts = [Part("crash", {chosen.tier: lambda seed: crash.run(seed, named=chosen.pair)})]
    try:
        return 0 if asyncio.run(suite(chosen.tier, chosen.seed, parts)) else 1
    except asyncio.CancelledError:
        say("Stopped.")
        return 1


if __name__ == "__main__":
    sys.exit(main())
