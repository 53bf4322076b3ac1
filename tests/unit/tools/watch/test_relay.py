"""The relay changes no byte, keeps streams and ends as they are, and needs neither memory nor the analysis."""

from __future__ import annotations

import asyncio
import socket
import struct
import tracemalloc
from pathlib import Path

import pytest

from cachesim.tools.watch.frames import CLIENT_ENDS, REPLY, REQUEST, SERVER_ENDS, SKIPPED_REQUEST, UNREACHABLE
from cachesim.tools.watch.relay import Address, Relay
from tests.unit.tools.watch.relayed import Copies, relay, relay_to, run

REQUEST_BYTES = (b"POST /v1/x?a=%20b HTTP/1.1\r\nZ-Last: 1\r\nhOsT: some.name:80\r\nCookie: a=1\r\ncookie:  b=2 \r\n"
                 b"Expect: 100-continue\r\nContent-Length: 7\r\n\r\n\x00\xffbody\n")  # fmt: skip
REPLY_BYTES = (b"HTTP/1.1 299 Quite  Unusual\r\nX-b: 2\r\nx-A: 1\r\nX-b: 1\r\nContent-Encoding: gzip\r\n"
               b"Keep-Alive: timeout=5\r\nTransfer-Encoding: chunked\r\n\r\n3;ext=1\r\n\x1f\x8b\x08\r\n0\r\n"
               b"Trailer: t\r\n\r\n")  # fmt: skip


async def exchange(request, reply):
    """Send a request through a relay to a server that replies, and compare the bytes; return the copies."""
    got = []

    async def serve(reader, writer):
        got.append(await reader.readexactly(len(request)))
        writer.write(reply)
        writer.close()

    copies = Copies()
    async with relay(serve, copies) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        assert await reader.read() == reply and got == [request]
        writer.close()
    return copies


def test_both_directions_arrive_byte_for_byte():
    copies = run(exchange(REQUEST_BYTES, REPLY_BYTES))
    kinds = {kind: b"".join(one.data for one in copies.frames() if one.kind == kind) for kind in (REQUEST, REPLY)}
    assert kinds == {REQUEST: REQUEST_BYTES, REPLY: REPLY_BYTES}


CONNECTION_FIELDS = (b"Connection: keep-alive, X-Own", b"X-Own: 1", b"Keep-Alive: timeout=5", b"TE: trailers",
                     b"Trailer: X-Sum", b"Upgrade: h2c", b"Proxy-Connection: close", b"Proxy-Authorization: Basic YQ==",
                     b"Proxy-Authenticate: Basic", b"Transfer-Encoding: chunked")  # fmt: skip
"""Fields that belong to one connection (RFC 9110, section 7.6.1). A proxy that parses HTTP would drop them."""


def test_fields_of_a_connection_are_forwarded_too():
    """The manual says so: each connection of a client has its own connection to the server."""
    request, reply = (b"\r\n".join((line, *CONNECTION_FIELDS, b"", b"1", b"a", b"0", b"X-Sum: 1", b"", b""))
                      for line in (b"POST / HTTP/1.1", b"HTTP/1.1 200 OK"))  # fmt: skip
    run(exchange(request, reply))
    manual = (Path(__file__).parents[4] / "cachesim/pages/using.md").read_text("utf-8")
    names = {line.partition(b":")[0].decode().partition("-")[0] for line in CONNECTION_FIELDS}
    assert all(f"`{name}" in manual for name in names - {"X"})


def test_a_piece_of_a_stream_arrives_before_the_next_is_sent():
    async def test():
        async def serve(reader, writer):
            for number in range(3):
                await reader.readexactly(1)                      # the client has the pieces so far
                writer.write(b"piece %d" % number)
            writer.close()

        async with relay(serve) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for number in range(3):
                writer.write(b".")
                assert await reader.readexactly(7) == b"piece %d" % number
            assert await reader.read() == b""

    run(test())


def test_a_connection_of_a_client_stays_open_for_further_requests():
    async def test():
        connections = []

        async def serve(reader, writer):
            connections.append(writer)
            while await reader.read(4):
                writer.write(b"pong")

        async with relay(serve) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for _ in range(5):
                writer.write(b"ping")
                assert await reader.readexactly(4) == b"pong"
            assert len(connections) == 1

    run(test())


def test_the_server_learns_that_a_client_hung_up():
    async def test():
        ended = asyncio.Event()

        async def serve(reader, writer):
            writer.write(b"begun")
            assert await reader.read() == b"request"
            ended.set()

        copies = Copies()
        async with relay(serve, copies) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"request")
            await reader.readexactly(5)
            writer.close()
            await ended.wait()
        assert CLIENT_ENDS in [one.kind for one in copies.frames()]

    run(test())


