"""Outbound HTTP that cannot be talked into reaching the inside: each attempt resolves the name, checks every address
it leads to, and connects to the very address that was checked.

Connections are kept for the next delivery to the same host, and used again only if the name still leads to them.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from ipaddress import ip_address

from bursar.core.clock import real_now
from bursar.events.addresses import Address, Refused, Rules, Target, check_address, parse
from bursar.events.http1 import BadReply, Connection, Reply, build_request
from bursar.events.schedule import parse_retry_after
from bursar.settings import Networks, Settings

Resolve = Callable[[str], Awaitable[Sequence[Address]]]
Place = tuple[bool, str, int]  # with TLS or not, host, port

USER_AGENT = "Bursar-Webhooks/1"
RESOLVER_THREADS = 64
ADDRESSES_TRIED = 4
IDLE_LARGEST = 256
IDLE_S = 10.0


@dataclass(frozen=True, slots=True)
class Limits:
    connect_s: float = 5.0  # name, connection and TLS
    total_s: float = 15.0
    body_s: float = 2.0  # how long a body may take once the status is known


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one attempt. `error` is a short word when there was no answer, or one that is no success."""

    code: int | None
    duration_ms: int
    error: str | None = None
    excerpt: str = ""
    retry_after: timedelta | None = None


def rules_of(settings: Settings) -> Rules:
    return _rules(settings.is_test, settings.delivery_ports, settings.delivery_refused)


@cache
def _rules(is_test: bool, ports: tuple[int, ...], refused: Networks) -> Rules:
    if is_test:
        return Rules(plain_http=True, loopback=True, ports=None, refused=refused)
    return Rules(ports=frozenset(ports), refused=refused)


@cache
def verified() -> ssl.SSLContext:
    """Certificates and names are checked against the system's authorities, which take a while to load."""
    return ssl.create_default_context()


class Resolver:
    """The system's resolver in threads of its own; one look-up at a time per name, so a slow one holds one thread."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(RESOLVER_THREADS, thread_name_prefix="resolve")
        self._under_way: dict[str, asyncio.Future[list[Address]]] = {}

    async def __call__(self, host: str) -> Sequence[Address]:
        lookup = self._under_way.get(host)
        if lookup is None:
            loop = asyncio.get_running_loop()
            lookup = asyncio.ensure_future(loop.run_in_executor(self._threads, _look_up, host))
            self._under_way[host] = lookup
            lookup.add_done_callback(lambda _: self._under_way.pop(host, None))
        return await asyncio.shield(lookup)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def _look_up(host: str) -> list[Address]:
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(ip_address(str(entry[4][0]).partition("%")[0]) for entry in found))


class _Kept:
    """Connections that wait for the next delivery, a bounded number of them, oldest given up first."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[Connection, tuple[Place, Address, float]] = OrderedDict()
        self._by_place: dict[Place, list[Connection]] = {}

    def take(self, place: Place, addresses: Sequence[Address]) -> tuple[Connection, Address] | None:
        """The newest one to one of these addresses."""
        now = time.monotonic()
        for connection in reversed(self._by_place.get(place, ())):
            _, address, until = self._waiting[connection]
            if address in addresses:
                self._remove(connection)
                if not connection.closed and until > now:
                    return connection, address
                connection.close()
        return None

    def put(self, place: Place, address: Address, connection: Connection) -> None:
        self._waiting[connection] = place, address, time.monotonic() + IDLE_S
        self._by_place.setdefault(place, []).append(connection)
        while len(self._waiting) > IDLE_LARGEST:
            self._give_up(next(iter(self._waiting)))

    def tidy(self) -> None:
        """Gives up whatever has waited too long."""
        now = time.monotonic()
        while self._waiting:
            connection, (_, _, until) = next(iter(self._waiting.items()))
            if until > now and not connection.closed:
                return
            self._give_up(connection)

    def close(self) -> None:
        while self._waiting:
            self._give_up(next(iter(self._waiting)))

    def _give_up(self, connection: Connection) -> None:
        self._remove(connection)
        connection.close()

    def _remove(self, connection: Connection) -> None:
        place, _, _ = self._waiting.pop(connection)
        connections = self._by_place[place]
        if connections[-1] is connection:
            connections.pop()
        else:
            connections.remove(connection)
        if not connections:
            del self._by_place[place]


