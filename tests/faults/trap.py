"""E4: a listener where nothing may ever be sent, and shops that try to have something sent there."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from tests.faults.shop import Account
from tests.faults.world import World

# Names and literals that lead to this machine without being loopback, as which a test instance may be called.
LITERALS = ("0.0.0.0", "[::]", "[::ffff:0.0.0.0]", "0", "169.254.169.254", "10.0.0.1")


@dataclass
class Trap:
    port: int
    connections: int = 0

    @property
    def urls(self) -> list[str]:
        return [f"http://{place}:{self.port}/trap" for place in (*LITERALS, *_own_addresses())]

    async def bait(self, world: World, shop: Account) -> int:
        """Registers each address as an endpoint and as an address for notifications; how many were accepted."""
        accepted = 0
        for url in self.urls:
            key = world.shop.new_key("bait")
            body = {"url": url, "events": ["*"]}
            reply = await world.shop.write(shop, "POST", "/v2/webhooks", body, key=key, op="bait")
            accepted += reply.status == 201
            key = world.shop.new_key("bait")
            order = world.order(key, ipn_url=url)
            reply = await world.shop.write(shop, "POST", "/v2/hosted-payments", order, key=key, op="bait")
            accepted += reply.status == 201
        return accepted


def _own_addresses() -> list[str]:
    """This machine's addresses other than loopback; connecting a datagram socket sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, suppress(OSError):
        probe.connect(("192.0.2.1", 9))
        return [str(probe.getsockname()[0])]
    return []


@asynccontextmanager
async def trap() -> AsyncIterator[Trap]:
    def caught(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        made.connections += 1
        writer.close()

    server = await asyncio.start_server(caught, "0.0.0.0", 0)
    made = Trap(server.sockets[0].getsockname()[1])
    try:
        yield made
    finally:
        server.close()
