"""What an operator watches of deliveries."""

from __future__ import annotations

from functools import cache

from prometheus_client import Counter

delivery_attempts_total = Counter(
    "bursar_delivery_attempts_total", "Attempts to deliver events and IPNs.", ["channel", "outcome"]
)
endpoints_disabled_total = Counter("bursar_endpoints_disabled_total", "Webhooks disabled by the service.", ["reason"])


@cache
def attempts(channel: str, outcome: str) -> Counter:
    return delivery_attempts_total.labels(channel, outcome)
