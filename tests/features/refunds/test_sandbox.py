"""A refund in the sandbox: what would have happened is told, and nothing is kept."""

from __future__ import annotations

from tests.support.service import Service


async def test_tells_of_the_journal_the_call_and_the_event(service: Service) -> None:
    merchant = await service.open_account()
    listed = await service.get(merchant.test_secret_key, "/sandbox/v2/transactions?status=succeeded")
    paid = next(row for row in listed.json()["data"] if row["refundable_amount"] > 1)
    before = (await service.get(merchant.test_secret_key, "/sandbox/v2/balances")).json()["data"]["wallets"][0]
    assert before["available"] == 10_000
    reply = await service.send(
        merchant.test_secret_key, "POST", f"/sandbox/v2/transactions/{paid['id']}/refund", {"amount": 1}
    )
    assert reply.status_code == 200, reply.text
    effects = reply.json()["meta"]["effects"]
    assert {"type": "processor_call", "operation": "refund"} in effects
    assert {"type": "event", "event": "transaction.refunded"} in effects
    [journal] = [effect for effect in effects if effect["type"] == "journal"]
    assert (journal["journal"], journal["currency"], sum(journal["wallet"].values())) == ("refund", "GBP", -1)
    after = (await service.get(merchant.test_secret_key, "/sandbox/v2/balances")).json()["data"]["wallets"][0]
    assert after == before
