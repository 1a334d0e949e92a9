from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from bursar.db.embedded import Urls
from tests.processors.running import Rig, running_simulator


@pytest.fixture
async def rig(urls: Urls) -> AsyncIterator[Rig]:
    """The simulator and a shop beside it."""
    async with running_simulator(urls) as running:
        yield running
