"""A base backup under load, and its WAL up to a moment chosen by the seed: what is restored must hold all by itself."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bursar.db.embedded import EmbeddedServer, EmbeddedServerError, binaries
from bursar.db.roles import with_database
from bursar.db.system_user import give, system_user
from tests.faults.invariants import judge
from tests.faults.load import loaded
from tests.faults.report import Report
from tests.faults.world import World, world


async def run(seed: int, rounds: int, *, seconds: float = 6.0) -> Report:
    report = Report("restore to a moment")
    dice = random.Random(seed)
    archive = _archive()
    settings = {"archive_mode": "on", "archive_command": f"cp %p {archive}/%f"}
    async with _gone_afterwards(archive), world(seed, settings) as made:
        async with loaded(made, seed) as load:
            for number in range(rounds):
                await _round(made, archive, dice, number, seconds, report)
        for what in ("payments", "refunds"):
            report.count(what, load.done[what])
    return report


async def _round(made: World, archive: Path, dice: random.Random, number: int, seconds: float, report: Report) -> None:
    place = made.instance.directory / f"restored-{number}"
    place.mkdir()
    await asyncio.to_thread(_base_backup, made.instance.urls.admin, place / "base")
    await asyncio.sleep(dice.uniform(0.3, 1.0) * seconds)
    [moment] = await made.instance.fetch("SELECT clock_timestamp() AS at")
    await _archived(made)
    restored = await asyncio.to_thread(_restore, place, archive, made.instance.directory / "data", moment["at"])
    try:
        url = with_database(restored.urls().admin, "bursar")
        verdict = await judge(url, None, quiet=False)
        report.count("restores")
        report.count("checks", verdict.checks)
        for broken in verdict.broken:
            report.broke(f"O3: restored to {moment['at']:%H:%M:%S.%f}: {broken}")
        rows = await made.instance.fetch("SELECT count(*) AS n FROM journal WHERE created_at <= instance_now()")
        report.expect(rows[0]["n"] > 0, "O3: there was nothing to restore")
    finally:
        await asyncio.to_thread(restored.kill)
        shutil.rmtree(place, ignore_errors=True)


async def _archived(made: World) -> None:
    """Everything up to now, and one transaction more, so that there is something after the moment."""
    await made.instance.fetch("SELECT pg_current_xact_id()")
    [row] = await made.instance.fetch("SELECT pg_walfile_name(pg_switch_wal()) AS wal")
    async with asyncio.timeout(60):
        while True:
            [done] = await made.instance.fetch("SELECT last_archived_wal AS wal FROM pg_stat_archiver")
            if done["wal"] is not None and done["wal"] >= row["wal"]:
                return
            await asyncio.sleep(0.1)


def _archive() -> Path:
    """A folder that the server's user can write to."""
    folder = Path(tempfile.mkdtemp(prefix="bursar-archive-"))
    account = system_user() if os.geteuid() == 0 else None
    if account is not None:
        give(folder, account)
    return folder


@asynccontextmanager
async def _gone_afterwards(folder: Path) -> AsyncIterator[None]:
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _base_backup(url: str, target: Path) -> None:
    done = subprocess.run(
        [binaries() / "pg_basebackup", "-D", target, "-d", url, "--checkpoint=fast", "--wal-method=none"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def _restore(place: Path, archive: Path, source: Path, moment: Any) -> EmbeddedServer:
    """The backup as a server of its own, with the secrets of the first, stopped at the moment and opened."""
    data = place / "data"
    data.mkdir()
    shutil.copytree(source / "secrets", data / "secrets")
    shutil.move(place / "base", data / "postgres")
    cluster = data / "postgres"
    with (cluster / "postgresql.auto.conf").open("a") as settings:
        settings.write(f"restore_command = 'cp {archive}/%f %p'\n")
        settings.write(f"recovery_target_time = '{moment.isoformat()}'\n")
        settings.write("recovery_target_action = 'promote'\narchive_command = '/bin/true'\n")
    (cluster / "recovery.signal").touch()
    account = system_user() if os.geteuid() == 0 else None
    if account is not None:
        give(cluster, account)
    cluster.chmod(0o700)
    server = EmbeddedServer(data, {"archive_mode": "off"})
    try:
        server.start()
    except EmbeddedServerError as error:
        raise AssertionError(f"{error}: {server.log.read_text()[-1500:]}") from error
    return server
