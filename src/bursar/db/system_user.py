"""The system user that the embedded server runs as when we are root, which PostgreSQL refuses to be."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

SYSTEM_USER = "bursar-db"


class SystemUser(NamedTuple):
    uid: int
    gid: int


def system_user() -> SystemUser | None:
    """A user of our own, made if need be; else one that is there for such purposes."""
    useradd = shutil.which("useradd")
    if _named(SYSTEM_USER) is None and useradd:
        options = ("--system", "--user-group", "--no-create-home", "--shell", "/usr/sbin/nologin")
        subprocess.run([useradd, *options, SYSTEM_USER], check=False, capture_output=True)  # noqa: S603
    return next((user for name in (SYSTEM_USER, "postgres", "nobody") if (user := _named(name))), None)


def _named(name: str) -> SystemUser | None:
    with suppress(KeyError):
        found = pwd.getpwnam(name)
        return SystemUser(found.pw_uid, found.pw_gid)
    return None


def make_searchable(path: Path, user: SystemUser) -> None:
    """Let the server's user pass through to the path; to pass is not to list."""
    for directory in (path, *path.parents):
        found = directory.stat()
        if found.st_uid != user.uid and not found.st_mode & stat.S_IXOTH:
            directory.chmod(stat.S_IMODE(found.st_mode) | stat.S_IXOTH)


def give(directory: Path, user: SystemUser) -> None:
    for place, _, files in os.walk(directory):
        for name in (place, *(os.path.join(place, file) for file in files)):
            os.chown(name, user.uid, user.gid, follow_symlinks=False)
