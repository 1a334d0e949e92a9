"""One table of a run, and the same as JSON. Absolute figures belong to the machine; ratios travel."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.load import Result

RESULTS = Path(__file__).parent / "results" / "latest.json"


@dataclass(frozen=True)
class Case:
    """A case with its rounds; `floor` names the case it is held against, `ratio` how that figure is called."""

    name: str
    rounds: Sequence[Result]
    floor: str | None = None
    ratio: str | None = None
    goal: float | None = None
    mib: float | None = None
    goal_mib: float | None = None

    @property
    def best(self) -> Result:
        return max(self.rounds, key=lambda result: result.per_second)

    @property
    def median_rate(self) -> float:
        return statistics.median(result.per_second for result in self.rounds)

    @property
    def spread(self) -> float:
        rates = [result.per_second for result in self.rounds]
        return (max(rates) - min(rates)) / max(rates)


def ratios(cases: Sequence[Case]) -> dict[str, float]:
    """Best of each side in one run; rounds are interleaved, so both had the same chances."""
    by_name = {case.name: case for case in cases}
    return {
        case.ratio: round(case.best.per_second / by_name[case.floor].best.per_second, 3)
        for case in cases
        if case.ratio and case.floor
    }


def show(cases: Sequence[Case], title: str) -> None:
    found = ratios(cases)
    table = Table(title=title)
    for column in ("case", "best/s", "median/s", "spread", "p50 ms", "p99 ms", "ratio", "goal"):
        table.add_column(column, justify="left" if column == "case" else "right")
    for case in cases:
        if case.mib is not None:
            table.add_row(case.name, f"{case.mib:.0f} MiB", "", "", "", "", "", f"≤ {case.goal_mib:.0f} MiB")
            continue
        best = case.best
        ratio = f"{found[case.ratio]:.2f}" if case.ratio else ""
        table.add_row(
            case.name, f"{best.per_second:,.0f}", f"{case.median_rate:,.0f}", f"{case.spread:.0%}",
            f"{best.p50_ms:.2f}", f"{best.p99_ms:.2f}", ratio, f"≥ {case.goal}" if case.goal else "",
        )  # fmt: skip
    Console(width=130).print(table)


def save(cases: Sequence[Case], more: dict[str, Any]) -> None:
    RESULTS.parent.mkdir(exist_ok=True)
    machine = {"cores": os.cpu_count(), "machine": platform.machine(), "python": platform.python_version()}
    figures = {
        case.name: {"mib": case.mib}
        if case.mib is not None
        else {
            "best_per_second": round(case.best.per_second, 1),
            "median_per_second": round(case.median_rate, 1),
            "spread": round(case.spread, 3),
            "p50_ms": round(case.best.p50_ms, 3),
            "p99_ms": round(case.best.p99_ms, 3),
            "statuses": case.best.statuses,
        }
        for case in cases
    }
    document = {
        "at": datetime.now(UTC).isoformat(),
        "machine": machine,
        "figures": figures,
        "ratios": ratios(cases),
        **more,
    }
    RESULTS.write_text(json.dumps(document, indent=2) + "\n")
