"""`python -m tests.faults.hostile [--tier push] [--seed N] [parts…]`: hostile input alone, without the rest."""

from __future__ import annotations

from tests.faults.hostile.parts import PARTS
from tests.faults.running import main

if __name__ == "__main__":
    main("tests.faults.hostile", PARTS)
