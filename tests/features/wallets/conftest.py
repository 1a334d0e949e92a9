"""A service with wallets, whether or not the application already has their routes."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from bursar.app import ROUTES
from bursar.db.embedded import Urls
from bursar.features.wallets import operator, routes
from bursar.ledger import seals, settlement
from tests.support.service import Service, running_service


@pytest.fixture
async def service(urls: Urls) -> AsyncIterator[Service]:
    known = {route.name for route in ROUTES}
    missing = [route for route in (*routes.ROUTES, *operator.ROUTES) if route.name not in known]
    sweeps = [settlement.SWEEP, seals.SWEEP] if missing else []
    async with running_service(urls, routes=missing, sweeps=sweeps) as running:
        yield running
