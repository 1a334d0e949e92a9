"""Structured logs: one JSON object (or, for people, one line of text) per record, without bodies, keys or card data."""

from __future__ import annotations

import sys
import time
from typing import Any, TextIO

import msgspec
import structlog

from bursar.core.text import mask
from bursar.settings import Settings

_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_encode = msgspec.json.Encoder().encode


def configure(settings: Settings, process: str, stream: TextIO | None = None) -> None:
    """Sets up logging for this process; `process` (api, worker, …) is part of every line."""
    output = stream or sys.stderr
    renderer: Any = structlog.dev.ConsoleRenderer(
        colors=output.isatty(), exception_formatter=structlog.dev.plain_traceback
    )
    if settings.log_format == "json":
        renderer = structlog.processors.JSONRenderer(serializer=lambda event, **_: _encode(event).decode())
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _mask_secrets,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[settings.log_level]),
        logger_factory=structlog.PrintLoggerFactory(file=output),
        cache_logger_on_first_use=False,
    )
    structlog.contextvars.bind_contextvars(process=process)


def _mask_secrets(_: Any, __: str, event: structlog.types.EventDict) -> structlog.types.EventDict:
    """The last line of defence: whatever slipped into a message or a trace is blanked."""
    for name, value in event.items():
        if isinstance(value, str):
            event[name] = mask(value)
    return event


class AccessLog:
    """One line per request, written without the cost of a general logger."""

    def __init__(self, *, json: bool, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._json = json

    def write(self, request_id: str, method: str, route: str, status: int, started: float, account: str) -> None:
        took_ms = round((time.perf_counter() - started) * 1000, 2)
        if self._json:
            moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            self._stream.write(
                f'{{"event":"request","timestamp":"{moment}","request_id":"{request_id}","method":"{method}",'
                f'"route":"{route}","status":{status},"ms":{took_ms},"account":"{account}"}}\n'
            )
        else:
            self._stream.write(f"{status} {method} {route} {took_ms} ms {account} {request_id}\n")
