"""What one API process holds: its settings, database pools, caches and throttles. One per process, made at start-up."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from bursar.core.crypto import Sealer, Vault
from bursar.db.notify import ACCOUNT_CHANGED, Hints
from bursar.db.pool import Connection, Database
from bursar.http.caller import Callers
from bursar.http.context import Ctx
from bursar.http.idempotency import InFlight
from bursar.http.limits import Throttle
from bursar.http.shown import Shown
from bursar.logs import AccessLog
from bursar.settings import Settings

Witness = Callable[[Connection, int], Awaitable[list[dict[str, Any]]]]


@dataclass(slots=True)
class Throttles:
    """The global limits; None when they are off."""

    reads: Throttle | None = None
    writes: Throttle | None = None
    sandbox: Throttle | None = None
    failed_authentication: Throttle | None = None

    @classmethod
    def by(cls, settings: Settings) -> Throttles:
        if not settings.limits_on:
            return cls()
        per_minute = settings.failed_auth_per_minute
        return cls(
            Throttle(settings.reads_per_second),
            Throttle(settings.writes_per_second),
            Throttle(settings.sandbox_per_second),
            Throttle(per_minute / 60, size=per_minute),
        )


@dataclass(slots=True)
class Instance:
    settings: Settings
    db: Database
    sandbox_db: Database
    callers: Callers
    hints: Hints
    vault: Vault
    operator_hash: str
    throttles: Throttles
    access_log: AccessLog
    in_flight: InFlight = field(default_factory=InFlight)
    shown: Shown = field(default_factory=Shown)
    witnesses: tuple[Witness, ...] = ()  # tell a dry run what it would have done, besides events

    @classmethod
    async def open(cls, settings: Settings) -> Instance:
        url = settings.database_url.get_secret_value()
        db = await Database.open(url, size=settings.pool_size, wait_s=settings.pool_wait_s, name="bursar api")
        sandbox_db = await Database.open(
            url,
            size=settings.sandbox_pool_size,
            wait_s=settings.pool_wait_s,
            name="bursar sandbox",
            lock_timeout="50ms",
        )
        callers = Callers(db, settings.key_pepper, lambda: hints.connected)
        hints = Hints(url, {ACCOUNT_CHANGED: lambda payload: callers.forget(int(payload))}, callers.forget_all)
        await hints.start()
        vault = Vault(settings.key_pepper, Sealer(settings.seal_public_key))
        operator_key = settings.operator_key.get_secret_value()
        return cls(
            settings=settings,
            db=db,
            sandbox_db=sandbox_db,
            callers=callers,
            hints=hints,
            vault=vault,
            operator_hash=vault.lookup(operator_key) if operator_key else settings.operator_key_hash,
            throttles=Throttles.by(settings),
            access_log=AccessLog(json=settings.log_format == "json"),
        )

    async def close(self) -> None:
        await self.hints.stop()
        await self.db.close()
        await self.sandbox_db.close()

    def after_commit(self, ctx: Ctx) -> None:
        """Tells whoever should know, now that it is true."""
        for account_id in ctx.stale_accounts:
            self.callers.forget(account_id)
            self.hints.account_changed(account_id)
        if ctx.events or ctx.wakes_worker:
            self.hints.wake()
