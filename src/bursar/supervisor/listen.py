"""Listening sockets, bound before anything else starts: a port in use costs one line, not half a start."""

from __future__ import annotations

import errno
import ipaddress
import socket
import time

from bursar.settings import PREFIX, Settings, SettingsError
from bursar.supervisor.errors import CannotListen

BACKLOG = 1024
# Processes of a supervisor that was killed close their sockets within moments.
PATIENCE_S = 1.0


def listeners(settings: Settings) -> tuple[Settings, list[socket.socket]]:
    """The main address and, when it has one, the operator's own; with the settings as bound (port 0: any)."""
    opened: list[socket.socket] = []
    try:
        opened.append(_listen(settings.host, settings.port, settings))
        bound = {"port": opened[0].getsockname()[1]}
        if settings.ops_listen:
            host, port = _place(settings.ops_listen)
            opened.append(_listen(host, port, settings))
            bound["ops_listen"] = f"{host}:{opened[1].getsockname()[1]}"
    except BaseException:
        for listener in opened:
            listener.close()
        raise
    return settings.model_copy(update=bound), opened


def simulator_listener(settings: Settings) -> tuple[Settings, socket.socket]:
    """The simulator's own port, so its own origin: the one that was set, else the next after the main one, else any."""
    if settings.simulator_port:
        listener = _listen(settings.host, settings.simulator_port, settings)
    else:
        try:
            listener = _listen(settings.host, (settings.port + 1) % 65536, settings, patience_s=0)
        except CannotListen:
            listener = _listen(settings.host, 0, settings)
    return settings.model_copy(update={"simulator_port": listener.getsockname()[1]}), listener


def inherited(numbers: list[int]) -> list[socket.socket]:
    """Sockets that the parent process listens on, by file number."""
    try:
        return [socket.socket(fileno=number) for number in numbers]
    except OSError as error:
        raise CannotListen(f"--fd does not name a listening socket: {error.strerror}") from None


def reachable(host: str) -> str:
    """The address by which this machine itself reaches a listener."""
    local = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound
    return f"[{local}]" if ":" in local else local


def local_url(settings: Settings) -> str:
    """Where this machine reaches the service, whatever its public address."""
    return f"http://{reachable(settings.host)}:{settings.port}"


def local_operator_url(settings: Settings) -> str:
    if not settings.ops_listen:
        return local_url(settings)
    host, port = _place(settings.ops_listen)
    return f"http://{reachable(host)}:{port}"


def _place(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise SettingsError(f"{PREFIX}OPS_LISTEN: must be host:port")
    return host.strip("[]"), int(port)


def _listen(host: str, port: int, settings: Settings, *, patience_s: float = PATIENCE_S) -> socket.socket:
    shown = f"{host}:{port}"
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except OSError as error:
        raise CannotListen(f"cannot listen on {shown}: {error.strerror}") from None
    loopback = ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback
    if settings.is_test and not loopback and not settings.public_test:
        raise CannotListen(f"a test instance listens on loopback only; {host} needs --public-test")
    deadline = time.monotonic() + patience_s
    while True:
        try:
            listener = socket.create_server(address[:2], family=family, backlog=BACKLOG)
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # inherited by what it accepts
            return listener
        except OSError as error:
            if error.errno == errno.EADDRINUSE and time.monotonic() < deadline:
                time.sleep(0.05)
                continue
            hint = "; choose another with --port" if error.errno == errno.EADDRINUSE else ""
            raise CannotListen(f"cannot listen on {shown}: {_reason(error)}{hint}") from None


def _reason(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "the port is in use"
    # create_server adds the address to the message, which is here already.
    return (error.strerror or str(error)).partition(" (while")[0]
