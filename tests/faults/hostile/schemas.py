"""Schemathesis over every operation of the document, all phases, with real keys and signatures.

Nothing but documented statuses and codes, no reply that is not as documented, no 5xx.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.faults.hostile import document
from tests.faults.hostile.estate import furnish
from tests.faults.report import Report
from tests.faults.running import until
from tests.support.house import House, house

EXAMPLES = {"push": 20, "full": 200, "soak": 1000}
LONGEST_S = {"push": 85, "full": 600, "soak": 3600}
PHASES = {"push": "examples,fuzzing"} | dict.fromkeys(("full", "soak"), "examples,coverage,fuzzing,stateful")
CHECKS = (
    "not_a_server_error", "status_code_conformance", "content_type_conformance", "response_headers_conformance",
    "response_schema_conformance",
)  # fmt: skip


async def run(tier: str, seed: int) -> Report:
    report = Report("schemas")
    async with house() as serving:
        caller = await _caller(serving)
        with tempfile.TemporaryDirectory() as place:
            status, output = await _schemathesis(serving, caller, tier, seed, place)
        if found := re.search(r"(\d+) generated", output):
            report.count("requests", int(found[1]))
        failures = output.partition("= FAILURES =")[2] or output
        report.expect(status is not None, "stopped for lack of time, before Schemathesis gave its verdict")
        report.expect(status in (0, None), f"Schemathesis says:\n{failures[:20_000]}")
        described = await document.of(serving)
        report.count("operations", len(list(described.operations())))
        report.expect(await serving.audit() == [], "the audit finds fault with the books")
        log = serving.log()
        report.expect("request.failed" not in log, "the log tells of a request that failed")
    return report


async def _caller(serving: House) -> dict[str, Any]:
    """One account that calls, and another for the operator to change, so that the caller is not banned half-way."""
    platform = await serving.open_account("platform")
    own = await furnish(serving, await serving.open_account(platform=platform.account_id), "own")
    other = await furnish(serving, await serving.open_account(platform=platform.account_id), "other")
    return {
        "secret": own.party.secret_key,
        "operator": serving.operator_key,
        "ids": own.ids,
        "other_ids": other.ids,
    }


async def _schemathesis(
    serving: House, caller: dict[str, Any], tier: str, seed: int, place: str
) -> tuple[int | None, str]:
    return await until(
        [sys.executable, "-m", "schemathesis.cli", "run", f"{serving.serving.url}/openapi.json",
         "--url", serving.serving.url, "--phases", PHASES[tier], "--checks", ",".join(CHECKS),
         "--max-examples", str(EXAMPLES[tier]), "--seed", str(seed), "--continue-on-failure", "--no-shrink",
         "--generation-database", "none", "--suppress-health-check", "all", "--no-color", "--output-truncate", "true",
         "--warnings", "off",
         "--request-timeout", "60"],
        LONGEST_S[tier],
        env={**os.environ, "SCHEMATHESIS_HOOKS": "tests.faults.hostile.schema_hooks",
             "FAULTS_CALLER": json.dumps(caller), "PYTHONPATH": str(Path.cwd())},
        cwd=place,
    )  # fmt: skip
