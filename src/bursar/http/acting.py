"""A context for work that no API request does: a hosted page, a sweep of the worker, or what a request left behind."""

from __future__ import annotations

from bursar.core import ids
from bursar.core.crypto import Vault
from bursar.db.clock import instance_now
from bursar.db.notify import ACCOUNT_CHANGED
from bursar.db.pool import Connection, Database
from bursar.http.caller import load_account
from bursar.http.context import Ctx
from bursar.http.pipeline import NOBODY
from bursar.settings import Settings


async def acting_on(
    db: Connection, account_id: int, settings: Settings, vault: Vault, *, request_id: str | None = None,
    idempotency_key: str | None = None,
) -> Ctx:  # fmt: skip
    """A context without a caller, in the open transaction. Whoever asks for it writes its events. 0 is nobody."""
    account = await load_account(db, account_id) if account_id else NOBODY
    assert account is not None
    return Ctx(
        account=account,
        caller=None,
        db=db,
        dated=await instance_now(db),
        request_id=request_id or ids.new_request_id(),
        vault=vault,
        settings=settings,
        idempotency_key=idempotency_key,
        livemode=not settings.is_test,
    )


async def announce(db: Database, ctx: Ctx) -> None:
    """After the commit: every process forgets what it knew of the accounts that changed. For sweeps."""
    for account_id in ctx.stale_accounts:
        await db.execute("SELECT pg_notify($1, $2)", ACCOUNT_CHANGED, str(account_id))
