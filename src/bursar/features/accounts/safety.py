"""The platform safety limit: how far a platform that pays its merchants' fees may fall behind."""

from __future__ import annotations

from decimal import Decimal

from bursar.core.errors import PlatformSafetyLimit
from bursar.core.money import Money
from bursar.db.pool import Queryable
from bursar.features.accounts.schemas import SafetyLimit
from bursar.http.context import Account

LIMIT = Decimal("500.00")
ZERO = Decimal("0.00")


async def standing(db: Queryable, platform_id: int) -> SafetyLimit:
    """A platform's lowest balance and what it owes, in major units whatever the currency."""
    rows = await db.fetch("SELECT currency, main + pending AS available FROM wallet WHERE account_id = $1", platform_id)
    balances = [Money(row["available"], row["currency"]).decimal for row in rows]
    lowest = min(balances, default=ZERO)
    debt = sum((-balance for balance in balances if balance < 0), ZERO)
    return SafetyLimit(lowest <= -LIMIT or debt >= LIMIT, LIMIT, lowest, debt)


async def refuse_if_blocked(db: Queryable, platform: Account) -> None:
    """New connected accounts, payouts and funding wait until the balance is restored."""
    if platform.fee_payer != "platform":
        return
    now = await standing(db, platform.account_id)
    if now.blocked:
        raise PlatformSafetyLimit(
            details={
                "limit": now.limit,
                "lowest_wallet_balance": now.lowest_wallet_balance,
                "outstanding_debt": now.outstanding_debt,
            }
        )
