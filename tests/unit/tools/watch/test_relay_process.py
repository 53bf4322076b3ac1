"""The relay's process sends copies to the analysis, takes causes from it, and outlives it."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import asynccontextmanager, suppress
from types import SimpleNamespace

from cachesim.tools.watch.frames import CAUSE, REPLY, REQUEST, Frame, FrameReader, packed
from cachesim.tools.watch.relay import Address
from cachesim.tools.watch.relay_process import _Causes, relay_connections
from tests.unit.tools.watch.relayed import run

ASKED = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
REPLIED = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"


class Relayed:
    """A relay in front of a server with one reply, and the pipes of an analysis. ``ended``: calls of ``ending``."""

    def __init__(self, has_causes=False):
        self.reader, self.writer = os.pipe()
        self.causes, self.cause_writer = os.pipe() if has_causes else (None, None)
        self.ended = []

    @asynccontextmanager
    async def running(self):
        """Run the relay; yield its port."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        address = Address("127.0.0.1", server.sockets[0].getsockname()[1])
        with socket.create_server(("127.0.0.1", 0)) as listener:
            task = asyncio.create_task(relay_connections(address, listener, self.writer, self.causes,
                                                         lambda: self.ended.append(True)))  # fmt: skip
            try:
                yield listener.getsockname()[1]
            finally:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        server.close()

    async def _serve(self, reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(REPLIED)
        writer.close()

    def copies(self):
        """Return the frames in the pipe, after the relay has closed it."""
        with os.fdopen(self.reader, "rb") as pipe:
            return list(FrameReader().read(pipe.read()))


async def reply(port):
    """Send a request, and return all bytes of the reply."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(ASKED)
    got = await reader.read()
    writer.close()
    return got


def test_copies_of_both_directions_reach_the_analysis_before_the_pipe_ends(capsys):
    async def test():
        relayed = Relayed()
        async with relayed.running() as port:
            assert await reply(port) == REPLIED
            assert relayed.ended == []
        assert relayed.ended == [True]
        assert [(frame.kind, frame.data) for frame in relayed.copies() if frame.data] == [
            (REQUEST, ASKED), (REPLY, REPLIED)]  # fmt: skip

    run(test())
    assert capsys.readouterr().err == ""


def test_a_cause_from_the_analysis_becomes_a_header_of_the_reply():
    async def test():
        relayed = Relayed(has_causes=True)
        async with relayed.running() as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(ASKED)
            copies = await asyncio.to_thread(os.read, relayed.reader, 1 << 16)
            [frame, *_] = FrameReader().read(copies)
            os.write(relayed.cause_writer, packed(Frame(CAUSE, frame.connection, b"extends")))
            assert b": extends\r\n" in await reader.read()
            os.close(relayed.cause_writer)                       # the analysis has ended: nothing waits for a cause
            while REPLIED not in await reply(port):
                pass
            writer.close()
        os.close(relayed.reader)

    run(test())


def test_without_the_analysis_connections_are_still_relayed_and_a_line_says_so(capsys):
    async def test():
        relayed = Relayed()
        async with relayed.running() as port:
            os.close(relayed.reader)
            assert [await reply(port) for _ in range(3)] == [REPLIED] * 3

    run(test())
    assert capsys.readouterr().err == "cachesim: the analysis ended; connections are still relayed\n"


def test_without_the_analysis_replies_wait_for_no_cause():
    calls = []
    _Causes(SimpleNamespace(end_causes=lambda: calls.append("ended"))).connection_lost(None)
    assert calls == ["ended"]
