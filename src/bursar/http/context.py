"""What a handler sees: who calls, on which account, when, and the transaction to work in. Never a header."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from bursar.core.crypto import HmacKey, Vault
from bursar.core.errors import ApiError, NotFound
from bursar.db.pool import Queryable
from bursar.events.catalogue import Audience
from bursar.events.outbox import Cause, Event, new_event
from bursar.http.shown import Shown
from bursar.settings import Settings

LARGEST_ID = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Account:
    """What the conventions need to know of an account; features read the rest themselves."""

    account_id: int
    public_id: str
    kind: str
    platform_id: int | None
    platform_public_id: str | None
    status: str
    kyc_status: str
    connect_status: str
    connect_enabled: bool
    partner_enabled: bool
    payments_paused: bool
    payouts_paused: bool
    fee_payer: str
    currency: str
    country_code: str
    business_company_name: str
    public_key: str
    client_key: str
    merchant_pricing: Mapping[str, Any]
    application_fee_defaults: Mapping[str, Any]
    capabilities: Mapping[str, Any]
    compliance_holds: Sequence[str] = ()  # what an open compliance request holds back: payments, payouts

    @property
    def platform(self) -> tuple[int, str] | None:
        """Number and public id of the platform it is connected to."""
        if self.platform_id is None or self.platform_public_id is None:
            return None
        return self.platform_id, self.platform_public_id


@dataclass(frozen=True, slots=True, repr=False)
class Caller:
    """The holder of the key that was presented. `secret` is that key, for what must be sealed to its holder."""

    key_id: int
    kind: str  # secret, restricted, test or operator
    scopes: frozenset[str]
    owner: Account
    secret: str
    signing_key: HmacKey = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "signing_key", HmacKey(self.secret.encode()))

    @property
    def is_platform(self) -> bool:
        return self.owner.kind == "platform"


@dataclass(frozen=True, slots=True)
class Audit:
    """What the operator's audit trail keeps of a call, besides who and when."""

    account_id: int = 0
    before: Any = None
    after: Any = None


class Ctx(msgspec.Struct):
    """One request, or one operation that a worker finishes (then there is no caller)."""

    account: Account
    caller: Caller | None
    db: Queryable
    dated: datetime | None  # None in reads, which ask for the time only if they need it
    request_id: str
    vault: Vault
    settings: Settings
    path: Mapping[str, str] = {}
    id: int = 0  # batched writes: the id drawn for this row
    idempotency_key: str | None = None
    address: str = ""
    sandbox: bool = False
    livemode: bool = True
    events: list[Event] = []
    effects: list[dict[str, Any]] = []
    stale_accounts: set[int] = set()
    audit: Audit | None = None
    wakes_worker: bool = False  # something is due at once, besides events
    shown: Shown | None = None  # in reads of what is committed: rows as they were last shown

    @property
    def now(self) -> datetime:
        """The instance's time, the same for all of this transaction."""
        assert self.dated is not None
        return self.dated

    @property
    def platform_mode(self) -> bool:
        """A platform acts on one of its connected accounts."""
        return self.caller is not None and self.caller.owner.account_id != self.account.account_id

    def emit(
        self, type_: str, data: Mapping[str, Any], *, previous: Mapping[str, Any] | None = None,
        audience: Audience | None = None,
    ) -> None:  # fmt: skip
        """Records an event of the account acted on; it is written with the change and sent by the worker."""
        self.emit_for(self.account, type_, data, previous=previous, audience=audience)

    def emit_for(
        self, account: Account, type_: str, data: Mapping[str, Any], *, previous: Mapping[str, Any] | None = None,
        audience: Audience | None = None,
    ) -> None:  # fmt: skip
        event = new_event(
            type_,
            data,
            account=(account.account_id, account.public_id),
            platform=account.platform,
            now=self.now,
            cause=Cause(self.request_id, self.idempotency_key, self.livemode),
            previous=previous,
            audience=audience,
        )
        self.events.append(event)
        self.effects.append({"type": "event", "event": type_})

    def account_changed(self, account_id: int) -> None:
        """Makes every process forget what it knows of this account and its keys, once this is committed."""
        self.stale_accounts.add(account_id)

    def path_id(self, name: str = "id", missing: type[ApiError] = NotFound) -> int:
        """A numeric id from the path; anything else cannot name an object."""
        text = self.path[name]
        if not (text.isascii() and text.isdigit() and len(text) <= 19 and 0 < int(text) <= LARGEST_ID):
            raise missing
        return int(text)
