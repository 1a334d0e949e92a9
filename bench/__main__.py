"""`make bench`: every case beside its floor, in one run on one machine.

What is off: the global throttles (as on every test instance) and the access log. Durability is on: fsync,
full_page_writes, synchronous_commit.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from rich.console import Console

from bench import accounts, deliveries, ledger, payments, pipeline, report
from bench.stage import stage

PARTS = ("pipeline", "payments", "ledger", "deliveries", "accounts")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="length of one measurement")
    parser.add_argument("--rounds", type=int, default=3, help="times each measurement is taken, interleaved")
    parser.add_argument("parts", nargs="*", help=f"any of {', '.join(PARTS)}; default: all of them")
    options = parser.parse_args()
    chosen = options.parts or PARTS
    cases = []
    more: dict[str, Any] = {"limits_off": ["global throttles", "access log"], "durable": True}
    for part, measured in (("pipeline", pipeline), ("payments", payments)):
        if part in chosen:
            with stage() as staged:
                found = measured.cases(staged, options.seconds, options.rounds)
            report.show(found, f"{part.capitalize()}, 32 connections")
            cases += found
    if "ledger" in chosen:
        more["ledger"] = ledger.run(options.seconds, options.rounds)
    if "deliveries" in chosen:
        more["deliveries"] = _told("Deliveries, a receiver that answers in 20 ms", deliveries.run(options.rounds))
    if "accounts" in chosen:
        more["accounts"] = accounts.run()
        _told("Accounts, 100,000 beside 100: how many times as long", more["accounts"]["ratio"])
    report.save(cases, more)


def _told(title: str, figures: dict[str, Any]) -> dict[str, Any]:
    Console(width=130).print(f"\n{title}\n{json.dumps(figures, indent=2)}")
    return figures


if __name__ == "__main__":
    main()
