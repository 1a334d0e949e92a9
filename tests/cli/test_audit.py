"""`bursar audit verify`, from the database itself: shallow and deep, for people and for programs."""

from __future__ import annotations

import pytest

from bursar.ledger import deep
from tests.cli.conftest import Run
from tests.support.service import Service


@pytest.fixture
def database(service: Service, bare: pytest.MonkeyPatch) -> None:
    bare.setenv("BURSAR_DATABASE_URL", service.urls.service)


@pytest.mark.usefixtures("database")
async def test_deep_adds_every_invariant(run: Run) -> None:
    names = {check.name for check in deep.checks()}
    shallow = (await run("audit", "verify", "--json")).data
    assert not names & {check["name"] for check in shallow["checks"]}
    found = (await run("audit", "verify", "--deep", "--json")).data
    assert found["ok"]
    assert names <= {check["name"] for check in found["checks"]}
    for_people = await run("audit", "verify", "--deep")
    assert for_people.status == 0
    assert "The ledger is sound." in for_people.out


@pytest.mark.usefixtures("database")
async def test_what_is_wrong_is_named_and_is_the_status(run: Run, service: Service) -> None:
    await service.db.execute(
        """
        INSERT INTO idempotency_key (account_id, family, scope, key, fingerprint, created_at, expires_at)
        VALUES (1001, 'legacy', '1001 POST /v2/refunds', 'stuck-key', '', now(), now() + interval '1 day')
        """
    )
    assert (await run("audit", "verify")).status == 0
    deeply = await run("audit", "verify", "--deep")
    assert deeply.status == 1
    assert "stuck-key" in deeply.out
