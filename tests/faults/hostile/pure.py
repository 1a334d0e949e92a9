"""The properties of what is pure, tried many more times than the ordinary tests try them: money, fees and shares,
signatures of every family, cursors, bodies, the card guard, keys, ids, dates, states, journals.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys

from tests.faults.report import Report

EXAMPLES = {"push": 500, "full": 10_000, "soak": 100_000}  # as `tests/conftest.py` has them
LONGEST_S = {"push": 400, "full": 2400, "soak": 7200}
MONEY = (
    "tests/unit/test_money.py", "tests/unit/test_signing.py", "tests/unit/test_listing.py",
    "tests/features/payments/test_rules.py",
)  # fmt: skip
REST = ("tests/unit", "tests/events/test_signing.py", "tests/ledger/test_journals.py")
LEAST = {"push": 30, "full": 90, "soak": 90}  # properties; fewer means that they were not found


async def run(tier: str, seed: int) -> Report:
    report = Report("properties")
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "pytest", *MONEY, *(() if tier == "push" else REST), "-m", "hypothesis",
         f"--hypothesis-profile={tier}", f"--hypothesis-seed={seed}", "-n", "2",
         "-o", f"timeout={LONGEST_S[tier]}", "-p", "no:cacheprovider"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LONGEST_S[tier], check=False,
    )  # fmt: skip
    found = re.search(r"(\d+) passed", done.stdout)
    passed = int(found[1]) if found else 0
    report.count("properties", passed)
    report.count("examples", passed * EXAMPLES[tier])
    report.expect(done.returncode == 0, done.stdout[-5000:])
    report.expect(passed >= LEAST[tier], f"only {passed} properties were found")
    return report
