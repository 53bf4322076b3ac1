"""A relay in this process, between a client and a server that are written out byte by byte."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager

from cachesim.tools.watch.frames import FrameQueue, FrameReader
from cachesim.tools.watch.relay import Address, Relay

GUARD = 60                   # seconds after which a test that hangs fails


def run(test):
    """Run a coroutine, which must end."""
    async def guarded():
        return await asyncio.wait_for(test, GUARD)

    return asyncio.run(guarded())


class Copies:
    """Frames that the relay queued. ``waiting``: bytes that the analysis has not read."""

    def __init__(self, waiting=0, most=1 << 25, has_header=False):
        self.sent, self.waiting, self.has_header = bytearray(), waiting, has_header
        self.queue = FrameQueue(self._send, lambda: self.waiting, most)

    def _send(self, data):
        self.sent += data

    def frames(self):
        self.queue.flush()
        return list(FrameReader().read(bytes(self.sent)))


@asynccontextmanager
async def relay(serve, copies=None):
    """Start a server whose connections ``serve(reader, writer)`` handles, and a relay in front of it; yield the relay's
    port."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with relay_to(server.sockets[0].getsockname()[1], copies) as port:
        yield port
    server.close()


@asynccontextmanager
async def relay_to(port, copies=None, host="127.0.0.1"):
    """Start a relay to a port; yield its own port. The relay is ``copies.relay``."""
    copies = copies or Copies()
    copies.relay = Relay(Address(host, port), copies.queue, copies.has_header)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        task = asyncio.create_task(copies.relay.run(listener))
        try:
            yield listener.getsockname()[1]
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
