"""A processor that knows every payment as captured and answers at once: somebody else's computer, as cheap as can be.

python -m bench.processor     prints its port
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import msgspec
import uvloop

from bursar.features.payments import reference
from bursar.processors.protocol import Attempt, PaymentState

_START = "sim_"
_DIGITS = 10


def reference_of(account_id: int, payment_id: int) -> str:
    """The processor's name of a payment; it says whose it is, so nothing need be remembered."""
    return f"{_START}{account_id:0{_DIGITS}d}{payment_id:0{_DIGITS}d}"


def _state(name: str) -> bytes:
    digits = name.removeprefix(_START)
    account_id, payment_id = int(digits[:_DIGITS]), int(digits[_DIGITS:])
    attempt = Attempt(f"{name}_1", 1, "succeeded", datetime.now(UTC), "4242", "Ada Lovelace")
    return msgspec.json.encode(
        PaymentState(
            reference=name, our_reference=reference.make(reference.PAYMENT, payment_id), account_id=account_id,
            status="succeeded", amount_minor=10_000, currency="GBP", captured_minor=10_000, refunded_minor=0,
            funds_available_at_once=False, concern=None, attempts=(attempt,), page_url="",
        )
    )  # fmt: skip


class _Processor(asyncio.Protocol):
    """Answers GET /v1/payments/{reference}; the connection stays open for as long as the caller likes."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._buffer = b""

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            path = self._buffer.split(b" ", 2)[1]
            self._buffer = self._buffer[end + 4 :]
            body = _state(path.rpartition(b"/")[2].decode())
            head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
            self._transport.write(head + body)  # type: ignore[attr-defined]


async def _serve() -> None:
    server = await asyncio.get_running_loop().create_server(_Processor, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve())
