"""`make bench`: every case beside its floor, in one run on one machine.

What is off: the global throttles (as on every test instance) and the access log. Durability is on: fsync,
full_page_writes, synchronous_commit.
"""

from __future__ import annotations

import argparse

from bench import pipeline, report
from bench.stage import stage


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="length of one measurement")
    parser.add_argument("--rounds", type=int, default=3, help="times each measurement is taken, interleaved")
    options = parser.parse_args()
    with stage() as staged:
        cases = pipeline.cases(staged, options.seconds, options.rounds)
    report.show(cases, "The request pipeline, 32 connections")
    report.save(cases, {"limits_off": ["global throttles", "access log"], "durable": True})


if __name__ == "__main__":
    main()
