from datetime import timedelta
from bursar.db.pool import Database
from bursar.db.clock import instance_now
from bursar.ledger import journals
from bursar.ledger.post import post

async def test_a(db: Database) -> None:
    now = await instance_now(db)
    p = journals.payment(account_id=1001, transaction_id=1, currency="GBP", amount=10000, settles_at=now+timedelta(days=2), processing_fee=270, application_fee=500, platform_id=2001, fee_payer="platform")
    async with db.transaction() as c:
        print(await post(c, [p, p]))
    async with db.transaction() as c:
        print(await post(c, [p, journals.payout(account_id=1001, payout_id=1, currency="GBP", amount=5000), journals.payout(account_id=1001, payout_id=2, currency="GBP", amount=5000, speed="instant", fee=50), journals.refund(account_id=1001, refund_id=1, transaction_id=1, currency="GBP", amount=2000, application_fee_reversed=100, platform_id=2001), journals.settlement(account_id=1001, currency="GBP", source="transaction:1"), journals.settlement(account_id=1001, currency="GBP", source="transaction:2")]))
    for t in ("wallet","journal","wallet_entry","unsettled","drawn", "wallet_transaction"):
        print(t)
        for r in await db.fetch(f"select * from {t}"):
            print("  ", dict(r))
    print(await db.fetchval("select ledger_seal(100)"))
    print(await db.fetch("select * from seal"))
