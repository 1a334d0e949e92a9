"""Who is calling, and on which account: authentication, account scope, and what the account's state allows.

Look-ups are cached for a second at most, dropped when another process announces a change, and not used at all while
this process cannot hear such announcements.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from enum import Enum
from typing import Any

from bursar.core import ids
from bursar.core.crypto import lookup_hash, same
from bursar.core.errors import (
    AccountBanned,
    AccountInactive,
    AccountKeyMismatch,
    AccountNotAllowed,
    AccountNotFound,
    ConnectNotEnabled,
    Forbidden,
    InvalidAccountId,
    InvalidCredentials,
    KycRequired,
    MissingCredentials,
    PaymentsPaused,
    PayoutsPaused,
    Unauthenticated,
)
from bursar.db.pool import Database, Queryable, Record, persist
from bursar.http.context import Account, Caller

CACHE_S = 1.0
CACHE_LARGEST = 10_000

_ACCOUNT = """
SELECT account_id, public_id, kind, platform_id, platform_public_id, status, kyc_status, connect_status,
       connect_enabled, partner_enabled, payments_paused, payouts_paused, fee_payer, currency, country_code,
       business_company_name, public_key, client_key, merchant_pricing, application_fee_defaults, capabilities,
       compliance_holds
FROM account
WHERE account_id = $1
"""
_KEY_PLACE = "SELECT account_id, id FROM directory WHERE kind = 'api_key' AND value = $1"
_KEY = """
SELECT id, kind, scopes
FROM api_key
WHERE account_id = $1 AND id = $2
  AND revoked_at IS NULL
  AND (expires_at IS NULL OR expires_at > instance_now())
"""


def account_from(row: Record) -> Account:
    return Account(**dict(row))


async def load_account(db: Queryable, account_id: int) -> Account | None:
    row = await db.fetchrow(_ACCOUNT, account_id)
    return account_from(row) if row else None


class Callers:
    """Finds callers and accounts, remembering each for a moment: until when, and what."""

    def __init__(self, db: Database, pepper: bytes, hears_changes: Callable[[], bool]) -> None:
        self._db = db
        self._pepper = pepper
        self._hears_changes = hears_changes
        self._callers: dict[str, tuple[float, Caller]] = {}
        self._accounts: dict[int, tuple[float, Account]] = {}
        self._loading: dict[str, asyncio.Task[Caller]] = {}

    def forget(self, account_id: int) -> None:
        self._loading.clear()
        self._accounts.pop(account_id, None)
        self._callers = {
            secret: entry for secret, entry in self._callers.items() if entry[1].owner.account_id != account_id
        }

    def forget_all(self) -> None:
        self._loading.clear()
        self._accounts.clear()
        self._callers.clear()

    async def authenticate(self, authorization: str | None) -> Caller:
        """The caller behind an `Authorization` header, or one of the three ways of not being known."""
        secret = bearer(authorization)
        cached = self._callers.get(secret)
        if cached is not None and cached[0] >= time.monotonic() and self._hears_changes():
            return cached[1]
        if ids.key_kind(secret) not in ("secret", "test", "restricted"):
            raise InvalidCredentials
        loading = self._loading.get(secret)
        if loading is None:
            loading = self._loading[secret] = asyncio.create_task(self._remember_caller(secret))
        return await asyncio.shield(loading)  # shared by all who present the key meanwhile

    async def _remember_caller(self, secret: str) -> Caller:
        until = time.monotonic() + CACHE_S
        try:
            caller = await persist(lambda: self._load_caller(secret))
        finally:
            # If something changed while it was loading, whoever asks from now on looks again.
            is_latest = self._loading.get(secret) is asyncio.current_task()
            if is_latest:
                del self._loading[secret]
        if is_latest:
            _trim(self._callers)
            self._callers[secret] = (until, caller)
        return caller

    async def _load_caller(self, secret: str) -> Caller:
        place = await self._db.fetchrow(_KEY_PLACE, lookup_hash(self._pepper, secret))
        row = await self._db.fetchrow(_KEY, place["account_id"], place["id"]) if place else None
        owner = await load_account(self._db, place["account_id"]) if place else None
        if row is None or owner is None:
            self._callers.pop(secret, None)
            raise InvalidCredentials
        return Caller(row["id"], row["kind"], frozenset(row["scopes"]), owner, secret)

    async def account(self, account_id: int) -> Account | None:
        cached = self._accounts.get(account_id)
        if cached is not None and cached[0] >= time.monotonic() and self._hears_changes():
            return cached[1]
        until = time.monotonic() + CACHE_S
        account = await persist(lambda: load_account(self._db, account_id))
        if account is not None:
            _trim(self._accounts)
            self._accounts[account_id] = (until, account)
        return account

    async def target(self, caller: Caller, named: str) -> Account:
        """The account that a request names: the caller's own, or a connected account of the calling platform."""
        parsed = ids.parse_account_id(named)
        if parsed is None:
            raise InvalidAccountId
        number, full = parsed
        owner = caller.owner
        if named == owner.public_id or (full is None and owner.public_id.endswith(f"_{number}")):
            return owner
        if owner.kind != "platform":
            raise AccountNotAllowed
        if not owner.connect_enabled:
            raise ConnectNotEnabled
        account = await self.account(number)
        if account is None or account.platform_id != owner.account_id or full not in (None, account.public_id):
            raise AccountNotFound
        return account


