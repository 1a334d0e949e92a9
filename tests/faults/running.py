"""Runs parts of the suite by themselves and tells what came of them."""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.faults.report import Report

TIERS = ("push", "full", "soak")
CLEARING_UP_S = 5.0
Part = Callable[[str, int], Awaitable[Report]]


def main(name: str, parts: Mapping[str, Part]) -> None:
    parser = argparse.ArgumentParser(prog=f"python -m {name}")
    parser.add_argument("--tier", choices=TIERS, default="push")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("parts", nargs="*", help=f"any of {', '.join(parts)}; default: all of them")
    options = parser.parse_args()
    console = Console(width=140)
    console.print(f"tier {options.tier}, seed {options.seed}")
    table = Table("part", "done", "held", "seconds")
    held = True
    for each in options.parts or parts:
        started = time.monotonic()
        report = asyncio.run(_run(parts[each], options.tier, options.seed))
        done = ", ".join(f"{count:,} {what}" for what, count in report.done.items())
        table.add_row(report.name, done, "yes" if report.held else "NO", f"{time.monotonic() - started:.0f}")
        for note in report.notes:
            console.print(f"{report.name}: {note}", markup=False, highlight=False)
        held = held and report.held
    console.print(table)
    sys.exit(0 if held else 1)


async def until(command: list[str], longest_s: float, **how: Any) -> tuple[int | None, str]:
    """The exit status and output of a command, with all its children ended when it takes too long: then None."""
    with tempfile.TemporaryFile() as output:
        process = await asyncio.create_subprocess_exec(
            *command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True, **how
        )
        status: int | None = None
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(longest_s):
                    status = await process.wait()
        finally:
            if process.returncode is None:
                await _end(process)
        output.seek(0)
        return status, output.read().decode(errors="replace")


async def _end(process: asyncio.subprocess.Process) -> None:
    process.send_signal(signal.SIGINT)  # it may have children of its own to end
    with suppress(TimeoutError):
        async with asyncio.timeout(CLEARING_UP_S):
            await process.wait()
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


async def _run(part: Part, tier: str, seed: int) -> Report:
    return await part(tier, seed)
