"""The secrets that outgoing requests are signed with. Only a worker has one: nothing else can open what is sealed."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from bursar.core.crypto import Opener
from bursar.db.pool import Database, Record

OPENED_LARGEST = 4096
CHAIN_S = 1.0  # how long a rotated or revoked key may still sign
SIGNERS = 2  # the newest key, and one in its grace period

_CHAIN = """
-- The valid keys among one key and its successors, newest first.
WITH RECURSIVE chain AS (
    SELECT account_id, id, sealed, expires_at, revoked_at
    FROM api_key
    WHERE account_id = $1 AND id = $2
    UNION ALL
    SELECT next.account_id, next.id, next.sealed, next.expires_at, next.revoked_at
    FROM api_key AS next
    JOIN chain ON next.account_id = chain.account_id AND next.replaces_id = chain.id
)
SELECT id, sealed
FROM chain
WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > instance_now())
ORDER BY id DESC
LIMIT $3
"""


@dataclass(slots=True)
class Keyring:
    opener: Opener
    webhook_context: Callable[[int, int], str]  # what a webhook's secret is sealed for: (account, webhook)
    api_key_context: Callable[[int, int], str]  # (account, key)
    _opened: OrderedDict[tuple[str, bytes], str] = field(default_factory=OrderedDict)
    _chains: dict[tuple[int, int], tuple[float, Sequence[str]]] = field(default_factory=dict)

    def of_webhook(self, webhook: Record, now: datetime) -> list[str]:
        """The endpoint's secret and, while it is being rotated, the one before."""
        context = self.webhook_context(webhook["account_id"], webhook["id"])
        sealed = [webhook["secret_sealed"]]
        if webhook["previous_sealed"] is not None and webhook["previous_until"] > now:
            sealed.append(webhook["previous_sealed"])
        return [self._open(context, secret) for secret in sealed]

    async def of_key(self, db: Database, account_id: int, key_id: int) -> Sequence[str]:
        """The newest valid successor of a key and, in its grace period, the one before; empty: all were revoked."""
        cached = self._chains.get((account_id, key_id))
        if cached is not None and cached[0] > time.monotonic():
            return cached[1]
        rows = await db.fetch(_CHAIN, account_id, key_id, SIGNERS)
        keys = [self._open(self.api_key_context(account_id, row["id"]), row["sealed"]) for row in rows]
        if len(self._chains) >= OPENED_LARGEST:
            self._chains.clear()
        self._chains[account_id, key_id] = time.monotonic() + CHAIN_S, keys
        return keys

    def _open(self, context: str, sealed: bytes) -> str:
        key = context, sealed
        secret = self._opened.get(key)
        if secret is None:
            secret = self._opened[key] = self.opener.open(context, sealed)
            if len(self._opened) > OPENED_LARGEST:
                self._opened.popitem(last=False)
        return secret
