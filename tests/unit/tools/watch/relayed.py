"""A relay in this process, between a client and a server that are written out byte by byte, and its pipes."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import asynccontextmanager, suppress

from cachesim.tools.watch.frames import CAUSE, Frame, FrameReader, packed
from cachesim.tools.watch.relay import Address
from cachesim.tools.watch.relay_process import relay_connections

GUARD = 30                   # seconds after which a test that hangs fails


def run(test):
    """Run a coroutine, which must end."""
    async def guarded():
        return await asyncio.wait_for(test, GUARD)

    return asyncio.run(guarded())


class Copies:
    """Analysis of a relay. ``frames``: the copies that it has read; ``endings``: calls of the relay's ``ending``."""

    def __init__(self, has_header=False):
        self.pipe, write = os.pipe()
        self.writer = os.fdopen(write, "wb", 0)
        self.causes, self._answers = os.pipe() if has_header else (None, None)
        self.frames, self.endings, self._reader = [], 0, FrameReader()
        self._has_new = asyncio.Event()

    def begin(self):
        """Read copies from now on."""
        os.set_blocking(self.pipe, False)
        asyncio.get_running_loop().add_reader(self.pipe, self._read)

    def _read(self):
        if data := os.read(self.pipe, 1 << 20):
            self.frames += self._reader.read(data)
            self._has_new.set()
        else:
            self.end()

    def end(self):
        """End the analysis."""
        asyncio.get_running_loop().remove_reader(self.pipe)
        os.close(self.pipe)
        self.pipe = None
        self.end_causes()

    def end_causes(self):
        """Close the pipe with the causes."""
        if self._answers is not None:
            os.close(self._answers)
            self._answers = None

    async def until(self, number, *kinds):
        """Wait for so many frames of these kinds."""
        while sum(frame.kind in kinds for frame in self.frames) < number:
            self._has_new.clear()
            await self._has_new.wait()

    async def answer(self, cause, connection=1):
        """Send a cause to the relay, which has read it afterwards."""
        os.write(self._answers, packed(Frame(CAUSE, connection, cause)))
        await asyncio.sleep(0.01)

    def of(self, *kinds):
        """Return the frames of these kinds."""
        return [frame for frame in self.frames if frame.kind in kinds]

    def ending(self):
        self.endings += 1


@asynccontextmanager
async def relay(serve, copies=None):
    """Start a server whose connections ``serve(reader, writer)`` handles, and a relay in front of it; yield the relay's
    port."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with relay_to(server.sockets[0].getsockname()[1], copies) as port:
        yield port
    server.close()


@asynccontextmanager
async def relay_to(port, copies=None, host="127.0.0.1", is_read=True):
    """Start a relay to a port; yield its own port. The analysis has read everything afterwards."""
    copies = copies or Copies()
    if is_read:
        copies.begin()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        task = asyncio.create_task(relay_connections(Address(host, port), listener, copies.writer, copies.causes,
                                                     copies.ending))  # fmt: skip
        try:
            yield listener.getsockname()[1]
        finally:
            task.cancel()
            if copies.pipe is not None:
                copies.begin()
            with suppress(asyncio.CancelledError):
                await task
            while copies.pipe is not None:
                await asyncio.sleep(0)
