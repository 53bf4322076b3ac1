"""The relay's process: its connections, the pipe to the analysis, and the pipe with the causes that return."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import IO, Callable

from cachesim.base.console import complain
from cachesim.tools.watch.frames import FrameQueue, FrameReader
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


class _Causes(asyncio.Protocol):
    """End of the pipe from the analysis."""

    def __init__(self, relay: Relay) -> None:
        self._relay, self._frames = relay, FrameReader()

    def data_received(self, data: bytes) -> None:
        """Take the causes of requests."""
        for frame in self._frames.read(data):
            self._relay.take_cause(frame.connection, frame.data)

    def connection_lost(self, error: Exception | None) -> None:
        """Forward replies without waiting: the analysis ended."""
        self._relay.end_causes()


async def relay_connections(server: Address, listener: socket.socket, copies: IO[bytes], causes: int | None,
                            ending: Callable[[], None]) -> None:  # fmt: skip
    """Relay connections until the task is cancelled; then call ``ending`` and send the rest of the copies. ``copies``:
    pipe to the analysis, which is closed; ``causes``: descriptor of the pipe from it, for the header, None = no
    header."""
    loop = asyncio.get_running_loop()
    transport, pipe = await loop.connect_write_pipe(_Pipe, copies)

    def send(data: bytes) -> None:
        if not transport.is_closing():
            transport.write(data)

    queue = FrameQueue(send, transport.get_write_buffer_size)
    relay = Relay(server, queue, causes is not None)
    if causes is not None:
        await loop.connect_read_pipe(lambda: _Causes(relay), os.fdopen(causes, "rb", 0))
    try:
        await relay.run(listener)
    finally:
        pipe.is_ending = True
        ending()
        queue.flush()
        transport.close()
        await pipe.closed
