"""Which card processor this instance uses, and what it is told of a payment."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import urlsplit

from bursar.core.errors import ProviderNotConfigured
from bursar.features.payments import views
from bursar.processors.protocol import CardProcessor, StartPayment
from bursar.processors.simulator_client import SimulatorClient
from bursar.settings import Settings


def processors_of(settings: Settings) -> Mapping[str, CardProcessor]:
    """Those whose callbacks are listened to, by name."""
    return {"simulator": simulator_of(settings)} if settings.is_test else {}


def check_configured(settings: Settings) -> None:
    if not settings.is_test:
        raise ProviderNotConfigured


def processor_of(settings: Settings) -> CardProcessor:
    """The one that new payments go to."""
    check_configured(settings)
    return simulator_of(settings)


def simulator_of(settings: Settings) -> SimulatorClient:
    return _simulator(settings.simulator_public_url, settings.simulator_secret, settings.processor_timeout_s)


def page_origin(settings: Settings) -> str:
    """Where customers are sent to enter a card; empty when there is no processor."""
    if not settings.is_test:
        return ""
    parts = urlsplit(settings.simulator_public_url)
    return f"{parts.scheme}://{parts.netloc}"


@lru_cache(maxsize=8)
def _simulator(url: str, secret: bytes, timeout_s: float) -> SimulatorClient:
    return SimulatorClient(url, secret, timeout_s)


def start_of(row: views.Row, merchant_name: str, settings: Settings) -> StartPayment:
    """The same call every time, under the same key: a payment has one checkout at the processor."""
    return StartPayment(
        key=f"payment-{row['id']}",
        account_id=row["account_id"],
        our_reference=row["payment_reference"],
        amount_minor=row["amount_minor"],
        currency=row["currency"],
        description=row["details"][:200],
        merchant_name=merchant_name,
        return_url=views.checkout_url(settings, row["account_id"], row["id"]) + "/return",
    )
