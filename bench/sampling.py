"""Where a process spends its time: a sampler that any process can run in itself, and the flame graph of what it saw.

A timer interrupts the process every other millisecond; what is on the stack then is counted with the processor time
spent since the last look, so waiting counts for nothing. Time in C code counts for the Python line that called it.
"""

from __future__ import annotations

import html
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType

EVERY_S = 0.002
DEEPEST = 80
WIDTH, ROW = 1400, 17
NARROWEST = 0.8  # pixels; what is less wide is left out


@contextmanager
def sampled(path: str | None) -> Iterator[None]:
    """Writes folded stacks (`a;b;c 120`, in microseconds) to `path` when the block ends; does nothing without one."""
    if path is None:
        yield
        return
    seen: Counter[tuple[int, ...]] = Counter()
    codes: dict[int, CodeType] = {}
    last = time.process_time_ns()

    def look(_: int, frame: FrameType | None) -> None:
        nonlocal last
        now = time.process_time_ns()
        stack: list[int] = []
        while frame is not None and len(stack) < DEEPEST:
            number = id(frame.f_code)
            codes[number] = frame.f_code
            stack.append(number)
            frame = frame.f_back
        seen[tuple(reversed(stack))] += (now - last) // 1000
        last = time.process_time_ns()  # the look itself is nobody's
        signal.setitimer(signal.ITIMER_REAL, EVERY_S)  # never while still looking

    before = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, EVERY_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        names = {number: _name(code) for number, code in codes.items()}
        lines = (";".join(names[number] for number in stack) + f" {spent}\n" for stack, spent in seen.items())
        Path(path).write_text("".join(lines))


def _name(code: CodeType) -> str:
    parts = Path(code.co_filename).with_suffix("").parts
    start = max((parts.index(root) for root in ("bursar", "bench", "site-packages", "python3.11") if root in parts),
                default=len(parts) - 2)  # fmt: skip
    module = ".".join(parts[start:]).removeprefix("site-packages.")
    return f"{module}:{code.co_qualname}"


# The picture ---------------------------------------------------------------------------------------------------


class _Node:
    def __init__(self) -> None:
        self.count = 0
        self.children: dict[str, _Node] = {}


def flame_graph(folded: str, title: str) -> str:
    """An SVG: each box is a function, as wide as its share of the time, on top of who called it."""
    root = _Node()
    for line in folded.splitlines():
        stack, _, count = line.rpartition(" ")
        node = root
        node.count += int(count)
        for name in stack.split(";"):
            node = node.children.setdefault(name, _Node())
            node.count += int(count)
    boxes: list[tuple[float, int, float, str, int]] = []
    _place(root, 0.0, 0, WIDTH / max(1, root.count), boxes)
    height = (max((depth for _, depth, *_ in boxes), default=0) + 3) * ROW
    drawn = "".join(_box(box, height, root.count) for box in boxes)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="monospace" '
        f'font-size="11"><rect width="100%" height="100%" fill="#fff"/>'
        f'<text x="4" y="{ROW - 4}" font-size="13">{html.escape(title)}</text>{drawn}</svg>\n'
    )


def _place(node: _Node, x: float, depth: int, scale: float, boxes: list[tuple[float, int, float, str, int]]) -> None:
    for name, child in sorted(node.children.items()):
        width = child.count * scale
        if width >= NARROWEST:
            boxes.append((x, depth, width, name, child.count))
            _place(child, x, depth + 1, scale, boxes)
        x += width


def _box(box: tuple[float, int, float, str, int], height: int, total: int) -> str:
    x, depth, width, name, count = box
    y = height - (depth + 1) * ROW
    hue = 30 if name.startswith("bursar") else 200
    light = 62 + sum(name.encode()) % 20
    letters = int(width / 6.8)
    module, _, function = name.rpartition(":")
    short = f"{module.rpartition('.')[2]}:{function}"
    label = html.escape(short[: letters - 1] + "…" if len(short) > letters else short) if letters > 3 else ""
    return (
        f"<g><title>{html.escape(name)}: {count / total:.1%} ({count / 1000:.0f} ms)</title>"
        f'<rect x="{x:.1f}" y="{y}" width="{width - 0.3:.1f}" height="{ROW - 1}" fill="hsl({hue},75%,{light}%)"/>'
        f'<text x="{x + 2:.1f}" y="{y + ROW - 5}">{label}</text></g>'
    )


def hottest(folded: str, most: int = 25) -> list[tuple[str, float, float]]:
    """(function, its share of the time in itself, its share with what it calls), by the first."""
    own: Counter[str] = Counter()
    whole: Counter[str] = Counter()
    total = 0
    for line in folded.splitlines():
        stack, _, count = line.rpartition(" ")
        names = stack.split(";")
        own[names[-1]] += int(count)
        whole.update(dict.fromkeys(names, int(count)))
        total += int(count)
    return [(name, count / total, whole[name] / total) for name, count in own.most_common(most)]
