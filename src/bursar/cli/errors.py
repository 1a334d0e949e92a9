"""Every failure of a command as one line for a person; the one place where that is decided."""

from __future__ import annotations

import os
import traceback

import asyncpg

from bursar.cli.client import ClientError
from bursar.db.embedded import EmbeddedServerError
from bursar.db.migrate import MigrationError
from bursar.http.guard import Refused
from bursar.processors.simulator import serve as simulator
from bursar.settings import SettingsError
from bursar.supervisor.errors import CannotServe

# Their message is the line.
_TOLD = (
    CannotServe,
    ClientError,
    EmbeddedServerError,
    MigrationError,
    Refused,
    SettingsError,
    simulator.CannotServe,
)


def one_line(error: Exception) -> str:
    if isinstance(error, _TOLD):
        text = str(error)
    elif isinstance(error, OSError) and error.filename:
        text = f"cannot use {error.filename}: {error.strerror}"
    elif isinstance(error, OSError | asyncpg.PostgresError | asyncpg.InterfaceError):
        text = f"the database cannot be used: {error or type(error).__name__}"
    else:
        text = f"unexpected {type(error).__name__}: {error}"
        if os.environ.get("BURSAR_LOG_LEVEL") == "debug":
            traceback.print_exception(error)
        else:
            text += " (BURSAR_LOG_LEVEL=debug shows where)"
    return " ".join(text.split())
