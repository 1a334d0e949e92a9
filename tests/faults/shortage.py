"""What runs out: the disk, the connections. Nothing that was answered is lost, and when there is room, all goes on."""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import asyncpg

from tests.faults import kills
from tests.faults.load import loaded
from tests.faults.report import Report
from tests.faults.world import World, world

DISK_MB = 420


@contextmanager
def small_disk() -> Iterator[Path | None]:
    """A filesystem that can be filled; None where we may not make one."""
    place = Path(tempfile.mkdtemp(prefix="bursar-disk-"))
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m,mode=755", "tmpfs", str(place)]
    made = os.geteuid() == 0 and subprocess.run(command, capture_output=True, check=False).returncode == 0
    try:
        yield place if made else None
    finally:
        if made:
            subprocess.run(["umount", "-l", str(place)], capture_output=True, check=False)
        with suppress(OSError):
            place.rmdir()


async def disk_full(seed: int, times: int) -> Report:
    """PostgreSQL's disk, WAL and all, fills up under load; it may stop itself; then there is room again."""
    report = Report("disk full")
    with small_disk() as place:
        if place is None:
            report.notes.append("not tried: a filesystem of our own needs root")
            report.count("not tried")
            return report
        settings = {"max_wal_size": "64MB", "min_wal_size": "32MB"}
        async with world(seed, settings, place) as made:
            async with loaded(made, seed) as load:
                for _ in range(times):
                    ballast = place / "ballast"
                    await asyncio.sleep(2)
                    await asyncio.to_thread(_fill, ballast)
                    report.count("times full")
                    await asyncio.sleep(5)
                    await asyncio.to_thread(ballast.unlink)
                    if not made.instance.server.is_running():
                        report.count("database stopped itself")
                    await asyncio.to_thread(made.instance.server.start)
            await kills.judged(made, load, report)
    return report


def _fill(ballast: Path) -> None:
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"\0" * 65536)


async def no_connections(seed: int, times: int) -> Report:
    """Somebody else has taken every connection that the database gives; then they are back."""
    report = Report("connections exhausted")
    settings = {"max_connections": "40", "superuser_reserved_connections": "5"}
    async with world(seed, settings) as made:
        async with loaded(made, seed) as load:
            for _ in range(times):
                await asyncio.sleep(2)
                hogs = await _hog(made)
                await made.instance.fetch(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'bursar %'"
                )
                began = time.monotonic()
                while time.monotonic() - began < 4:
                    hogs += await _hog(made)
                    await asyncio.sleep(0.1)
                report.count("connections taken", len(hogs))
                for hog in hogs:
                    await hog.close()
        await kills.judged(made, load, report)
    return report


async def _hog(made: World) -> list[asyncpg.Connection[asyncpg.Record]]:
    taken: list[asyncpg.Connection[asyncpg.Record]] = []
    with suppress(asyncpg.PostgresError, OSError):
        while len(taken) < 60:
            taken.append(await asyncpg.connect(made.instance.urls.service))
    return taken
