"""Writes the table of the last run between two markers of docs/performance.md."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench import report
from bench.machine import BUSY

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
BEGIN, END = "<!-- make bench: begin -->", "<!-- make bench: end -->"


def write() -> None:
    made = json.loads(report.LATEST.read_text())
    page = PAGE.read_text()
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    if not after:
        raise SystemExit(f"{PAGE} has no markers {BEGIN} and {END}")
    PAGE.write_text(f"{before}{BEGIN}\n{block(made)}{END}{after}")


def block(made: Mapping[str, Any]) -> str:
    machine = made["machine"]
    run = (
        f"Run of {made['at'][:10]}, {made['took_s']} s, on {machine['cores']} cores ({machine['cpu']}), "
        f"{machine['memory_mib'] / 1024:.0f} GiB, Python {machine['python']}; others used at most "
        f"{machine['others_cores_most']:.1f} cores meanwhile."
    )
    lines = [run]
    if machine["others_cores_most"] >= BUSY:
        lines += ["", "**The machine was busy with other work: rates and ratios of this run are not to be quoted.**"]
    for title in filter(made["parts"].get, made["parts"]):
        rows = report.table_rows(made, title)
        lines += ["", f"**{title}**", "", *_table(rows)]
    if made["missing"]:
        lines += ["", "Not measured:", ""]
        lines += [f"- `{name}`: {why}" for name, why in made["missing"].items()]
    return "\n".join(lines) + "\n"


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    lines = ["| " + " | ".join(report.COLUMNS) + " |", "|" + " --- |" * len(report.COLUMNS)]
    return lines + ["| " + " | ".join(cell.replace("\n", "<br>") for cell in row) + " |" for row in rows]
