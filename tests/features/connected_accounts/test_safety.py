"""The platform safety limit."""

from __future__ import annotations

import asyncpg
import pytest

from tests.features.connected_accounts.factory import connect, new_body
from tests.support.service import Party, Service

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def set_wallet(service: Service, party: Party, currency: str, minor: int) -> None:
    """A balance, written by the owner of the tables: how it came about is the ledger's business."""
    connection = await asyncpg.connect(service.urls.owner)
    try:
        await connection.execute(
            """
            INSERT INTO wallet (account_id, currency, id, main, created_at, updated_at)
            VALUES ($1, $2, nextval('wallet_id'), $3, now(), now())
            ON CONFLICT (account_id, currency) DO UPDATE SET main = excluded.main
            """,
            party.merchant_id,
            currency,
            minor,
        )
    finally:
        await connection.close()


class TestSafetyLimit:
    async def test_a_platform_that_pays_fees_is_stopped_at_its_limit(self, service: Service) -> None:
        platform = await service.open_account("platform", fee_payer="platform")
        account = await connect(service, platform)
        assert account["connect"]["fee_payer"] == "platform"
        assert account["connect"]["platform_safety_limit"] == {
            "blocked": False, "limit": 500.0, "lowest_wallet_balance": 0.0, "outstanding_debt": 0.0,
        }  # fmt: skip
        await set_wallet(service, platform, "GBP", -49_999)
        await connect(service, platform)
        await set_wallet(service, platform, "GBP", -50_000)
        reply = await service.send(platform, "POST", "/connected-accounts", new_body())
        assert (reply.status_code, reply.json()["error"]["code"]) == (403, "platform_safety_limit")
        assert reply.json()["error"]["details"]["outstanding_debt"] == 500.0
        shown = (await service.get(platform, f"/connected-accounts/{account['id']}")).json()["data"]["account"]
        assert shown["connect"]["platform_safety_limit"]["blocked"] is True
        await set_wallet(service, platform, "GBP", 100)
        await connect(service, platform)

    async def test_debts_in_several_currencies_add_up(self, service: Service) -> None:
        platform = await service.open_account("platform", fee_payer="platform")
        await set_wallet(service, platform, "GBP", -30_000)
        await set_wallet(service, platform, "EUR", -20_000)
        reply = await service.send(platform, "POST", "/connected-accounts", new_body())
        assert reply.json()["error"]["code"] == "platform_safety_limit"

    async def test_where_merchants_pay_there_is_no_limit(self, service: Service) -> None:
        platform = await service.open_account("platform")
        await set_wallet(service, platform, "GBP", -90_000)
        account = await connect(service, platform)
        assert account["connect"]["platform_safety_limit"] is None
