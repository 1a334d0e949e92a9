"""The data directory: held by one supervisor at a time, its files readable by their owner alone."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bursar.supervisor.errors import DirectoryInUse

LOCK = "serve.lock"


@contextmanager
def held(data_dir: Path) -> Iterator[None]:
    """The directory, made if need be, for this process alone. The kernel frees it, however the process ends."""
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(data_dir / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(lock, 20).decode().strip()
            raise DirectoryInUse(f"another bursar (pid {holder or 'unknown'}) is using {data_dir}") from None
        os.truncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(lock)


def keep(path: Path, text: str) -> None:
    """Writes a private file, whole or not at all."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    handle, draft = tempfile.mkstemp(dir=path.parent)  # of mode 0600
    try:
        with open(handle, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(handle)
        os.replace(draft, path)
    except BaseException:
        os.unlink(draft)
        raise
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
