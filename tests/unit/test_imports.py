"""Import directions, read from the source: what may know what."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "src" / "bursar"

# What each part may import of ours, besides itself and the version.
MAY_IMPORT = {
    "core": set[str](),
    "settings": {"core"},
    "logs": {"core", "settings"},
    "db": {"core", "settings"},
    "events": {"core", "db", "settings", "logs"},
    "ledger": {"core", "db", "settings", "logs"},
    "processors": {"core", "db", "settings", "logs"},
    "http": {"core", "db", "events", "settings", "logs"},
    "features": {"core", "db", "events", "http", "ledger", "logs", "processors", "settings"},
    "worker": {"core", "db", "events", "http", "logs", "settings"},
    "docs": {"core", "http", "settings"},
}
# Only what is on top knows every feature.
KNOWS_FEATURES = {"features", "pages", "console", "cli", "app"}

# A feature calls another through its service; its errors and wire types are declarations that others may name.
OPEN_MODULES = {"service", "errors", "schemas"}
EXCEPTIONS = {
    "accounts.activation": "moves a pending account on, whoever clears the last requirement",
    "accounts.pricing": "a pure rule: the prices in force",
    "uploads.inspection": "a pure rule: what a file is, by its content",
}


@cache
def _modules() -> list[tuple[str, tuple[str, ...], list[str]]]:
    """Part, place and imports of each module of ours."""
    modules = []
    for path in sorted(ROOT.rglob("*.py")):
        place = path.relative_to(ROOT).with_suffix("").parts
        names = []
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{path} imports relatively"
                if (node.module or "").split(".")[0] == "bursar":
                    names += [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                names += [alias.name for alias in node.names if alias.name.split(".")[0] == "bursar"]
        modules.append((place[0], place, names))
    return modules


@pytest.mark.parametrize("part", MAY_IMPORT)
def test_a_part_imports_only_what_is_below_it(part: str) -> None:
    for found, place, names in _modules():
        if found != part:
            continue
        for name in names:
            target = name.split(".")[1]
            allowed = target in {part, "__version__"} or target in MAY_IMPORT[part]
            assert allowed, f"{'.'.join(place)} imports {name}"


def test_only_the_top_knows_the_features() -> None:
    for part, place, names in _modules():
        if part in KNOWS_FEATURES:
            continue
        for name in names:
            assert not name.startswith("bursar.features"), f"{'.'.join(place)} imports {name}"


def test_a_feature_reaches_another_through_its_service() -> None:
    for part, place, names in _modules():
        if part != "features":
            continue
        for name in names:
            pieces = name.split(".")
            if pieces[1] != "features" or len(pieces) < 4 or pieces[2] == place[1]:
                continue
            fits = pieces[3] in OPEN_MODULES or f"{pieces[2]}.{pieces[3]}" in EXCEPTIONS
            assert fits, f"{'.'.join(place)} imports {name}"


def test_nobody_imports_the_application() -> None:
    for part, place, names in _modules():
        for name in names:
            if name.startswith("bursar.app"):
                assert part in {"cli", "supervisor", "__main__"}, f"{'.'.join(place)} imports {name}"
