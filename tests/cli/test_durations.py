"""Lengths of time as people write them."""

from __future__ import annotations

import pytest

from bursar.cli.durations import seconds


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30s", 30),
        ("90m", 5_400),
        ("36h", 129_600),
        ("45d", 3_888_000),
        ("2w", 1_209_600),
        ("1d12h", 129_600),
        (" 1D ", 86_400),
        ("0s", 0),
    ],
)
def test_reads(text: str, expected: int) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "45", "d", "1.5d", "-1d", "1y", "1d 12h", "1d,12h", "٣d", "9999999999d"])
def test_refuses(text: str) -> None:
    with pytest.raises(ValueError, match="write 45d"):
        seconds(text)
