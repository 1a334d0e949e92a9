"""A disk whose flushes take longer: a small library, built when it is needed and loaded into PostgreSQL."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bursar.db import embedded

SLOWER_US = 1000
LIBRARY = "slow_flush.so"


def unavailable() -> str | None:
    """Why flushes cannot be slowed down here, or None."""
    return None if shutil.which("cc") else "there is no C compiler (cc) to build the slow flush with"


def is_slow(postmaster: int) -> bool:
    """Whether a server has the library; its children have it from there."""
    return LIBRARY in Path(f"/proc/{postmaster}/maps").read_text()


@contextmanager
def slowed(directory: Path) -> Iterator[None]:
    """A server that is started meanwhile flushes slowly."""
    library = directory / LIBRARY
    source = Path(__file__).with_name("slow_flush.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", str(library), str(source), "-ldl"], check=True)
    library.chmod(0o755)
    usual = dict(embedded._ENVIRONMENT)
    embedded._ENVIRONMENT.update(LD_PRELOAD=str(library), SLOW_FLUSH_US=str(SLOWER_US))
    try:
        yield
    finally:
        embedded._ENVIRONMENT.clear()
        embedded._ENVIRONMENT.update(usual)
