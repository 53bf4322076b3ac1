"""The relay changes no byte, keeps streams and ends as they are, and needs neither memory nor the analysis."""

from __future__ import annotations

import asyncio
import socket
import struct
import tracemalloc
from contextlib import suppress
from pathlib import Path

import pytest

from cachesim.tools.watch.frames import (
    CLIENT_ENDS,
    QUEUE,
    REPLY,
    REQUEST,
    SERVER_ENDS,
    SKIPPED_REPLY,
    SKIPPED_REQUEST,
    UNREACHABLE,
)
from tests.unit.tools.watch.relayed import Copies, relay, relay_to, run

REQUEST_BYTES = (b"POST /v1/x?a=%20b HTTP/1.1\r\nZ-Last: 1\r\nhOsT: some.name:80\r\nCookie: a=1\r\ncookie:  b=2 \r\n"
                 b"Expect: 100-continue\r\nContent-Length: 7\r\n\r\n\x00\xffbody\n")  # fmt: skip
REPLY_BYTES = (b"HTTP/1.1 299 Quite  Unusual\r\nX-b: 2\r\nx-A: 1\r\nX-b: 1\r\nContent-Encoding: gzip\r\n"
               b"Keep-Alive: timeout=5\r\nTransfer-Encoding: chunked\r\n\r\n3;ext=1\r\n\x1f\x8b\x08\r\n0\r\n"
               b"Trailer: t\r\n\r\n")  # fmt: skip


async def exchange(request, reply):
    """Send a request through a relay to a server that replies, and compare the bytes; return the copies."""
    got, copies = [], Copies()

    async def serve(reader, writer):
        got.append(await reader.readexactly(len(request)))
        writer.write(reply)
        writer.close()

    async with relay(serve, copies) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        assert await reader.read() == reply and got == [request]
        writer.close()
        assert copies.endings == 0
    return copies


def test_both_directions_arrive_byte_for_byte_and_their_copies_before_the_end(capsys):
    copies = run(exchange(REQUEST_BYTES, REPLY_BYTES))
    kinds = {kind: b"".join(one.data for one in copies.of(kind)) for kind in (REQUEST, REPLY)}
    assert kinds == {REQUEST: REQUEST_BYTES, REPLY: REPLY_BYTES}
    assert [frame.kind for frame in copies.frames if frame.data] == [REQUEST, REPLY] and copies.endings == 1
    assert capsys.readouterr().err == ""


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
        ended, copies = asyncio.Event(), Copies()

        async def serve(reader, writer):
            writer.write(b"begun")
            assert await reader.read() == b"request"
            ended.set()
            writer.close()

        async with relay(serve, copies) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"request")
            await reader.readexactly(5)
            writer.close()
            await ended.wait()
            await copies.until(1, CLIENT_ENDS)           # while the relay still runs
            await copies.until(1, SERVER_ENDS)
        assert len(copies.of(CLIENT_ENDS)) == len(copies.of(SERVER_ENDS)) == 1

    run(test())


def test_the_server_learns_that_a_client_hung_up_before_it_was_connected():
    async def test():
        ended = asyncio.Event()

        async def serve(reader, writer):
            with suppress(ConnectionResetError):
                assert await reader.read() == b""
            ended.set()

        async with relay(serve) as port:
            with socket.create_connection(("127.0.0.1", port)) as client:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            await ended.wait()

    run(test())


def test_a_copy_does_not_wait_for_the_next():
    async def test():
        async def serve(reader, writer):
            await reader.read()
            writer.close()

        async with relay(serve, copies := Copies()) as port:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"request")
            await copies.until(1, REQUEST)
            writer.close()

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

        async with relay(serve, copies := Copies()) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b".")
            assert await reader.read() == b"half of a re"
        assert len(copies.of(SERVER_ENDS)) == 1

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


@pytest.mark.parametrize("is_reset", [True, False])
def test_a_client_that_leaves_leaves_the_server_in_the_same_way(is_reset):
    async def test():
        found = asyncio.get_running_loop().create_future()

        async def serve(reader, writer):
            writer.write(b"begun")
            try:
                found.set_result(await reader.read())
            except ConnectionResetError as error:
                found.set_result(error)

        async with relay(serve) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            await reader.readexactly(5)
            if is_reset:
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()
            else:
                writer.close()
            assert isinstance(await found, ConnectionResetError) == is_reset

    run(test())


@pytest.mark.parametrize("host, port", [("127.0.0.1", None), ("x..y", 80), ("a" * 300, 80), (".x", 80), ("a\0b", 80),
                                        ("\ud800", 80), ("127.0.0.1", 1 << 70)])  # fmt: skip
def test_a_server_that_cannot_be_connected_is_a_failed_connection_for_the_client(host, port):
    async def test():
        with socket.create_server(("127.0.0.1", 0)) as closed:
            free = closed.getsockname()[1]
        failures, copies = [], Copies()
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
        async with relay_to(port or free, copies, host) as own:
            reader, _ = await asyncio.open_connection("127.0.0.1", own)
            with pytest.raises(ConnectionResetError):
                await reader.read()
        [frame] = copies.of(UNREACHABLE)
        assert failures == [] and (port or b"refused" in frame.data.lower() or b"connect" in frame.data.lower())

    run(test())


@pytest.mark.parametrize("kind, skipped", [(REQUEST, SKIPPED_REQUEST), (REPLY, SKIPPED_REPLY)])
def test_60_mb_to_a_slow_reader_need_bounded_memory_while_the_analysis_reads_nothing(kind, skipped):
    """What exceeds the queue is dropped and counted."""
    block, blocks = bytes(range(256)) * 4096, 60
    twice = memoryview(block * 2)

    async def send(writer, begin):
        """Send everything; the receiver begins when all buffers are full."""
        for number in range(blocks):
            writer.write(block)
            if not begin.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(writer.drain(), 0.2)
                    continue
                assert number < 40
                begin.set()
            await writer.drain()
        assert begin.is_set()

    async def receive(reader, begin):
        await begin.wait()
        size = 0
        while size < len(block) * blocks:
            data = await reader.read(1 << 16)
            assert data == twice[size % 256 :][: len(data)]
            size += len(data)

    async def test():
        begin, served, copies = asyncio.Event(), asyncio.Event(), Copies()

        async def serve(reader, writer):
            await (receive(reader, begin) if kind == REQUEST else send(writer, begin))
            served.set()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with relay_to(server.sockets[0].getsockname()[1], copies, is_read=False) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            tracemalloc.start()
            await (send(writer, begin) if kind == REQUEST else receive(reader, begin))
            await served.wait()
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            copies.begin()
            writer.close()
            await copies.until(1, CLIENT_ENDS)
        server.close()
        assert peak < 2 * QUEUE + (32 << 20)
        sizes = sum(len(one.data) for one in copies.of(kind)), sum(one.skipped for one in copies.of(skipped))
        assert 0 < sizes[0] <= QUEUE + len(block) and sum(sizes) == len(block) * blocks

    run(test())


def test_without_the_analysis_connections_are_still_relayed_and_a_line_says_so(capsys):
    async def test():
        async def serve(reader, writer):
            writer.write(b"reply to " + await reader.readexactly(1))
            writer.close()

        async with relay(serve, copies := Copies()) as port:
            copies.end()
            for _ in range(3):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b".")
                assert await reader.read() == b"reply to ."
                writer.close()

    run(test())
    assert capsys.readouterr().err.count("\n") == 1


def test_a_relay_that_is_cancelled_listens_no_longer():
    async def test():
        async with relay_to(1) as port:
            await asyncio.sleep(0.01)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)

    run(test())
