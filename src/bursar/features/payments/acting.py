"""The accounts that one transaction acts on. What happens to payments of many accounts is written at once, and each
account's events are told in its own name.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from datetime import datetime

from bursar.core import ids
from bursar.core.crypto import Sealer, Vault
from bursar.db.pool import Connection
from bursar.events import outbox
from bursar.events.outbox import Event
from bursar.http.context import Account, Ctx
from bursar.settings import Settings

_ACCOUNTS = f"""
-- The time, and the accounts in the order of their fields; without any, the time all the same.
SELECT now, {", ".join(one.name for one in fields(Account))}
FROM instance_now() AS now
LEFT JOIN account ON account_id = ANY($1::bigint[])
"""  # noqa: S608


@dataclass(frozen=True, slots=True)
class Acts:
    """Contexts by account, in one open transaction."""

    db: Connection
    now: datetime
    settings: Settings
    contexts: dict[int, Ctx] = field(default_factory=dict)

    def __getitem__(self, account_id: int) -> Ctx:
        return self.contexts[account_id]

    @property
    def events(self) -> list[Event]:
        return [event for ctx in self.contexts.values() for event in ctx.events]

    async def write_events(self) -> None:
        await outbox.write(self.db, self.events)


async def acting_on(db: Connection, settings: Settings, account_ids: Iterable[int]) -> Acts:
    """Contexts without a caller, for work that no request started."""
    rows = await db.fetch(_ACCOUNTS, sorted(set(account_ids)))
    now = rows[0]["now"]
    request_id = ids.new_request_id()
    vault = Vault(settings.key_pepper, Sealer(settings.seal_public_key))
    acts = Acts(db, now, settings)
    for row in rows:
        if row["account_id"] is None:
            continue
        account = Account(*row[1:])
        acts.contexts[account.account_id] = Ctx(
            account=account,
            caller=None,
            db=db,
            dated=now,
            request_id=request_id,
            vault=vault,
            settings=settings,
            livemode=not settings.is_test,
        )
    return acts


def acting_for(ctx: Ctx, db: Connection) -> Acts:
    """The one account of a request; whoever runs the request writes its events."""
    return Acts(db, ctx.now, ctx.settings, {ctx.account.account_id: ctx})
