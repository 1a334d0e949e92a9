"""Where the service may send to: how an address must be written, and which networks it may lead to. Pure.

What is not plainly a public HTTPS address is refused, however it is disguised. Test instances may also use plain HTTP
and this machine itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from urllib.parse import urlsplit

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

LONGEST_URL = 2000

# Python calls some of these global: multicast, old 6to4 relays, benchmarking, carrier NAT in some versions.
_REFUSED_V4 = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.31.196.0/24",
        "192.52.193.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "192.175.48.0/24",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
)
# Of IPv6 only global unicast counts, so mapped, compatible, translated, local and multicast forms are all out.
_GLOBAL_V6 = IPv6Network("2000::/3")
_REFUSED_V6 = tuple(
    IPv6Network(text)
    for text in (
        "2001::/23",  # protocol assignments: Teredo, ORCHID, benchmarking
        "2001:db8::/32",
        "2002::/16",  # 6to4, which carries any IPv4 address
        "2620:4f:8000::/48",
        "3fff::/20",
    )
)
_LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))

_PLAIN = re.compile(r"[!-~]+", re.ASCII)
_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_NAME = re.compile(rf"(?=.{{1,253}}\Z)(?:{_LABEL}\.)*{_LABEL}", re.ASCII)
_NUMBER_LIKE = re.compile(r"[0-9.]+|(?:.*\.)?0[xX][0-9A-Fa-f]*|(?:.*\.)?[0-9]+", re.ASCII)


class Refused(ValueError):
    """The address is not one that the service sends to; the message says why."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What an instance allows."""

    plain_http: bool = False
    loopback: bool = False
    ports: frozenset[int] | None = frozenset({443})  # None: any
    refused: tuple[Network, ...] = ()


@dataclass(frozen=True, slots=True)
class Target:
    """An address that is well written; where it leads is known only once its name is resolved."""

    secure: bool
    host: str  # a name, or the text of a literal address
    port: int
    path: str  # with the query
    literal: Address | None

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        host = f"[{self.host}]" if isinstance(self.literal, IPv6Address) else self.host
        return host if self.port == (443 if self.secure else 80) else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        return f"{'https' if self.secure else 'http'}://{self.authority}"


@lru_cache(maxsize=4096)  # every attempt asks, and receivers are few
def parse(url: str, rules: Rules) -> Target:
    """A well-written address, or `Refused`."""
    if len(url) > LONGEST_URL or not _PLAIN.fullmatch(url) or "\\" in url:
        raise Refused("must be printable ASCII of at most 2000 characters, without backslashes")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise Refused("is not a URL") from None
    if parts.scheme != "https" and not (parts.scheme == "http" and rules.plain_http):
        raise Refused("must begin with https://")
    if "@" in parts.netloc or "#" in url:
        raise Refused("must have no user name, password or fragment")
    host = (parts.hostname or "").lower()
    literal = _literal(host, bracketed="[" in parts.netloc)
    if literal is None and (not _NAME.fullmatch(host) or parts.netloc.endswith(":")):
        raise Refused("has no valid host name")
    secure = parts.scheme == "https"
    port = port if port is not None else (443 if secure else 80)
    if port == 0 or (rules.ports is not None and port not in rules.ports):
        raise Refused("uses a port that is not allowed")
    if literal is not None:
        check_address(literal, rules)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not path.startswith("/"):
        raise Refused("is not a URL")
    return Target(secure, host, port, path, literal)


def _literal(host: str, *, bracketed: bool) -> Address | None:
    """The address that a host spells out, if it does; spellings that only some resolvers understand are refused."""
    if bracketed:
        if "%" in host or ":" not in host:
            raise Refused("has no valid host name")
        try:
            return IPv6Address(host)
        except ValueError:
            raise Refused("has no valid host name") from None
    if _NUMBER_LIKE.fullmatch(host):
        try:
            return IPv4Address(host)
        except ValueError:
            raise Refused("spells an address in an unusual way") from None
    return None


def check_address(address: Address, rules: Rules) -> None:
    """Raises unless this address may be connected to."""
    if not _may_be_reached(address, rules):
        raise Refused("does not lead to a public address")


@lru_cache(maxsize=4096)
def _may_be_reached(address: Address, rules: Rules) -> bool:
    if rules.loopback and _within(address, _LOOPBACK):
        return True
    if isinstance(address, IPv4Address):
        public = address.is_global and not _within(address, _REFUSED_V4)
    else:
        public = address in _GLOBAL_V6 and not _within(address, _REFUSED_V6) and address.scope_id is None
    return public and not _within(address, rules.refused)


def _within(address: Address, networks: Sequence[Network]) -> bool:
    return any(address.version == network.version and address in network for network in networks)
