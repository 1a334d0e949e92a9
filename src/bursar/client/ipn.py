"""Payment notifications: forms, signed with the secret key that created the checkout.

The form's own signature covers nothing but amount and identifier, so it does not prove that anything was paid. Here a
notification is never believed: it only prompts a look at the payment through the authenticated API.
"""

from __future__ import annotations

import hmac
import json
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from bursar.client.verification import TOLERANCE_S, VerificationFailed, as_list, check_body, digest, lowered

TIMEOUT_S = 15

StatusReader = Callable[[str], Mapping[str, Any]]  # identifier → the payment as the API shows it now


@dataclass(frozen=True)
class Ipn:
    """A genuine notification, with what the API says of the payment now."""

    event_id: str
    identifier: str
    claimed_status: str  # what the notification says: success or failed
    amount: Decimal
    currency: str
    error: Mapping[str, str]
    payment: Mapping[str, Any] = field(repr=False)

    @property
    def order(self) -> str:
        return self.identifier

    @property
    def outcome(self) -> str:
        """`success` only if the API says that this very amount was paid."""
        return "success" if self.paid else "failed"

    @property
    def paid(self) -> bool:
        same = Decimal(str(self.payment.get("amount"))) == self.amount and self.payment.get("currency") == self.currency
        return self.payment.get("status") == "succeeded" and same


def verify_ipn(
    body: bytes,
    headers: Mapping[str, str],
    secret_key: str | Sequence[str],
    read_status: StatusReader,
    *,
    tolerance_s: int = TOLERANCE_S,
    now: float | None = None,
) -> Ipn:
    """The notification in a request, or `VerificationFailed`; `read_status` is always asked.

    `secret_key`: the key that created the checkout, or several while it is being rotated.
    """
    keys = as_list(secret_key)
    given = lowered(headers)
    check_body(body, given, keys, tolerance_s, now)
    try:
        form = dict(urllib.parse.parse_qsl(body.decode(), keep_blank_values=True, strict_parsing=True))
        identifier, amount = form["identifier"], form["data[amount]"]
        signatures = [form["signature"], form.get("signature_previous", "")]
        status, currency = form["status"], form["data[currency][code]"]
        paid = Decimal(amount)
    except (ValueError, KeyError, ArithmeticError):
        raise VerificationFailed("the body is not a payment notification") from None
    _check_form(keys, signatures, amount + identifier)
    error = {name[6:-1]: value for name, value in form.items() if name.startswith("error[")}
    event_id = given.get("x-service-event-id", "")
    return Ipn(event_id, identifier, status, paid, currency, error, read_status(identifier))


def _check_form(keys: Sequence[str], signatures: Sequence[str], message: str) -> None:
    matched = False
    for expected in [digest(key, message.encode()).upper() for key in keys]:
        for signature in signatures:
            matched |= hmac.compare_digest(expected.encode(), signature.encode())
    if not matched:
        raise VerificationFailed("the form's signature does not match")


def api_status_reader(base_url: str, secret_key: str, account_id: str | None = None) -> StatusReader:
    """Reads a payment from the service, as the one who created it."""

    def read(identifier: str) -> Mapping[str, Any]:
        query = urllib.parse.urlencode({"identifier": identifier})
        request = urllib.request.Request(f"{base_url.rstrip('/')}/v2/hosted-payments?{query}")  # noqa: S310 - the caller's own
        request.add_header("Authorization", f"Bearer {secret_key}")
        request.add_header("Accept", "application/json")
        if account_id is not None:
            request.add_header("Service-Account", account_id)
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as reply:  # noqa: S310
            found = json.load(reply, parse_float=Decimal)["data"]
        payments: list[Mapping[str, Any]] = found if isinstance(found, list) else [found]
        settled = [payment for payment in payments if payment.get("status") == "succeeded"]
        return (settled or payments or [{}])[0]

    return read
