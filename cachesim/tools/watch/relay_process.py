"""The relay's process: its connections, and the pipe to the analysis."""

from __future__ import annotations

import asyncio
import os
import socket

from cachesim.base.console import complain
from cachesim.tools.watch.frames import FrameQueue
from cachesim.tools.watch.relay import Address, Relay


class _Pipe(asyncio.Protocol):
    """End of the pipe to the analysis. ``closed`` is done when nothing more can be sent."""

    def __init__(self) -> None:
        self.closed = asyncio.get_running_loop().create_future()
        self.is_ending = False

    def connection_lost(self, error: Exception | None) -> None:
        """Report an analysis that ended before the relay."""
        if not self.is_ending:
            complain("the analysis ended; connections are still relayed")
        self.closed.set_result(None)


async def relay_connections(server: Address, listener: socket.socket, write: int) -> None:
    """Relay connections until the task is cancelled; then send the rest of the copies. ``write``: descriptor of the
    pipe to the analysis."""
    loop = asyncio.get_running_loop()
    transport, pipe = await loop.connect_write_pipe(_Pipe, os.fdopen(write, "wb", 0))

    def send(data: bytes) -> None:
        if not transport.is_closing():
            transport.write(data)

    queue = FrameQueue(send, transport.get_write_buffer_size)
    try:
        await Relay(server, queue).run(listener)
    finally:
        pipe.is_ending = True
        queue.flush()
        transport.close()
        await pipe.closed
