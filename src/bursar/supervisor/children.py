"""Child processes that are kept running: started again when they die, given up when they only die."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import structlog

from bursar.supervisor.errors import GaveUp

QUICK_S = 10.0  # a death sooner than this after the start is held against the program
QUICK_DEATHS_MOST = 5
STOP_S = 10.0

log = structlog.get_logger()


@dataclass(frozen=True)
class Program:
    """A `bursar` command to keep running. `passed` are the files it inherits."""

    name: str
    arguments: tuple[str, ...]
    passed: tuple[int, ...] = ()
    environment: Mapping[str, str] = field(repr=False, default_factory=dict)


def delay_s(deaths: int) -> float:
    """The pause before the next start, after so many quick deaths in a row."""
    return min(0.1 * 3.0 ** (deaths - 1), 5.0)


async def keep_running(program: Program, on_death: Callable[[int], None]) -> None:
    """Runs the program until cancelled; `on_death` is told the number of each process that ended."""
    deaths = 0
    while True:
        started = time.monotonic()
        process = await _start(program)
        try:
            status = await process.wait()
        finally:
            await _end(process)
            on_death(process.pid)
        deaths = deaths + 1 if time.monotonic() - started < QUICK_S else 1
        log.warning("child.died", child=program.name, pid=process.pid, status=status, deaths=deaths)
        if deaths >= QUICK_DEATHS_MOST:
            raise GaveUp(f"the {program.name} process ended {deaths} times right after its start (status {status})")
        await asyncio.sleep(delay_s(deaths))


async def _start(program: Program) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-P", "-m", "bursar", *program.arguments),  # -P: nothing is imported from the working directory
        env=dict(program.environment),
        pass_fds=program.passed,
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr.fileno(),  # the supervisor's own output stays clean
        start_new_session=True,  # Ctrl-C at the terminal is for the supervisor, which then tells its children
    )


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        await asyncio.wait_for(process.wait(), STOP_S)
    except TimeoutError:
        log.warning("child.killed", pid=process.pid)
        process.kill()
        await process.wait()
