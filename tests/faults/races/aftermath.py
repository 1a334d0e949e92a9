"""What must be true of the books and of the database once a race is over."""

from __future__ import annotations

from decimal import Decimal

from tests.faults.report import Report
from tests.support.house import House
from tests.support.service import Party

PROCESSES = ("--api-processes", "2")


async def judge(serving: House, report: Report) -> None:
    """The service's own audit finds nothing, PostgreSQL saw no deadlock, and no request failed for want of a rule."""
    report.expect(await serving.audit() == [], "the audit finds fault with the books")
    server = (serving.serving.data_dir / "postgres.log").read_text(errors="replace")
    for trouble in ("deadlock detected", "could not serialize"):
        at = server.find(trouble)
        report.expect(at < 0, f"PostgreSQL: {server[at : at + 3000]}")
    failed = [line for line in serving.log().splitlines() if "request.failed" in line]
    report.expect(not failed, f"{len(failed)} requests failed, the first: {''.join(failed[:1])[:4000]}")


async def available(serving: House, merchant: Party) -> Decimal:
    """What the account can spend, in pounds."""
    wallets = (await serving.get(merchant, "/balances")).data["wallets"]
    return next(Decimal(str(wallet["available"])) for wallet in wallets if wallet["currency"]["code"] == "GBP")
