"""The machine a run had: what it is, how busy others kept it, and which process spent the processor's time on what.

Rates depend on who else is running; the processor time that a request costs hardly does.
"""

from __future__ import annotations

import os
import platform
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

BUSY = 0.3  # cores in other hands from which on a run is not worth quoting

_TICK = os.sysconf("SC_CLK_TCK")


def facts() -> dict[str, Any]:
    cpu = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    memory = re.search(r"MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text())
    return {
        "cores": os.cpu_count(),
        "cpu": cpu[1] if cpu else platform.processor(),
        "machine": platform.machine(),
        "memory_mib": int(memory[1]) // 1024 if memory else None,
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def busy_cores(seconds: float = 1.0) -> float:
    """How many cores are at work while we do nothing."""
    before = _cores()
    time.sleep(seconds)
    return round((_cores() - before) / seconds, 2)


def warning(cores: float) -> str:
    """What to say about others at work; empty when the machine is quiet."""
    if cores < BUSY:
        return ""
    load = ", ".join(f"{part:.2f}" for part in os.getloadavg())
    return f"Others keep {cores:.1f} of {os.cpu_count()} cores busy (load average {load}): rates say little."


class Meter:
    """Processor time of groups of processes, each with its descendants, while the block runs; and that of everybody
    else, as cores.
    """

    def __init__(self, groups: Mapping[str, Sequence[int]]) -> None:
        self._groups = groups
        self.seconds: dict[str, float] = {}
        self.others = 0.0

    def __enter__(self) -> Self:
        self._before, self._cores_before, self._started = self._look(), _cores(), time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        elapsed = time.perf_counter() - self._started
        after, cores = self._look(), _cores() - self._cores_before
        self.seconds = {name: max(0.0, spent - self._before[name]) for name, spent in after.items()}
        self.others = max(0.0, round((cores - sum(self.seconds.values())) / elapsed, 2))

    def _look(self) -> dict[str, float]:
        spent, children = _processes()
        found = {}
        for name, roots in {**self._groups, "bench": [os.getpid()]}.items():
            theirs = {pid for other, pids in self._groups.items() if other != name for pid in pids}
            tree, left = set(), [pid for pid in roots if pid in spent]
            while left:
                pid = left.pop()
                tree.add(pid)
                left += [child for child in children.get(pid, ()) if child not in tree and child not in theirs]
            # A root also answers for children that are gone, as the server does for its closed connections.
            found[name] = sum(spent[pid][0] for pid in tree) + sum(spent[pid][1] for pid in roots if pid in spent)
        return found


def _processes() -> tuple[dict[int, tuple[float, float]], dict[int, list[int]]]:
    """Seconds (own, of children that ended) by process, and who is whose child."""
    spent: dict[int, tuple[float, float]] = {}
    children: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            fields = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(entry.name)
        spent[pid] = (
            (int(fields[11]) + int(fields[12])) / _TICK,
            (int(fields[13]) + int(fields[14])) / _TICK,
        )
        children.setdefault(int(fields[1]), []).append(pid)
    return spent, children


def _cores() -> float:
    """Seconds that all cores together have been at work."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / _TICK


def resident_mib(pid: int, *, peak: bool = False) -> float:
    """Memory now, or the most since `forget_peak`."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(rf"{'VmHWM' if peak else 'VmRSS'}:\s+(\d+)", status)
    assert found is not None
    return int(found[1]) / 1024


def forget_peak(pid: int) -> None:
    Path(f"/proc/{pid}/clear_refs").write_text("5")