def test_a_client_that_only_stops_sending_gets_its_reply():
    async def test():
        async def serve(reader, writer):
            writer.write(b"reply to " + await reader.read())
            writer.close()

        async with relay(serve) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"all")
            writer.write_eof()
            assert await reader.read() == b"reply to all"

    run(test())


def test_the_client_learns_that_the_server_hung_up_within_a_reply():
    async def test():
        async def serve(reader, writer):
            await reader.readexactly(1)
            writer.write(b"half of a re")
            writer.close()

        copies = Copies()
        async with relay(serve, copies) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b".")
            assert await reader.read() == b"half of a re"
        assert SERVER_ENDS in [one.kind for one in copies.frames()]

    run(test())


def test_a_reset_of_the_server_is_a_reset_for_the_client():
    async def test():
        async def serve(reader, writer):
            await reader.readexactly(1)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()

        async with relay(serve) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b".")
            with pytest.raises(ConnectionResetError):
                await reader.read()

    run(test())


def test_a_server_that_is_not_there_is_a_failed_connection_for_the_client():
    async def test():
        with socket.create_server(("127.0.0.1", 0)) as closed:
            port = closed.getsockname()[1]
        copies = Copies()
        async with relay_to(port, copies) as own:
            reader, _ = await asyncio.open_connection("127.0.0.1", own)
            with pytest.raises(ConnectionResetError):
                await reader.read()
        [frame] = [one for one in copies.frames() if one.kind == UNREACHABLE]
        assert b"refused" in frame.data.lower() or b"connect" in frame.data.lower()

    run(test())


@pytest.mark.parametrize("host, port", [("x..y", 80), ("a" * 300, 80), (".x", 80), ("a\0b", 80), ("\ud800", 80),
                                        ("127.0.0.1", 1 << 70)])  # fmt: skip
def test_a_name_that_no_resolver_takes_is_a_failed_connection_for_the_client(host, port):
    async def test():
        failures, copies = [], Copies()
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
        async with relay_to(port, copies, host) as own:
            reader, _ = await asyncio.open_connection("127.0.0.1", own)
            with pytest.raises(ConnectionResetError):
                await reader.read()
        assert [one.kind for one in copies.frames() if one.kind == UNREACHABLE] == [UNREACHABLE] and failures == []

    run(test())


def test_a_body_of_100_mb_needs_little_memory_although_the_server_is_slow():
    block, blocks = bytes(range(256)) * 4096, 100

    async def test():
        begin = asyncio.Event()

        async def serve(reader, writer):
            await begin.wait()                                   # the client fills all buffers meanwhile
            size = 0
            while size < len(block) * blocks:
                size += len(await reader.read(1 << 16))
            writer.write(b"%d" % size)
            writer.close()

        async with relay(serve, Copies(waiting=1 << 30)) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            tracemalloc.start()
            for number in range(blocks):
                if number == 8:
                    begin.set()
                writer.write(block)
                if number != 7:
                    await asyncio.sleep(0)
                if number >= 8:
                    await writer.drain()
            assert await reader.read() == b"%d" % (len(block) * blocks)
            assert tracemalloc.get_traced_memory()[1] < 32 << 20
            tracemalloc.stop()

    run(test())


def test_copies_beyond_the_bound_are_dropped_and_counted_and_the_bytes_still_arrive():
    async def test():
        async def serve(reader, writer):
            writer.write(await reader.readexactly(3000))

        copies = Copies(waiting=1 << 20, most=1000)
        async with relay(serve, copies) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"x" * 3000)
            assert await reader.readexactly(3000) == b"x" * 3000
            copies.waiting = 0
            writer.close()
            while not copies.queue._pending:
                await asyncio.sleep(0)
        frames = copies.frames()
        assert [(one.kind, one.skipped) for one in frames if one.kind == SKIPPED_REQUEST] == [(SKIPPED_REQUEST, 3000)]
        assert not [one for one in frames if one.kind == REQUEST]

    run(test())


def test_a_relay_that_is_cancelled_listens_no_longer():
    async def test():
        listener = socket.create_server(("127.0.0.1", 0))
        task = asyncio.create_task(Relay(Address("127.0.0.1", 1), Copies().queue, has_header=False).run(listener))
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.sleep(0)
        assert task.cancelled() and listener.fileno() == -1

    run(test())
