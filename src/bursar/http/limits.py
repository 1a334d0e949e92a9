"""Rate limits. The documented per-minute ones are exact across processes, counted in the database on the real clock;
the global throttles are token buckets of two seconds' rate, kept by each process for itself.
"""

from __future__ import annotations

import math
import time
from ipaddress import IPv4Address, IPv6Address, ip_address

from bursar.core.errors import RateLimited
from bursar.db.pool import Database, persist
from bursar.http.families import Family
from bursar.settings import Networks

BUCKETS_LARGEST = 50_000
BURST_S = 2.0

Headers = dict[str, str]


class Throttle:
    """Token buckets by name. A bucket holds two seconds of its rate, unless a size is given."""

    def __init__(self, per_second: float, size: float | None = None) -> None:
        self._rate = per_second
        self._size = size or max(1.0, per_second * BURST_S)
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, name: str) -> Headers:
        tokens = self._refill(name)
        if tokens < 1:
            wait = math.ceil((1 - tokens) / self._rate)
            raise RateLimited(headers=self._headers(tokens) | {"Retry-After": str(max(1, wait))})
        self._buckets[name] = (time.monotonic(), tokens - 1)
        return self._headers(tokens - 1)

    def check(self, name: str) -> None:
        """Refuses when the bucket is empty, without taking from it."""
        tokens = self._refill(name)
        if tokens < 1:
            wait = math.ceil((1 - tokens) / self._rate)
            raise RateLimited(headers={"Retry-After": str(max(1, wait))})

    def _refill(self, name: str) -> float:
        now = time.monotonic()
        if len(self._buckets) > BUCKETS_LARGEST:
            horizon = now - self._size / self._rate
            self._buckets = {key: bucket for key, bucket in self._buckets.items() if bucket[0] > horizon}
        then, tokens = self._buckets.get(name, (now, self._size))
        return min(self._size, tokens + (now - then) * self._rate)

    def _headers(self, tokens: float) -> Headers:
        reset = math.ceil((self._size - max(tokens, 0)) / self._rate)
        return {
            "RateLimit-Limit": str(int(self._size)),
            "RateLimit-Remaining": str(max(0, int(tokens))),
            "RateLimit-Reset": str(reset),
        }


async def count_minute(db: Database, kind: str, value: str, limit: int, retry_after_s: int | None = None) -> Headers:
    """Counts one request in the current minute; the request after the last allowed one is refused."""
    row = await persist(lambda: db.fetchrow("SELECT used, resets_in FROM rate_count($1, $2)", kind, value))
    assert row is not None
    headers = {
        "RateLimit-Limit": str(limit),
        "RateLimit-Remaining": str(max(0, limit - row["used"])),
        "RateLimit-Reset": str(row["resets_in"]),
    }
    if row["used"] > limit:
        raise RateLimited(headers=headers | {"Retry-After": str(retry_after_s or row["resets_in"])})
    return headers


async def count_family(db: Database, family: Family, pair: str, *, write: bool) -> Headers:
    """The documented limit of a family, for one pair of principal and target."""
    limit = family.writes_per_minute if write else family.reads_per_minute
    if limit is None:
        return {}
    kind = f"{family.name}:{'write' if write else 'read'}"
    return await count_minute(db, kind, pair, limit, family.retry_after_s)


def client_address(peer: str, forwarded_for: str | None, trusted: Networks) -> str:
    """The rightmost hop that is not one of our proxies; the header is read only from a trusted peer."""
    address = peer
    hops = [hop.strip() for hop in (forwarded_for or "").split(",") if hop.strip()]
    while hops and is_trusted(address, trusted):
        address = hops.pop()
    return address


def is_trusted(address: str, trusted: Networks) -> bool:
    parsed = _parse(address)
    return parsed is not None and any(parsed in network for network in trusted)


def is_loopback(address: str) -> bool:
    parsed = _parse(address)
    return parsed is not None and parsed.is_loopback


def _parse(address: str) -> IPv4Address | IPv6Address | None:
    try:
        parsed = ip_address(address)
    except ValueError:
        return None
    return getattr(parsed, "ipv4_mapped", None) or parsed
