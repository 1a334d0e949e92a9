"""Our side of the link to the simulator: the protocol over signed HTTP, and the controls of a test instance."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any, TypeVar, cast

import msgspec

from bursar.core.crashpoints import crashpoint
from bursar.processors import wire
from bursar.processors.protocol import (
    AlreadyCaptured,
    Callback,
    Cancelled,
    InFlight,
    NotAuthentic,
    PaymentState,
    Payout,
    PayoutAccepted,
    PayoutRefused,
    PayoutState,
    Refund,
    Refunded,
    RefundRefused,
    Rejected,
    Started,
    StartPayment,
    Unknown,
)
from bursar.processors.signing import EVENT_ID, LinkKeys, callback_is_authentic, sign_call
from bursar.settings import Settings

T = TypeVar("T")

_DECODERS: dict[Any, msgspec.json.Decoder[Any]] = {}  # by what they decode; there are a handful


class SimulatorClient:
    """A `CardProcessor`. Holds no connection unless it is `in_touch`: make one wherever the settings are at hand."""

    name = "simulator"

    def __init__(self, url: str, secret: bytes, timeout_s: float = 10.0) -> None:
        self._url = url
        self._keys = LinkKeys.of(secret)
        self._timeout_s = timeout_s
        self._line: wire.Line | None = None

    @classmethod
    def of(cls, settings: Settings) -> SimulatorClient:
        return cls(settings.simulator_public_url, settings.simulator_secret, settings.processor_timeout_s)

    @contextmanager
    def in_touch(self) -> Iterator[SimulatorClient]:
        with closing(wire.Line(self._url)) as line:
            connected = copy.copy(self)
            connected._line = line
            yield connected

    # The protocol --------------------------------------------------------------------------------------------------

    async def start(self, payment: StartPayment) -> Started:
        return await self._call("POST", "/v1/payments", payment, Started)

    async def confirm(self, reference: str) -> PaymentState:
        return await self._call("GET", f"/v1/payments/{_safe(reference)}", None, PaymentState)

    async def cancel(self, reference: str) -> Cancelled | AlreadyCaptured | InFlight:
        answer = await self._call("POST", f"/v1/payments/{_safe(reference)}/cancel", {}, dict[str, str])
        if answer["outcome"] == "cancelled":
            return Cancelled()
        return AlreadyCaptured() if answer["outcome"] == "captured" else InFlight()

    async def refund(self, refund: Refund) -> Refunded | RefundRefused:
        path = f"/v1/payments/{_safe(refund.payment_reference)}/refunds"
        body = {"key": refund.key, "amount_minor": refund.amount_minor, "currency": refund.currency}
        answer = await self._call("POST", path, body, dict[str, str])
        return RefundRefused(answer["refused"]) if "refused" in answer else Refunded(answer["reference"])

    async def payout(self, payout: Payout) -> PayoutAccepted | PayoutRefused:
        answer = await self._call("POST", "/v1/payouts", payout, dict[str, Any])
        return PayoutRefused(answer["refused"]) if "refused" in answer else PayoutAccepted(answer["reference"])

    async def payout_state(self, reference: str) -> PayoutState:
        return await self._call("GET", f"/v1/payouts/{_safe(reference)}", None, PayoutState)

    def verify_callback(self, headers: Mapping[str, str], raw: bytes) -> Callback:
        if not callback_is_authentic(self._keys.callbacks, headers, raw):
            raise NotAuthentic
        callback = self.read_callback(raw)
        if callback.event_id != headers[EVENT_ID]:
            raise NotAuthentic
        return callback

    def read_callback(self, raw: bytes) -> Callback:
        return _decode(raw, Callback)

    # The controls of a test instance -----------------------------------------------------------------------------

    async def pay(
        self, reference: str, card: str, *, key: str, authenticate: bool | None = None, holder: str | None = None
    ) -> PaymentState:
        """What a customer does on the card page. Numbers that are no test card: `Rejected("unknown_card")`."""
        body = {"card": card, "key": key, "authenticate": authenticate, "holder": holder}
        return await self._call("POST", f"/v1/payments/{_safe(reference)}/pay", body, PaymentState)

    async def paid_under(self, reference: str, key: str) -> PaymentState:
        """What became of a payment that `pay` was called for under this key; `Rejected("not_found")` if it was not."""
        return await self._call("GET", f"/v1/payments/{_safe(reference)}/pay/{_safe(key)}", None, PaymentState)

    async def order_fault(self, operation: str, kind: str, count: int = 1) -> None:
        await self._call("POST", "/v1/faults", {"operation": operation, "kind": kind, "count": count}, dict[str, Any])

    async def advance_payout(self, reference: str, to: str, failure_code: str | None = None) -> PayoutState:
        body = {"to": to, "failure_code": failure_code}
        return await self._call("POST", f"/v1/payouts/{_safe(reference)}/advance", body, PayoutState)

    async def run_due(self) -> int:
        """Has the simulator do what is due now, and waits for it; how much that was."""
        answer = await self._call("POST", "/v1/run-due", {}, dict[str, int])
        return answer["done"]

    async def statement(self) -> list[dict[str, Any]]:
        """What moved, by currency and kind: `currency`, `kind`, `movements`, `amount_minor` (signed)."""
        return await self._call("GET", "/v1/statement", None, list[dict[str, Any]])

    async def _call(self, method: str, path: str, body: Any, kind: type[T]) -> T:
        raw = b"" if body is None else msgspec.json.encode(body)
        headers = {"content-type": "application/json", **sign_call(self._keys.calls, method, path, raw)}
        crashpoint("processor.before_call")
        try:
            if self._line is not None:
                reply = await self._line.send(method, path, headers, raw, self._timeout_s)
            else:
                reply = await wire.send(method, self._url + path, headers, raw, self._timeout_s)
            crashpoint("processor.answered")
        except OSError as error:
            raise Unknown(f"no answer from the processor: {type(error).__name__}") from None
        if reply.status >= 500:
            raise Unknown(f"the processor answered {reply.status}")
        try:
            if reply.status == 200:
                return _decode(reply.body, kind)
            code = msgspec.json.decode(reply.body, type=dict[str, str]).get("error")
        except msgspec.MsgspecError:
            raise Unknown(f"the processor answered {reply.status} and no sense") from None
        if code in Rejected.CODES:
            raise Rejected(code)
        raise Unknown(f"the processor answered {reply.status} {code}")


def _decode(raw: bytes, kind: type[T]) -> T:
    decoder = _DECODERS.get(kind)
    if decoder is None:
        decoder = _DECODERS[kind] = msgspec.json.Decoder(kind)
    return cast("T", decoder.decode(raw))


def _safe(reference: str) -> str:
    """References are our own processor's letters and digits; anything else must not become part of an address."""
    if not (reference.isascii() and reference.replace("_", "").isalnum()):
        raise Rejected("not_found")
    return reference
