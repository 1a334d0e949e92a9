"""How moments are read and written. All are UTC inside; the wire says `Z`.

There are two clocks. Instance time (`db.clock`) dates everything the service records and can be moved on a test
instance. Real time, here, is for signatures, leases and rate limits, and is never moved.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime

SIGNATURE_TOLERANCE_S = 300


def unix_now() -> int:
    return int(time.time())


def real_now() -> datetime:
    return datetime.now(UTC)


def iso(moment: datetime) -> str:
    """ISO 8601 in UTC with a `Z`, to the second unless there are microseconds."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
