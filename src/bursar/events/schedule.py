"""When a delivery is tried again. Pure: from an attempt's number and what came back to what happens next.

Times are the instance's, so a moved clock moves the schedule with it; jitter is left out where that may happen.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

# The wait before each attempt, after the one before it: ten attempts in 75 hours and 35 minutes.
DELAYS: Sequence[timedelta] = (
    timedelta(0),
    timedelta(seconds=5),
    timedelta(minutes=5),
    timedelta(minutes=30),
    timedelta(hours=2),
    timedelta(hours=5),
    timedelta(hours=10),
    timedelta(hours=14),
    timedelta(hours=20),
    timedelta(hours=24),
)
ATTEMPTS = len(DELAYS)
JITTER = 0.1
LONGEST_RETRY_AFTER = timedelta(hours=24)

# An endpoint that has done nothing but fail for this long is disabled. A silence as long between two failures begins
# the count anew: nobody knows how it would have answered meanwhile.
DISABLE_AFTER = timedelta(days=5)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a delivery after an attempt. `again_in` None: it is not tried again."""

    status: str  # succeeded or failed
    again_in: timedelta | None = None
    exhausted: bool = False
    gone: bool = False  # the endpoint asked never to be called again


SUCCEEDED = Verdict("succeeded")


def judge(code: int | None, step: int, retry_after: timedelta | None = None, *, jitter: bool = True) -> Verdict:
    """The verdict on attempt `step` (from 1) of a schedule; `code` None: no answer. Only 2xx is success."""
    if code is not None and 200 <= code < 300:
        return SUCCEEDED
    if code == 410:
        return Verdict("failed", exhausted=True, gone=True)
    if step >= ATTEMPTS:
        return Verdict("failed", exhausted=True)
    delay = DELAYS[step]
    if jitter:
        delay *= 1 + random.uniform(-JITTER, JITTER)  # noqa: S311 - spreads load, hides nothing
    if retry_after is not None:
        delay = max(delay, min(retry_after, LONGEST_RETRY_AFTER))
    return Verdict("failed", again_in=delay)


def parse_retry_after(text: str, now: datetime) -> timedelta | None:
    """Seconds, or a moment of real time; None for anything else."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        return min(timedelta(seconds=int(text[:9])), LONGEST_RETRY_AFTER)
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(timedelta(0), moment - now)
