"""What every card processor can do for us, in words that belong to none of them.

Each call is safe to repeat: under the same key it has one effect and the same answer. A call whose answer did not
come raises `Unknown`; the caller asks again under the same key, or asks for the state. Terminals are not part of this
yet: they will be operations of their own beside these.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

from bursar.processors.card_errors import CardError

PaymentStatus = Literal["requires_payment", "requires_action", "processing", "succeeded", "failed", "cancelled"]
AttemptStatus = Literal["requires_action", "processing", "succeeded", "failed"]
Concern = Literal["disputed", "proof_requested"]
PayoutStatus = Literal["refused", "pending", "in_transit", "paid", "failed", "returned"]
FailureCode = Literal[
    "account_closed",
    "no_account",
    "invalid_account",
    "account_frozen",
    "name_mismatch",
    "bank_declined",
    "could_not_process",
]
CallbackKind = Literal[
    "payment.failed",  # one attempt, not the payment
    "payment.succeeded",
    "payment.cancelled",
    "payment.disputed",
    "payment.proof_requested",
    "refund.succeeded",
    "payout.in_transit",
    "payout.paid",
    "payout.failed",
    "payout.returned",
]


class Unknown(TimeoutError):
    """The processor's answer did not arrive: it may or may not have acted.

    Being a time-out, it is what the writes that call processors already treat as an unknown outcome.
    """


class Rejected(Exception):
    """The processor understood the call and will never do it. That is a defect of ours, or a misuse of the simulator.

    Only these codes say so for certain; any other refusal (of a wrong signature, say) is `Unknown`.
    """

    CODES = frozenset({"not_found", "key_reused", "invalid_request", "unknown_card", "invalid_step"})

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class NotAuthentic(Exception):
    """A callback that the processor did not sign, or signed too long ago."""


# Payments ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class StartPayment:
    key: str
    account_id: int
    our_reference: str
    amount_minor: int
    currency: str
    description: str
    merchant_name: str
    return_url: str


@dataclass(frozen=True, slots=True)
class Started:
    reference: str
    page_url: str  # where the customer enters the card


@dataclass(frozen=True, slots=True)
class Attempt:
    reference: str
    number: int
    status: AttemptStatus
    at: datetime
    last4: str
    holder: str
    error: CardError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PaymentState:
    reference: str
    our_reference: str
    account_id: int
    status: PaymentStatus
    amount_minor: int
    currency: str
    captured_minor: int
    refunded_minor: int
    funds_available_at_once: bool
    concern: Concern | None
    attempts: tuple[Attempt, ...]
    page_url: str

    @property
    def error(self) -> CardError | None:
        """Why the newest attempt failed, if it did."""
        return self.attempts[-1].error if self.attempts else None


@dataclass(frozen=True, slots=True)
class Cancelled:
    """Nothing was captured and nothing can be any more."""


@dataclass(frozen=True, slots=True)
class AlreadyCaptured:
    """The customer was faster: the payment succeeded."""


@dataclass(frozen=True, slots=True)
class InFlight:
    """The bank has not decided yet; ask again."""


# Refunds -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Refund:
    key: str
    payment_reference: str
    amount_minor: int
    currency: str


@dataclass(frozen=True, slots=True)
class Refunded:
    reference: str


@dataclass(frozen=True, slots=True)
class RefundRefused:
    """Nothing was refunded, nor will be under this key.

    Codes: `not_captured`, `exceeds_captured`, `currency_mismatch`, `processing_error`.
    """

    code: str


# Payouts -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class BankDetails:
    """A United Kingdom account (sort code and number) or an IBAN. Only worker processes can open these."""

    account_name: str
    sort_code: str = field(default="", repr=False)
    account_number: str = field(default="", repr=False)
    iban: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Payout:
    key: str
    account_id: int
    our_reference: str
    amount_minor: int
    currency: str
    bank: BankDetails
    arrives_at: datetime


@dataclass(frozen=True, slots=True)
class PayoutAccepted:
    reference: str


@dataclass(frozen=True, slots=True)
class PayoutRefused:
    """No money left, nor will under this key."""

    failure_code: FailureCode


@dataclass(frozen=True, slots=True)
class PayoutState:
    reference: str
    status: PayoutStatus
    failure_code: FailureCode | None = None


# Callbacks ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Callback:
    """A fact that the processor tells us. The state it asks for is worth more than what it says: ask when in doubt."""

    event_id: str
    kind: CallbackKind
    account_id: int
    our_reference: str
    reference: str  # the processor's, of the payment or payout
    amount_minor: int
    currency: str
    at: datetime
    part_reference: str | None = None  # of the attempt or refund
    error: CardError | None = None
    failure_code: FailureCode | None = None


class CardProcessor(Protocol):
    name: str

    def in_touch(self) -> AbstractContextManager[CardProcessor]:
        """The same processor, for many questions in a row: what they need to be cheap is kept meanwhile."""
        ...

    async def start(self, payment: StartPayment) -> Started: ...

    async def confirm(self, reference: str) -> PaymentState: ...

    async def cancel(self, reference: str) -> Cancelled | AlreadyCaptured | InFlight: ...

    async def refund(self, refund: Refund) -> Refunded | RefundRefused: ...

    async def payout(self, payout: Payout) -> PayoutAccepted | PayoutRefused: ...

    async def payout_state(self, reference: str) -> PayoutState: ...

    def verify_callback(self, headers: Mapping[str, str], raw: bytes) -> Callback:
        """Raises `NotAuthentic` before anything of the body is looked at. Header names are in lower case."""
        ...

    def read_callback(self, raw: bytes) -> Callback:
        """The same for bytes that were verified when they came."""
        ...