@dataclass(slots=True)
class Transport:
    rules: Rules
    limits: Limits = field(default_factory=Limits)
    resolve: Resolve = field(default_factory=Resolver)
    tls: ssl.SSLContext = field(default_factory=verified)
    _kept: _Kept = field(default_factory=_Kept)

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """One attempt. Never raises for what the other side does."""
        started = time.perf_counter()
        reply, error = None, None
        try:
            reply = await self._exchange(url, headers, body)
        except Refused as refusal:
            error = f"refused: {refusal}"
        except TimeoutError:
            error = "timeout"
        except ssl.SSLError as problem:
            error = f"tls: {problem.reason or 'failed'}".lower()[:100]
        except BadReply as problem:
            error = f"bad reply: {problem}"[:100]
        except socket.gaierror:
            error = "name not found"
        except (OSError, ValueError) as problem:
            error = _word(problem)
        duration_ms = round((time.perf_counter() - started) * 1000)
        return _answer(reply, duration_ms) if reply else Answer(None, duration_ms, error)

    def close(self) -> None:
        self._kept.close()
        if isinstance(self.resolve, Resolver):
            self.resolve.close()

    async def _exchange(self, url: str, headers: Mapping[str, str], body: bytes) -> Reply:
        target = parse(url, self.rules)
        request = build_request(target.path, target.authority, {"User-Agent": USER_AGENT, **headers}, body)
        place = target.secure, target.host, target.port
        now = asyncio.get_running_loop().time()
        deadline = now + self.limits.total_s
        connect_by = min(now + self.limits.connect_s, deadline)
        addresses = await self._addresses(target, connect_by)
        kept = self._kept.take(place, addresses)
        connection, address = kept or await self._connect(target, addresses, connect_by)
        try:
            reply = await self._post(connection, request, deadline)
        except OSError:
            if kept is None or connection.answered or connection.late:
                raise
            # The other side had closed a kept connection; nothing was answered, so this is still the same attempt.
            connect_by = min(asyncio.get_running_loop().time() + self.limits.connect_s, deadline)
            connection, address = await self._connect(target, addresses, connect_by)
            reply = await self._post(connection, request, deadline)
        if connection.reusable:
            self._kept.put(place, address, connection)
        else:
            connection.close()
        self._kept.tidy()
        return reply

    async def _post(self, connection: Connection, request: bytes, deadline: float) -> Reply:
        try:
            return await connection.post(request, deadline, self.limits.body_s)
        except BaseException:
            connection.close()
            raise

    async def _addresses(self, target: Target, by: float) -> Sequence[Address]:
        """Where the name leads now. One address that is not public refuses them all."""
        if target.literal is not None:
            return [target.literal]  # which was judged with the rest of the URL
        async with asyncio.timeout_at(by):
            addresses = await self.resolve(target.host)
        if not addresses:
            raise socket.gaierror("no address")
        for address in addresses:
            check_address(address, self.rules)
        return addresses[:ADDRESSES_TRIED]

    async def _connect(self, target: Target, addresses: Sequence[Address], by: float) -> tuple[Connection, Address]:
        loop = asyncio.get_running_loop()
        name = target.host if target.secure else None
        for position, address in enumerate(addresses):
            share = (by - loop.time()) / (len(addresses) - position)
            try:
                async with asyncio.timeout(share):
                    _, connection = await loop.create_connection(
                        Connection,
                        str(address),
                        target.port,
                        ssl=self.tls if target.secure else None,
                        server_hostname=name,
                    )
                    return connection, address
            except OSError as error:
                if position == len(addresses) - 1 or isinstance(error, ssl.SSLError):
                    raise
        raise AssertionError("there is always a last address")


def _answer(reply: Reply, duration_ms: int) -> Answer:
    code = reply.status
    error = None
    if 300 <= code < 400:
        error = "redirect"
    elif code == 410:
        error = "gone"
    elif not 200 <= code < 300:
        error = "status"
    after = parse_retry_after(reply.retry_after, real_now()) if reply.retry_after and error else None
    return Answer(code, duration_ms, error, _readable(bytes(reply.excerpt)), after)


def _readable(excerpt: bytes) -> str:
    """The beginning of a reply as harmless text: what a page shows must not be able to act there."""
    text = excerpt.decode("utf-8", "replace")
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() or character in "\n\t" else "�" for character in text)


def _word(error: Exception) -> str:
    words: dict[type[Exception], str] = {
        ConnectionRefusedError: "connection refused",
        ConnectionResetError: "connection reset",
        BrokenPipeError: "connection reset",
    }
    return words.get(type(error), "connection failed")
