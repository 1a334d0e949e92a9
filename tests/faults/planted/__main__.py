"""`python -m tests.faults.planted [--only name,…] [--seed N] [--control]`: plants one mistake at a time into a copy of
the checkout, and ends with 1 unless the suite notices every one of them for what it is.

`--control` runs the same plans on a copy without a mistake, where all must hold.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.faults.planted.bugs import BUGS, Bug
from tests.faults.planted.copies import DoesNotFit, Outcome, copy, try_out

SHOWN = 110


@dataclass(frozen=True)
class Row:
    name: str
    plan: str
    outcome: Outcome
    told: str  # the first violation that fits, or why there is none
    right: bool


def plant(bug: Bug, seed: int, pristine: Path) -> Row:
    try:
        with copy(bug.patches, pristine) as place:
            outcome = try_out(place, bug.plan, seed)
    except DoesNotFit as error:
        return Row(bug.name, bug.plan, Outcome(0.0), f"the patch no longer fits: {error}", right=False)
    if outcome.failure:
        return Row(bug.name, bug.plan, outcome, outcome.failure, right=False)
    fitting = [note for note in outcome.notes if re.search(bug.shows, note)]
    if outcome.held or not fitting:
        other = "; ".join(outcome.notes[:3]) if not outcome.held else "everything held"
        return Row(bug.name, bug.plan, outcome, f"MISSED: {other}", right=False)
    return Row(bug.name, bug.plan, outcome, fitting[0], right=True)


def control(plan: str, seed: int, pristine: Path) -> Row:
    outcome = try_out(pristine, plan, seed)
    told = outcome.failure or ("held" if outcome.held else "BROKEN: " + "; ".join(outcome.notes[:5]))
    return Row("none", plan, outcome, told, right=outcome.held)


def table(rows: list[Row]) -> str:
    lines = ["| Planted | Noticed by | After | First violation |", "| --- | --- | --- | --- |"]
    for row in rows:
        told = re.sub(r"\s+", " ", row.told).replace("|", "/")
        told = told if len(told) <= SHOWN else told[:SHOWN] + "…"
        lines.append(f"| {row.name} | {row.plan} | {row.outcome.seconds:.0f} s | {told} |")
    return "\n".join(lines)


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def run(bugs: list[Bug], seed: int, *, control_only: bool) -> list[Row]:
    rows: list[Row] = []
    with copy() as pristine:  # the checkout may change meanwhile
        if control_only:
            for plan in dict.fromkeys(bug.plan for bug in bugs):
                say(f"{plan}, nothing planted …")
                rows.append(control(plan, seed, pristine))
                say(f"  {rows[-1].told[:1000]} ({rows[-1].outcome.seconds:.0f} s)")
            return rows
        for bug in bugs:
            say(f"{bug.name}: {bug.wrong}")
            rows.append(plant(bug, seed, pristine))
            say(f"  {rows[-1].told[:1000]} ({rows[-1].outcome.seconds:.0f} s)")
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.planted", description=__doc__)
    parser.add_argument("--only", default="", help=f"some of: {', '.join(bug.name for bug in BUGS)}")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1, 1_000_000))
    parser.add_argument("--control", action="store_true", help="the same plans, with nothing planted")
    chosen = parser.parse_args()
    only = {name for name in chosen.only.split(",") if name}
    if unknown := only - {bug.name for bug in BUGS}:
        parser.error(f"no such bug: {', '.join(sorted(unknown))}")
    bugs = [bug for bug in BUGS if not only or bug.name in only]
    say(f"Seed {chosen.seed}.")
    rows = run(bugs, chosen.seed, control_only=chosen.control)
    right = sum(row.right for row in rows)
    what = "plans held" if chosen.control else "bugs were noticed"
    say(f"\n{table(rows)}\n\n{right} of {len(rows)} {what}, seed {chosen.seed}.")
    return 0 if right == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
