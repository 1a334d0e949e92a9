"""Who else must know, in the same transaction, when a payment was paid, refunded or raised a concern.

Features that take payments (links, invoices, store orders …) and those that watch over them register here when they
are imported; payments know none of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from bursar.features.payments.views import Row
from bursar.http.context import Ctx

Told = Callable[[Ctx, Row], Awaitable[None]]
# By the prefix of its reference, what makes a payment when a customer comes: account and number of one to be paid now.
Opens = Callable[[Ctx, int], Awaitable[tuple[int, int] | None]]


@dataclass(slots=True)
class Followers:
    paid: dict[str, Told] = field(default_factory=dict)  # by the payment's kind
    refunded: dict[str, Told] = field(default_factory=dict)  # by the payment's kind; `row` is after the refund
    concerns: dict[str, Told] = field(default_factory=dict)  # by what the processor says: disputed, proof_requested


FOLLOWERS = Followers()
LINKS: dict[str, Opens] = {}
