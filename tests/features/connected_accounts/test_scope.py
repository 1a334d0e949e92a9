"""Who may act on which account, on every route that there is: the matrix is made from the routes themselves."""

from __future__ import annotations

import re

import httpx
import pytest

from bursar.app import ROUTES
from bursar.http.caller import Gate
from bursar.http.families import LEGACY
from bursar.http.routes import Route
from tests.features.connected_accounts.factory import connect
from tests.support.service import Party, Service

pytestmark = pytest.mark.asyncio(loop_scope="module")

# The routes that act on the account that the caller or Service-Account names.
SCOPED = [route for route in ROUTES if route.family is LEGACY]
GATED = {gate: [route for route in SCOPED if route.gate is gate] for gate in Gate}


async def call(service: Service, route: Route, party: Party, **headers: str) -> httpx.Response:
    path = re.sub(r"\{[^}]+\}", "1", route.path)
    if route.writes:
        return await service.send(party, route.method, path, {}, **headers)
    return await service.get(party, path, **headers)


def code(reply: httpx.Response) -> tuple[int, str]:
    return reply.status_code, reply.json()["error"]["code"]


class TestNamingAnAccount:
    async def test_on_every_route(self, service: Service) -> None:
        platform, stranger = await service.open_account("platform"), await service.open_account("platform")
        merchant, unconnected = await service.open_account(), await service.open_account("platform")
        account = await connect(service, platform)
        await service.ops("PATCH", f"/accounts/{unconnected.merchant_id}", {"connect_enabled": False})
        number = account["id"].rpartition("_")[2]
        cases = (
            (merchant, account["id"], (403, "account_not_allowed")),
            (unconnected, account["id"], (403, "connect_not_enabled")),
            (stranger, account["id"], (404, "account_not_found")),
            (stranger, number, (404, "account_not_found")),
            (platform, "acc0000000000000000_" + number, (404, "account_not_found")),
            (platform, "1" * 15, (404, "account_not_found")),
            (platform, "shop", (422, "invalid_account_id")),
            (platform, "", (422, "invalid_account_id")),
        )
        assert len(SCOPED) > 25
        for route in SCOPED:
            for party, named, expected in cases:
                assert code(await call(service, route, party, Service_Account=named)) == expected, (route.name, named)

    async def test_keys_that_do_not_belong_to_it(self, service: Service) -> None:
        platform, other = await service.open_account("platform"), await service.open_account("platform")
        account = await connect(service, platform)
        for route in SCOPED:
            for headers in ({"X_Service_Client_Key": other.client_key}, {"X_Service_Public_Key": other.public_key}):
                reply = await call(service, route, platform, Service_Account=account["id"], **headers)
                assert code(reply) == (401, "account_key_mismatch"), route.name


class TestStates:
    @pytest.mark.parametrize(
        ("state", "gates", "expected"),
        [
            ({"status": "banned"}, (Gate.WRITE, Gate.PAYMENTS, Gate.TRANSFERS), (403, "account_banned")),
            ({"status": "pending"}, (Gate.PAYMENTS,), (403, "account_inactive")),
            ({"status": "pending"}, (Gate.TRANSFERS,), (403, "kyc_required")),
            ({"kyc_status": "pending"}, (Gate.TRANSFERS,), (403, "kyc_required")),
            ({"payments_paused": True}, (Gate.PAYMENTS,), (403, "payments_paused")),
            ({"connect_status": "paused"}, (Gate.PAYMENTS,), (403, "payments_paused")),
            ({"connect_status": "paused"}, (Gate.TRANSFERS,), (403, "payouts_paused")),
            ({"payouts_paused": True}, (Gate.TRANSFERS,), (403, "payouts_paused")),
            ({"status": "review"}, (Gate.TRANSFERS,), (403, "payouts_paused")),
            ({"connect_status": "review"}, (Gate.TRANSFERS,), (403, "payouts_paused")),
        ],
    )
    async def test_on_every_route_of_the_gate(
        self, service: Service, state: dict[str, object], gates: tuple[Gate, ...], expected: tuple[int, str]
    ) -> None:
        platform = await service.open_account("platform")
        merchant = await service.open_account(platform=platform.account_id)
        assert (await service.ops("PATCH", f"/accounts/{merchant.merchant_id}", state)).status_code == 200
        for route in (route for gate in gates for route in GATED[gate]):
            assert code(await call(service, route, merchant)) == expected, route.name
            acting = await call(service, route, platform, Service_Account=merchant.account_id)
            assert code(acting) == expected, route.name

    async def test_reads_are_open_in_every_state(self, service: Service) -> None:
        merchant = await service.open_account(status="banned")
        for route in (route for route in SCOPED if not route.writes and "{" not in route.path):
            if not route.path.startswith("/connected-accounts"):
                assert (await call(service, route, merchant)).status_code != 403, route.name
