"""HTTP/1.1 as uvicorn speaks it, with an end to how much a request's head may be."""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_LARGEST = 64 * 1024


class BoundedHttp(HttpToolsProtocol):
    """Counts the bytes of each head; one that does not end in time is answered 400 and cut off."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._head_bytes: int | None = 0  # None while a body is read

    def data_received(self, data: bytes) -> None:
        if self._head_bytes is not None:
            self._head_bytes += len(data)
        super().data_received(data)
        # Only what is still unfinished counts: a head that came with its body has ended by now.
        if self._head_bytes is not None and self._head_bytes > HEAD_LARGEST and not self.transport.is_closing():
            self.send_400_response("The request head is too large.")
            self.transport.close()

    def on_headers_complete(self) -> None:
        self._head_bytes = None
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._head_bytes = 0
