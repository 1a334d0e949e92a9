"""What the service must reach, as ratios in one run on one machine. Higher is better, but for what is named `_ms` or
`_mib`.
"""

from __future__ import annotations

GOALS = {
    "create_vs_pgbench_statements": 1.0,
    "create_vs_pgbench_single": 0.5,
    "create_p50_over_pgbench_ms": 1.0,
    "outcome_vs_pgbench_single": 0.8,
    "outcome_hot_vs_spread": 0.9,
    "ledger_vs_pgledger_spread": 4.0,
    "ledger_vs_pgledger_hot": 8.0,
    "create_slow_flush": 0.85,
    "hot_ledger_slow_flush": 0.8,
    "read_vs_bare_handler": 0.5,
    "list_vs_bare_handler": 0.5,
    "deliver_vs_bare_client": 0.6,
    "memory_idle_mib": 150.0,
    "memory_load_mib": 250.0,
    "commit_to_first_attempt_ms": 200.0,
}


def at_most(name: str) -> bool:
    return name.endswith(("_ms", "_mib"))


def text(name: str) -> str:
    if (goal := GOALS.get(name)) is None:
        return ""
    return f"{'≤' if at_most(name) else '≥'} {goal:g}"


def met(name: str, value: float | None) -> bool | None:
    """None where there is no goal; what could not be measured is not met."""
    if (goal := GOALS.get(name)) is None:
        return None
    if value is None:
        return False
    return value <= goal if at_most(name) else value >= goal
