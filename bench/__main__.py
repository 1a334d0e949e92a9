"""`make bench`: every case beside its floor, in one run on one machine.

What is off: the global throttles (as on every test instance) and the access log. Durability is on: fsync,
full_page_writes, synchronous_commit.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

from bench import accounts, deliveries, machine, markdown, outcomes, payments, pipeline, report, slow_disk
from bench.ledger import cases as ledger
from bench.report import Part

FOR_INFORMATION = ("pipeline", "accounts")

Run = Callable[[float, int], Part]

# Each with its share of the time there is. What is there for information comes last, and is left out when time is up.
PARTS: dict[str, tuple[Run, float]] = {
    "payments": (payments.run, 0.28),
    "outcomes": (outcomes.run, 0.18),
    "ledger": (ledger.run, 0.21),
    "slow-disk": (slow_disk.run, 0.15),
    "deliveries": (deliveries.run, 0.08),
    "pipeline": (pipeline.run, 0.04),
    "accounts": (accounts.run, 0.06),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="length of one measurement")
    parser.add_argument("--rounds", type=int, default=3, help="times each measurement is taken, interleaved")
    parser.add_argument(
        "--longest", type=float, default=270.0, help="seconds for all of it; rounds are left out for it"
    )
    parser.add_argument("--markdown", action="store_true", help="write the last run into docs/performance.md, no more")
    parser.add_argument("parts", nargs="*", help=f"any of {', '.join(PARTS)}; default: all of them")
    options = parser.parse_args()
    if options.markdown:
        markdown.write()
        return
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    if note := machine.warning(machine.busy_cores()):
        report.console.print(note, style="bold red")
    started = time.monotonic()
    chosen = options.parts or list(PARTS)
    shares = sum(PARTS[name][1] for name in chosen)
    report.Deadline.at = started
    found = []
    for name in chosen:
        report.console.print(f"{name} …")
        measure, share = PARTS[name]
        report.Deadline.at += options.longest * share / shares
        if name in FOR_INFORMATION and len(chosen) > 1 and time.monotonic() > report.Deadline.at:
            found.append(Part(name, missing={name: "the time was up: the machine is too busy"}))
            continue
        found.append(measure(options.seconds, options.rounds))
        report.save(report.document(found, time.monotonic() - started))  # what is done stays, whatever comes next
    made = report.document(found, time.monotonic() - started)
    report.save(made)
    report.show(made)


if __name__ == "__main__":
    main()
