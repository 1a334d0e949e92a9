"""Prints the ledger's figures beside its peers'."""

from __future__ import annotations

import argparse
import json

from bench import ledger


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.ledger", description=ledger.__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="length of one measurement")
    parser.add_argument("--rounds", type=int, default=2, help="times each measurement is taken, interleaved")
    options = parser.parse_args()
    print(json.dumps(ledger.run(options.seconds, options.rounds), indent=2))


if __name__ == "__main__":
    main()
