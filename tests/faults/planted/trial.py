"""`python -m tests.faults.planted.trial PLAN SEED`, run inside a copy: one plan, and what came of it as the last line.

It refuses to run the code of any other place than its own, here or in the processes it starts.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path

import bursar
from tests.faults.planted.plans import PLANS
from tests.faults.report import Report

ROOT = Path(__file__).resolve().parents[3]
ASK = "import bursar; print(bursar.__file__)"


def check_place() -> None:
    """The checkout may be installed; it is not what is tried here."""
    asked = subprocess.run([sys.executable, "-P", "-c", ASK], capture_output=True, text=True, check=True, cwd="/")
    for found in (bursar.__file__, asked.stdout.strip()):
        if found is None or ROOT / "src" not in Path(found).resolve().parents:
            raise SystemExit(f"this is {ROOT}, and bursar was loaded from {found}")


async def run(plan: str, seed: int) -> Report:
    own = asyncio.current_task()
    assert own is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, own.cancel)  # no server is left behind
    return await PLANS[plan](seed)


def main() -> None:
    check_place()
    report = asyncio.run(run(sys.argv[1], int(sys.argv[2])))
    sys.stdout.write("\n" + json.dumps({"held": report.held, "notes": report.notes, "done": report.done}) + "\n")


if __name__ == "__main__":
    main()
