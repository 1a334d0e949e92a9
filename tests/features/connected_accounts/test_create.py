from __future__ import annotations

from tests.features.connected_accounts.factory import connect, events_of, new_body
from tests.support.service import Service


class TestCreate:
    async def test_a_new_account_is_pending(self, service: Service) -> None:
        platform = await service.open_account("platform")
        account = await connect(service, platform, metadata={"shop": "7"})
        print(account)
        assert account["status"] == account["kyc_status"] == "pending"
        assert account["metadata"] == {"shop": "7"}
        [event] = await events_of(service, "connected_account.created")
        assert event["data"]["account"]["id"] == account["id"]
        assert new_body()
