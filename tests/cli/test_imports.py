"""Imports go one way only, and the command line starts without the service's weight."""

from __future__ import annotations

import ast
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import bursar

ROOT = Path(bursar.__file__).parent

# What each layer is made of; a module imports from its own layer and those above it in this list.
LAYERS = (
    {"core"},
    {"settings", "logs", "db", "http", "ledger", "events", "processors", "worker"},
    {"features"},
)
TOP = len(LAYERS)  # pages, console, docs, client, app, cli, supervisor, demo: whatever is not named above
LEVELS = {name: level for level, names in enumerate(LAYERS) for name in names}


def imports_of(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("bursar."):
            yield from (f"{node.module}.{name.name}" for name in node.names)
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.startswith("bursar."))


MODULES = [path for path in sorted(ROOT.rglob("*.py")) if path.parent != ROOT or path.stem != "__init__"]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_one_way(path: Path) -> None:
    place = path.relative_to(ROOT).with_suffix("").parts
    for imported in imports_of(path):
        layer = imported.split(".")[1]
        if layer != "__version__":
            below = LEVELS.get(layer, TOP) <= LEVELS.get(place[0], TOP)
            assert below, f"{'/'.join(place)} imports {imported}"


@pytest.mark.parametrize(
    "path", [path for path in MODULES if "features" in path.parts], ids=lambda path: str(path.relative_to(ROOT))
)
def test_imports_of_other_features_spare_their_insides(path: Path) -> None:
    """A feature calls another through its service; its statements and its handlers are its own."""
    own = path.relative_to(ROOT / "features").parts[0]
    for imported in imports_of(path):
        parts = imported.split(".")
        if parts[1] == "features" and parts[2] != own:
            inside = {"queries", "routes", "operator", "sweeps"} & set(parts[3:])
            assert not inside, f"{path.relative_to(ROOT)} imports {imported}"


def test_imports_of_the_command_line_are_light() -> None:
    """`bursar --help` loads neither the web server nor the database driver nor the models."""
    check = "import sys, bursar.cli.commands as c; c.command(); print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    heavy = {"asyncpg", "falcon", "uvicorn", "cryptography", "nacl", "bursar.settings", "bursar.app"}
    assert not heavy & set(ran.stdout.split())


def test_imports_leave_help_quick() -> None:
    """Judged by the processor's time, which a busy machine does not stretch so much."""
    took = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "bursar", "--help"], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(took) < 0.8
