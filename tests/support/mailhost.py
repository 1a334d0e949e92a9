"""A mail server on loopback: a few lines of SMTP that keep what they are sent, or refuse it."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import SecretStr


class _Conversation(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        host: Any = self.server
        self._say("220 ready")
        while line := self.rfile.readline().strip().upper():
            if line.startswith(b"RCPT") and host.refuse:
                self._say(host.refuse)
            elif line == b"DATA":
                self._say("354 go on")
                content = b""
                while (part := self.rfile.readline()) != b".\r\n":
                    content += part
                host.received.append(content)
                self._say("250 taken")
            elif line == b"QUIT":
                self._say("221 bye")
                return
            else:
                self._say("250 ok")

    def _say(self, text: str) -> None:
        self.wfile.write(text.encode() + b"\r\n")


class Mailhost(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Conversation)
        self.received: list[bytes] = []
        self.refuse = ""  # with what recipients are refused

    @property
    def url(self) -> SecretStr:
        return SecretStr(f"smtp://127.0.0.1:{self.server_address[1]}")


@pytest.fixture
def mailhost() -> Iterator[Mailhost]:
    host = Mailhost()
    threading.Thread(target=host.serve_forever, args=(0.05,), daemon=True).start()
    yield host
    host.shutdown()
    host.server_close()
