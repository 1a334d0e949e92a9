"""Clocks that jump: the real clock of each process apart, by libfaketime, and the instance's own.

Each decision is made by one clock, so a jump may delay things or refuse a signature, and never doubles or loses money.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

from bursar.db import embedded
from tests.faults import kills
from tests.faults.instance import ROLES, Instance, Process
from tests.faults.load import loaded
from tests.faults.report import Report
from tests.faults.world import world

JUMPS_S = (3_600, -3_600, 90_000, -90_000, 34_560_000, -34_560_000)
LIBRARY = "libfaketimeMT.so.1"


def library() -> Path | None:
    return next(
        (found for root in ("/usr/lib", "/usr/lib64", "/usr/local/lib") for found in Path(root).rglob(LIBRARY)), None
    )


async def run(seed: int, jumps: int) -> Report:
    """So many jumps of one process's clock under load, there and back, then the judge."""
    report = Report("clock jumps")
    preload = library()
    dice = random.Random(seed)
    async with world(seed) as made:
        async with loaded(made, seed, customers=4) as load:
            if preload is None:
                report.notes.append("real clocks not tried: libfaketime is not installed (apt install libfaketime)")
            for number in range(jumps if preload else 0):
                role = ROLES[number % len(ROLES)]
                jump = dice.choice(JUMPS_S)
                report.count(f"jumps of {role}")
                since = time.time()
                await _jump(made.instance, role, jump, preload)
                made.witness.note("wrong_clock", role=role, since=since - 1, until=time.time() + 1)
            for _ in range(max(1, jumps // 3)):
                await made.jump(dice.choice((3_600, 90_000)))
                report.count("jumps of the instance clock")
                await asyncio.sleep(1)
        await kills.judged(made, load, report)
    return report


async def _jump(instance: Instance, role: str, seconds: int, preload: Path | None) -> None:
    """The role's process is replaced by one whose clock can be moved, lives with a moved clock, and moves back."""
    clock = instance.directory / f"clock.{role}"
    clock.write_text("+0s\n")
    await instance.kill(role)
    process = await _start_with(instance, role, clock, preload)
    await instance.ready(role)
    clock.write_text(f"{seconds:+d}s\n")
    await asyncio.sleep(2.5)
    clock.write_text("+0s\n")
    await asyncio.sleep(0.5)
    with suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)
    await process.gone
    await instance.revive(role)


async def _start_with(instance: Instance, role: str, clock: Path, preload: Path | None) -> Process:
    arguments = [role]
    passed: tuple[int, ...] = ()
    if role in instance.sockets:
        number = instance.sockets[role].fileno()
        arguments += ["--fd", str(number)]
        passed = (number,)
    log = instance.log_of(role)
    log_from = log.stat().st_size if log.exists() else 0
    environment = instance.environment | {
        "LD_PRELOAD": str(preload),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
    }
    with log.open("ab") as output:
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "bursar", *arguments, env=environment, pass_fds=passed,
            stdin=asyncio.subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
        )  # fmt: skip
    gone = asyncio.ensure_future(child.wait())
    made = Process(role, child.pid, gone, log_from, time.monotonic())
    instance.processes[role] = made
    return made


async def database(seed: int, jumps: int) -> Report:
    """The database's own clock: started with one that is off, worked with, and started again with the right one."""
    report = Report("clock jumps of the database")
    preload = library()
    if preload is None:
        report.notes.append("not tried: libfaketime is not installed")
        report.count("not tried")
        return report
    dice = random.Random(seed)
    known = dict(embedded._ENVIRONMENT)
    async with world(seed) as made:
        try:
            async with loaded(made, seed, customers=4) as load:
                for _ in range(jumps):
                    seconds = dice.choice((3_600, 90_000))  # ahead: what is dated later stays dated later
                    embedded._ENVIRONMENT.update(
                        LD_PRELOAD=str(preload), FAKETIME=f"+{seconds}s", FAKETIME_DONT_FAKE_MONOTONIC="1"
                    )
                    made.witness.note("clock", seconds=seconds)
                    await made.instance.kill_database()
                    report.count("jumps of the database")
                    await asyncio.sleep(3)
        finally:
            embedded._ENVIRONMENT.clear()
            embedded._ENVIRONMENT.update(known)
        await kills.judged(made, load, report)
    return report
