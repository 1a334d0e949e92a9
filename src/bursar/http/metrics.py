"""What an operator watches: requests, their durations, deliveries of due work, connections in use."""

from __future__ import annotations

import os

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

CONTENT_TYPE = CONTENT_TYPE_LATEST
BUCKETS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)

request_seconds = Histogram(
    "bursar_request_seconds", "Requests, by time to reply.", ["route", "status"], buckets=BUCKETS
)
shed_total = Counter("bursar_shed_total", "Requests refused because too many were being answered.")
replays_total = Counter("bursar_replays_total", "Replies repeated for an idempotency key.", ["family"])
batch_rows = Histogram("bursar_batch_rows", "Requests that shared one transaction.", buckets=(1, 2, 4, 8, 16, 32, 64))
connections_in_use = Gauge("bursar_db_connections_in_use", "Pool connections at work.", multiprocess_mode="livesum")
sweep_rows_total = Counter("bursar_sweep_rows_total", "Rows of due work done.", ["sweep"])


def exposition() -> bytes:
    """Prometheus text for all processes of this machine, or for this one when it runs alone."""
    if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]  # the library has no types for it
        return generate_latest(registry)
    return generate_latest()
