"""Whoever changes the code that a bug is planted in hears of it here, long before the suite is next tried on it."""

from __future__ import annotations

import pytest

from tests.faults.planted.bugs import BUGS, Bug
from tests.faults.planted.copies import ROOT, DoesNotFit, patched
from tests.faults.planted.plans import PLANS


def test_there_are_twelve() -> None:
    assert len({bug.name for bug in BUGS}) == len(BUGS) == 12
    assert {bug.plan for bug in BUGS} == PLANS.keys()


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_its_patches_fit_and_are_python(bug: Bug) -> None:
    texts: dict[str, str] = {}
    for patch in bug.patches:
        before = texts.setdefault(patch.file, (ROOT / patch.file).read_text())
        texts[patch.file] = patched(before, patch)
        assert texts[patch.file] != before
    for file, text in texts.items():
        if file.endswith(".py"):
            compile(text, file, "exec")


@pytest.mark.parametrize("text", ["", "twice, twice"], ids=["missing", "twice"])
def test_a_patch_that_does_not_fit_is_refused(text: str) -> None:
    [patch, *_] = BUGS[0].patches
    with pytest.raises(DoesNotFit):
        patched(text.replace("twice", patch.old), patch)