def _trim(cache: dict[Any, tuple[float, Any]]) -> None:
    """Drops what is stale, now and then, so that neither memory nor a secret is kept for long."""
    if len(cache) >= CACHE_LARGEST or (len(cache) % 64) == 63:
        now = time.monotonic()
        for key in [key for key, entry in cache.items() if entry[0] < now]:
            del cache[key]
    if len(cache) >= CACHE_LARGEST:
        cache.clear()


def bearer(authorization: str | None) -> str:
    if authorization is None:
        raise MissingCredentials
    scheme, _, secret = authorization.partition(" ")
    if scheme.lower() != "bearer" or not secret.strip():
        raise Unauthenticated
    return secret.strip()


def match_keys(caller: Caller, account: Account, client_key: str | None, public_key: str | None) -> None:
    """The optional client and public key headers must belong to the caller or to the account acted on."""
    owner = caller.owner
    if client_key is not None and not (same(client_key, owner.client_key) | same(client_key, account.client_key)):
        raise AccountKeyMismatch(details={"header": "X-Service-Client-Key"})
    if public_key is not None and not (same(public_key, owner.public_key) | same(public_key, account.public_key)):
        raise AccountKeyMismatch(details={"header": "X-Service-Public-Key"})


def require_scope(caller: Caller, scope: str | None) -> None:
    """Restricted keys reach only what they list; `scope` None is for full keys alone."""
    if caller.kind == "restricted" and (scope is None or scope not in caller.scopes):
        raise Forbidden(details={"required_scope": scope or "a full secret key"})


class Gate(Enum):
    """What kind of write a route is, for the account's state to allow or refuse."""

    OPEN = "reads, and whatever an account may do in any state"
    WRITE = "ordinary and onboarding writes"
    PAYMENTS = "taking payments"
    TRANSFERS = "money leaving the wallet"


def admit(account: Account, gate: Gate) -> None:
    """Raises when the account's state refuses this kind of write."""
    if gate is Gate.OPEN:
        return
    if account.status == "banned":
        raise AccountBanned
    if gate is Gate.PAYMENTS:
        if account.status == "pending":
            raise AccountInactive
        if account.payments_paused or account.connect_status == "paused":
            raise PaymentsPaused
        if "payments" in account.compliance_holds:
            raise PaymentsPaused(details={"reason": "compliance"})
    if gate is Gate.TRANSFERS:
        if account.status == "pending" or account.kyc_status != "verified":
            raise KycRequired
        held = "review" in (account.status, account.connect_status)
        if held or account.payouts_paused or account.connect_status == "paused":
            raise PayoutsPaused
        if "payouts" in account.compliance_holds:
            raise PayoutsPaused(details={"reason": "compliance"})
