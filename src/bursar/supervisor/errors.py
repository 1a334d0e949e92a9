"""Why the service does not start, or does not go on; each message is the one line that the operator reads."""

from __future__ import annotations


class CannotServe(Exception):
    """The service cannot start or go on like this."""


class CannotListen(CannotServe):
    """An address is in use, is not this machine's, or must not be served."""


class DirectoryInUse(CannotServe):
    """Another supervisor has the data directory."""


class DatabaseUnusable(CannotServe):
    """The database is out of reach, or does not let the service in."""


class GaveUp(CannotServe):
    """A process died again each time it was started."""
