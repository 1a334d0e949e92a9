"""Token buckets, and whose address a request comes from."""

from __future__ import annotations

import time
from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bursar.core.errors import RateLimited
from bursar.http import limits
from bursar.http.limits import Throttle, client_address, is_loopback, is_trusted

PROXIES = (ip_network("10.0.0.0/8"), ip_network("fd00::/8"))


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", clock.monotonic)
    return clock


class TestThrottle:
    def test_two_seconds_at_once_then_its_rate(self, clock: Clock) -> None:
        throttle = Throttle(5)
        for left in range(9, -1, -1):
            assert throttle.take("a")["RateLimit-Remaining"] == str(left)
        with pytest.raises(RateLimited) as caught:
            throttle.take("a")
        assert caught.value.headers["Retry-After"] == "1"
        assert caught.value.headers["RateLimit-Limit"] == "10"
        clock.now += 0.2
        throttle.take("a")
        with pytest.raises(RateLimited):
            throttle.take("a")
        clock.now += 60
        for _ in range(10):
            throttle.take("a")

    def test_names_have_buckets_of_their_own(self, clock: Clock) -> None:
        throttle = Throttle(0.5)
        throttle.take("a")
        with pytest.raises(RateLimited) as caught:
            throttle.take("a")
        assert caught.value.headers["Retry-After"] == "2"
        throttle.take("b")

    def test_to_look_is_not_to_take(self, clock: Clock) -> None:
        throttle = Throttle(1, size=2)
        for _ in range(10):
            throttle.check("a")
        throttle.take("a")
        throttle.take("a")
        with pytest.raises(RateLimited):
            throttle.check("a")

    def test_forgets_only_full_buckets_when_there_are_many(self, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(limits, "BUCKETS_LARGEST", 10)
        throttle = Throttle(1)
        for number in range(11):
            throttle.take(f"old {number}")
        clock.now += 1.9
        throttle.take("recent")
        clock.now += 0.2
        throttle.take("recent")
        with pytest.raises(RateLimited):
            throttle.take("recent")
        assert len(throttle._buckets) == 1


class TestTheClientsAddress:
    @pytest.mark.parametrize(
        ("peer", "forwarded", "expected"),
        [
            ("10.0.0.1", None, "10.0.0.1"),
            ("10.0.0.1", "", "10.0.0.1"),
            ("10.0.0.1", "203.0.113.9", "203.0.113.9"),
            ("10.0.0.1", "198.51.100.1, 203.0.113.9", "203.0.113.9"),
            ("10.0.0.1", "203.0.113.9, 10.2.2.2", "203.0.113.9"),
            ("10.0.0.1", "203.0.113.9 ,10.2.2.2,10.3.3.3 ", "203.0.113.9"),
            ("10.0.0.1", "10.2.2.2, 10.3.3.3", "10.2.2.2"),
            ("10.0.0.1", "203.0.113.9, nonsense", "nonsense"),
            ("203.0.113.1", "198.51.100.1", "203.0.113.1"),
            ("::ffff:10.0.0.1", "203.0.113.9", "203.0.113.9"),
            ("fd00::1", "2001:db8::9", "2001:db8::9"),
        ],
    )
    def test_is_the_last_hop_that_is_not_ours(self, peer: str, forwarded: str | None, expected: str) -> None:
        assert client_address(peer, forwarded, PROXIES) == expected

    @given(st.text(max_size=60), st.text(max_size=60))
    def test_a_stranger_cannot_choose_it(self, peer: str, forwarded: str) -> None:
        if not is_trusted(peer, PROXIES):
            assert client_address(peer, forwarded, PROXIES) == peer

    @given(st.lists(st.sampled_from(["203.0.113.9", "10.1.1.1", "x"]), max_size=5), st.ip_addresses(v=4))
    def test_what_the_client_wrote_itself_is_never_reached(self, spoofed: list[str], client: object) -> None:
        """Our proxy appends the address it saw; everything left of it is the client's own invention."""
        if not is_trusted(str(client), PROXIES):
            header = ", ".join([*spoofed, str(client)])
            assert client_address("10.0.0.1", header, PROXIES) == str(client)

    def test_loopback(self) -> None:
        assert all(map(is_loopback, ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"]))
        assert not any(map(is_loopback, ["", "localhost", "128.0.0.1", "0.0.0.0", "::", "203.0.113.9"]))
