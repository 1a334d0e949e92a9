"""The properties of what is pure, tried many more times than the ordinary tests try them: money, fees and shares,
signatures of every family, cursors, states; in a soak also bodies, the card guard, keys, ids, dates, journals.
"""

from __future__ import annotations

import re
import sys

from tests.faults.report import Report
from tests.faults.running import until

EXAMPLES = {"push": 500, "full": 10_000, "soak": 100_000}  # as `tests/conftest.py` has them
LONGEST_S = {"push": 85, "full": 300, "soak": 3600}
MONEY = (
    "tests/unit/test_money.py", "tests/unit/test_signing.py", "tests/unit/test_listing.py",
    "tests/features/payments/test_rules.py",
)  # fmt: skip
REST = ("tests/unit", "tests/events/test_signing.py", "tests/ledger/test_journals.py")
LEAST = {"push": 30, "full": 30, "soak": 90}  # properties; fewer means that they were not found


async def run(tier: str, seed: int) -> Report:
    report = Report("properties")
    command = [
        sys.executable, "-m", "pytest", *MONEY, *(REST if tier == "soak" else ()), "-m", "hypothesis", "-vv",
        f"--hypothesis-profile={tier}", f"--hypothesis-seed={seed}", "-n", "2",
        "-o", f"timeout={LONGEST_S[tier]}", "-p", "no:cacheprovider",
    ]  # fmt: skip
    status, output = await until(command, LONGEST_S[tier])
    passed, failed = (len(re.findall(rf"^\[gw\d\].* {what} ", output, re.MULTILINE)) for what in ("PASSED", "FAILED"))
    report.count("properties", passed)
    report.count("examples", passed * EXAMPLES[tier])
    report.expect(failed == 0 and status in (0, None), output[-5000:])
    report.expect(status is not None, f"stopped for lack of time after {passed} properties")
    report.expect(passed >= LEAST[tier], f"only {passed} properties were found")
    return report
