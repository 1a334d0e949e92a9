"""`python -m tests.faults.races [--tier push] [--seed N] [parts…]`: the races alone, without the rest."""

from __future__ import annotations

from tests.faults.races.parts import PARTS
from tests.faults.running import main

if __name__ == "__main__":
    main("tests.faults.races", PARTS)
