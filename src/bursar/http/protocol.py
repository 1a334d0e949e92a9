"""HTTP/1.1 as uvicorn speaks it, with an end to everything: how much a request's head may be, how long it may take to
come, how many are answered at once. What is no proper request gets one 4xx, and its connection is closed.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any
from urllib.parse import unquote

from httptools import HttpParserError, HttpParserUpgrade, parse_url
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from bursar.core import ids
from bursar.core.errors import BadRequest, ServiceUnavailable
from bursar.http import metrics
from bursar.http.admission import ADMISSION
from bursar.http.reply import AT_ONCE, failed

HEAD_LARGEST = 64 * 1024  # also of everything in a chunked body that is not body
HEADERS_MOST = 200
PATIENCE_S = 10  # for a head, for the start of a body, and for a client that does not read its reply
SLOWEST = 4 * 1024  # bytes a second that a body must bring, on the whole
IDLE_S = 30  # between a reply and the next request

_HOST = re.compile(rb"[A-Za-z0-9._~:%\[\]-]*", re.ASCII)
_VERSIONS = frozenset({"1.0", "1.1"})
_ASGI: Any = {"version": "3.0", "spec_version": "2.3"}
_REFUSAL = failed(BadRequest("This is not a proper HTTP request.")).body
_LATE = failed(BadRequest("The request took too long to arrive.")).body
_BUSY = failed(ServiceUnavailable()).body
_BUSY_HEAD = (
    STATUS_LINE[503] + b"content-type: application/json\r\ncontent-length: %d\r\ncache-control: no-store\r\n"
    b"retry-after: 1\r\nservice-version: 2\r\n" % len(_BUSY)
)


class _Answered:
    """Stands for the exchange of a request that was answered at once; whatever more comes of it is passed over."""

    response_started = response_complete = True
    message_event = asyncio.Event()


_ANSWERED: Any = _Answered()


class _Cycle(RequestResponseCycle):
    """A request and its reply. What is the same at the beginning of all of them is said once, here."""

    access_log = False
    disconnected = response_started = response_complete = False
    more_body = True
    chunked_encoding: bool | None = None
    expected_content_length = 0

    def __init__(self, connection: BoundedHttp, *, keep_alive: bool) -> None:
        self.transport, self.flow, self.logger = connection.transport, connection.flow, connection.logger
        self.default_headers = connection.server_state.default_headers
        self.on_response = connection.on_response_complete
        self.message_event = asyncio.Event()
        self.keep_alive = keep_alive
        self.waiting_for_100_continue = connection.expect_100_continue
        self.body = bytearray()

    def write_at_once(self, status: int, head: bytes, body: bytes) -> bool:
        """An ordinary reply in one piece, its head complete; False when it is not ordinary, and nothing was written."""
        if self.flow.write_paused or not self.keep_alive or self.scope["method"] == "HEAD":
            return False
        for name, value in self.default_headers:  # the date
            head = b"%b: %b\r\n%b" % (name, value, head)
        self.response_started = self.response_complete = True
        self.waiting_for_100_continue = False
        del self.scope["extensions"]  # which lead back here: nothing of a request is left to the collector
        if not self.disconnected:
            self.transport.write(STATUS_LINE[status] + head + body)
            self.message_event.set()
            self.on_response()
        return True


class BoundedHttp(HttpToolsProtocol):
    """One connection. `look` is called once a second; nothing here sets a timer of its own."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._in_head = self._in_body = False
        self._spare = 0  # bytes received since the head or the body began, without the body's own
        self._body = 0
        self._hosts = 0
        self._waited_s = 0
        self._unsent = 0
        self._unread_s = 0
        self._began_at = 0.0

    # What arrives --------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        self._spare += len(data)
        try:
            self.parser.feed_data(data)
        except HttpParserUpgrade:  # nothing to change over to: this request is answered, and that is all
            self._end_after_answer()
            return
        except HttpParserError:
            self._refuse(400, _REFUSAL)
            return
        # Only what is still unfinished counts: a head that came with its body has ended by now.
        if self._spare > HEAD_LARGEST and not self.transport.is_closing():
            self._refuse(400, _REFUSAL)

    def on_message_begin(self) -> None:
        self.url, self.headers, self.expect_100_continue = b"", [], False
        self._in_head, self._hosts, self._waited_s = True, 0, 0

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_body:
            return  # a trailer: a proxy that guards headers may not look at it, so it counts for nothing
        name = name.lower()
        if name == b"host":
            self._hosts += 1
            if not _HOST.fullmatch(value):
                raise HttpParserError("a host that is none")
        elif name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        version = self.parser.get_http_version()
        if version not in _VERSIONS or self._hosts > 1 or (self._hosts == 0 and version == "1.1"):
            raise HttpParserError("a version or a host that is none")
        if len(self.headers) > HEADERS_MOST or (self._spare > HEAD_LARGEST and self._head_size() > HEAD_LARGEST):
            raise HttpParserError("too large a head")
        self._in_head, self._in_body = False, True
        self._spare = self._body = self._waited_s = 0
        if not ADMISSION.admits(len(self.tasks)) and not self.url.startswith(b"/health") and not self._answering:
            self._shed()
        else:
            self._begin(version)

    def _begin(self, version: str) -> None:
        """As uvicorn does, in fewer steps: the scope is made when all of it is known, and its exchange with it."""
        self._began_at = self.loop.time()
        url = parse_url(self.url)
        path = url.path.decode("ascii")
        keep_alive = version == "1.1" and self.parser.should_keep_alive()
        before, self.cycle = self.cycle, _Cycle(self, keep_alive=keep_alive)
        self.cycle.scope = {
            "type": "http",
            "asgi": _ASGI,
            "http_version": version,
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme or "http",
            "method": self.parser.get_method().decode("ascii"),
            "root_path": "",
            "path": unquote(path) if "%" in path else path,
            "raw_path": url.path,
            "query_string": url.query or b"",
            "headers": self.headers,
            "extensions": {AT_ONCE: {"write": self.cycle.write_at_once}},
        }
        if before is None or before.response_complete:
            self._start_asgi_task(self.cycle, self.app)
        else:  # it waits for its turn
            self.flow.pause_reading()
            self.pipeline.appendleft((self.cycle, self.app))

    def _head_size(self) -> int:
        return len(self.url) + sum(len(name) + len(value) for name, value in self.headers)

    def on_body(self, body: bytes) -> None:
        self._spare -= len(body)
        self._body += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_body, self._spare = False, 0

    def on_response_complete(self) -> None:
        """As uvicorn does, but for its timer: `look` ends connections that are not used."""
        ADMISSION.took(self.loop.time() - self._began_at)
        self.server_state.total_requests += 1
        self._waited_s = 0
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())

    # What is refused -----------------------------------------------------------------------------------------------

    def _refuse(self, status: int, body: bytes) -> None:
        """One answer, and the end. Whoever is being answered already, or about to be, gets that answer alone."""
        if self._answering and not self._in_body:  # bad bytes after a good request
            self._end_after_answer()
            return
        begun = self._in_body and self.cycle is not None and self.cycle.response_started
        if not begun and not self.pipeline:
            head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body)
            self.transport.write(STATUS_LINE[status] + head + body)
        self.transport.close()

    @property
    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _end_after_answer(self) -> None:
        if self._answering:
            self.flow.pause_reading()
            self.cycle.keep_alive = False
        else:
            self.transport.close()

    def _shed(self) -> None:
        """Answers before anything is looked at and without a task, so that it costs next to nothing."""
        ADMISSION.shed += 1
        self.server_state.total_requests += 1
        self.cycle = _ANSWERED
        body = b"" if self.parser.get_method() == b"HEAD" else _BUSY
        self.transport.write(b"%bservice-request-id: %b\r\n\r\n%b" % (_BUSY_HEAD, ids.new_request_id().encode(), body))
        if self.expect_100_continue or not self.parser.should_keep_alive():
            self.transport.close()

    # What takes too long -------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Cuts off whoever neither finishes a request nor reads a reply, and who sends no other for long."""
        unsent = self.transport.get_write_buffer_size()
        self._unread_s = self._unread_s + 1 if unsent and unsent == self._unsent else 0
        self._unsent = unsent
        if self._unread_s >= PATIENCE_S:
            self.transport.abort()
            return
        if self.transport.is_closing() or self.flow.read_paused:
            return
        begun = self._in_head or self._in_body
        if self._answering and not begun:
            return
        self._waited_s += 1
        if begun and self._waited_s > PATIENCE_S + self._body // SLOWEST:
            self._refuse(408, _LATE)
        elif not begun and self._waited_s > (PATIENCE_S if self.cycle is None else IDLE_S):
            self.transport.close()


def look_at(server: ServerState, tick: int) -> None:
    """Called ten times a second."""
    if tick % 5 == 0:
        metrics.shed_total.inc(ADMISSION.look(len(server.tasks), server.total_requests, seconds=0.5))
    if tick % 10 == 0:
        for connection in list(server.connections):
            if isinstance(connection, BoundedHttp):
                connection.look()
