"""One table of a run, and the same as JSON. Absolute figures belong to the machine; ratios travel."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench import goals, machine
from bench.load import Result

RESULTS = Path(__file__).parent / "results"
LATEST = RESULTS / "latest.json"

console = Console(width=150, highlight=False)


@dataclass(frozen=True)
class Case:
    """A case with its rounds; `against` names the cases it is held against, by what the ratio is called."""

    name: str
    rounds: Sequence[Result]
    against: Mapping[str, str] = field(default_factory=dict)

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

    @property
    def cpu_us(self) -> dict[str, float]:
        """The least of any round: what others do to the caches can only add to it."""
        return {
            name: min(result.cpu_us[name] for result in self.rounds if name in result.cpu_us)
            for name in self.best.cpu_us
        }


@dataclass
class Part:
    """What one part of a run found: cases, figures that are no rates, and why others are missing."""

    title: str
    cases: list[Case] = field(default_factory=list)
    figures: dict[str, float | None] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    checks: dict[str, Any] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)


class Deadline:
    """When the part that is running should be done; a round that would end later is not begun."""

    at = float("inf")


def rounds(measurements: Mapping[str, Callable[[], Result]], times: int) -> dict[str, list[Result]]:
    """Each measurement so many times, interleaved; at least once, and less often than asked for when time is short."""
    found: dict[str, list[Result]] = {name: [] for name in measurements}
    took = 0.0
    for number in range(times):
        started = time.monotonic()
        if number and started + took > Deadline.at:
            console.print(f"  {number} of {times} rounds: the time is up", style="dim")
            break
        for name, measure in measurements.items():
            result = measure()
            found[name].append(result)
            console.print(f"  {name}: {result.per_second:,.0f}/s", style="dim")
        took = time.monotonic() - started
    return found


def ratios(cases: Sequence[Case]) -> dict[str, float | None]:
    """Best of each side in one run; rounds are interleaved, so both had the same chances."""
    by_name = {case.name: case for case in cases}
    return {
        ratio: round(case.best.per_second / by_name[floor].best.per_second, 3)
        for case in cases
        for ratio, floor in case.against.items()
    }


def cpu_ratios(cases: Sequence[Case]) -> dict[str, float]:
    """The floor's processor time over ours, all processes together: what the ratio would be if nothing but the cores
    were in the way. It holds on a busy machine, too.
    """
    spent = {case.name: sum(case.cpu_us.values()) for case in cases}
    return {
        ratio: round(spent[floor] / spent[case.name], 3)
        for case in cases
        for ratio, floor in case.against.items()
        if spent[case.name]
    }


def document(parts: Sequence[Part], seconds: float) -> dict[str, Any]:
    """The whole run."""
    found: dict[str, float | None] = {}
    for part in parts:
        found |= {name: None for name in part.missing if name in goals.GOALS} | ratios(part.cases) | part.figures
    others = [result.others for part in parts for case in part.cases for result in case.rounds]
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "took_s": round(seconds),
        "machine": machine.facts() | {"others_cores_most": max(others, default=0.0)},
        "conditions": {
            "durable": "fsync, full_page_writes and synchronous_commit on",
            "limits_off": ["global throttles", "access log"],
            "worker": "runs where the case is the worker's",
        },
        "ratios": found,
        "cpu_ratios": {name: ratio for part in parts for name, ratio in cpu_ratios(part.cases).items()},
        "goals": {name: {"goal": goals.text(name), "met": goals.met(name, found.get(name))} for name in goals.GOALS},
        "missing": {name: why for part in parts for name, why in part.missing.items()},
        "checks": {name: result for part in parts for name, result in part.checks.items()},
        "parts": {
            part.title: {case.name: _figures(case) for case in part.cases} | dict(part.figures) for part in parts
        },
        **{name: value for part in parts for name, value in part.more.items()},
    }


def _figures(case: Case) -> dict[str, Any]:
    spent = case.best.cpu_us
    return {
        "best_per_second": round(case.best.per_second, 1),
        "median_per_second": round(case.median_rate, 1),
        "spread": round(case.spread, 3),
        "p50_ms": round(case.best.p50_ms, 3),
        "p99_ms": round(case.best.p99_ms, 3),
        "rounds": len(case.rounds),
        "cpu_us": case.cpu_us,
        "cores_used": round(sum(spent.values()) * case.best.per_second / 1e6, 2),
        "driver_share": round(spent.get("driver", 0.0) / max(1.0, sum(spent.values())), 3),
        "others_cores": case.best.others,
        "statuses": case.best.statuses,
        "ratios": list(case.against),
    }


def save(made: Mapping[str, Any], path: Path = LATEST) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(made, indent=2) + "\n")


COLUMNS = ("case", "best/s", "median/s", "spread", "p50 ms", "p99 ms", "CPU µs each", "ratio", "goal", "met")


def table_rows(made: Mapping[str, Any], title: str) -> list[tuple[str, ...]]:
    """The rows of one part; several ratios of one case stand below each other."""
    rows = []
    for name, figures in made["parts"][title].items():
        if isinstance(figures, dict):
            names = figures["ratios"]
            spent = ", ".join(f"{who} {micros:.0f}" for who, micros in figures["cpu_us"].items() if micros >= 1)
            quick = figures["p50_ms"] > 0
            row = (
                name, f"{figures['best_per_second']:,.0f}", f"{figures['median_per_second']:,.0f}",
                f"{figures['spread']:.0%}", f"{figures['p50_ms']:.2f}" if quick else "",
                f"{figures['p99_ms']:.2f}" if quick else "", spent,
            )  # fmt: skip
        else:
            names, row = [name], (name, "", "", "", "", "", "")
        shown = [_ratio(made, ratio) for ratio in names] or [("", "", "")]
        rows.append((*row, *("\n".join(column) for column in zip(*shown, strict=True))))
    return rows


def _ratio(made: Mapping[str, Any], name: str) -> tuple[str, str, str]:
    value = made["ratios"][name]
    met = goals.met(name, value)
    return (
        "not measured" if value is None else f"{value:.2f}",
        goals.text(name),
        "" if met is None else "yes" if met else "no",
    )


def show(made: Mapping[str, Any]) -> None:
    """One table of everything."""
    table = Table(title=f"Bursar, {made['at']}, {made['took_s']} s")
    for column in COLUMNS:
        table.add_column(column, justify="left" if column in ("case", "CPU µs each", "met") else "right")
    for title in filter(made["parts"].get, made["parts"]):
        table.add_section()
        table.add_row(title, style="bold")
        for row in table_rows(made, title):
            table.add_row(*row)
    console.print(table)
    for name, why in made["missing"].items():
        console.print(f"{name}: {why}")
    if note := machine.warning(made["machine"]["others_cores_most"]):
        console.print(note, style="bold red")
