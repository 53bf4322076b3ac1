"""The header is the only change, only in heads of replies, and no reply waits for a cause that does not come."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cachesim.tools.watch import relay as relay_module
from cachesim.tools.watch.cause_header import LONGEST, header_value, with_header
from cachesim.tools.watch.frames import REPLY as REPLIED
from cachesim.tools.watch.frames import REQUEST
from tests.unit.tools.watch.relayed import Copies, relay, run

HEAD = b"HTTP/1.1 200 OK\r\nX-b: 2\r\nx-A: 1\r\nContent-Length: 4"
REPLY = HEAD + b"\r\n\r\nbody"
HEADED = HEAD + b"\r\nx-cachesim-cause: date; byte 7\r\n\r\nbody"
ROW = {"cause": "date", "byte": 7, "byte_at_least": 7, "path": "messages[0].content", "says": "the date or time",
       "harmless": False}  # fmt: skip


@asynccontextmanager
async def connected(serve):
    """A client of a relay with the header; yield its reader and writer, and the analysis."""
    copies = Copies(has_header=True)
    async with relay(serve, copies) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        yield reader, writer, copies
        writer.close()


@pytest.fixture
def patient(monkeypatch):
    """A relay that waits for a cause however long it takes."""
    monkeypatch.setattr(relay_module, "HOLD", 3600)


def answering(*replies):
    """A server that answers a request of one byte with the pieces of a reply, of the next byte with the next reply."""
    async def serve(reader, writer):
        for pieces in replies:
            await reader.readexactly(1)
            for piece in pieces if isinstance(pieces, tuple) else (pieces,):
                writer.write(piece)
                await writer.drain()
        await reader.read()
        writer.close()

    return serve


def test_the_value_names_the_first_byte_and_the_reason():
    assert header_value(ROW) == b"date; byte 7; messages[0].content; the date or time"
    assert header_value({**ROW, "harmless": True}) == b"date"
    assert header_value({**ROW, "byte": None, "byte_at_least": None, "path": ""}) == b"date"
    assert header_value({**ROW, "byte": None, "path": ""}) == b"date; byte 7 or later; the date or time"


@settings(max_examples=20)
@given(st.text(), st.text(max_size=1000))
def test_the_value_is_printable_and_short(cause, path):
    value = header_value({**ROW, "cause": cause, "path": path})
    assert len(value) <= LONGEST and all(32 <= byte < 127 for byte in value) and value == value.rstrip()


@pytest.mark.parametrize("data", [
    b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 101 Switching Protocols\r\n\r\n", HEAD, HEAD + b"\r\n",
    b"body\r\n\r\n", b"HTTP/2 200\r\n\r\n", b"", b"ICY 200 OK\r\n\r\n",
    b"HTTP/1.1 200 OK\nContent-Length: 22\n\ndata: a\r\n\r\ndata: b\r\n\r\n", b"HTTP/1.1 200 OK\r\n\nbody\r\n\r\n",
    b"HTTP/1.1 200 OK\nA: b\r\n\r\n", b"HTTP/1.1 200 OK\r\nA: b\nC: d\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nA: b\rC: d\r\n\r\n",
])  # fmt: skip
def test_only_a_whole_head_of_a_reply_is_changed(data):
    assert with_header(data, b"date") == data and with_header(REPLY, b"") == REPLY


@pytest.mark.parametrize("is_early", [True, False])
def test_the_header_stands_after_the_others(is_early, patient):
    """The cause may arrive before the reply or after it."""
    async def test():
        begin = asyncio.Event()

        async def serve(reader, writer):
            await reader.readexactly(1)
            await begin.wait()
            writer.write(REPLY)
            await reader.read()

        async with connected(serve) as (reader, writer, analysis):
            writer.write(b".")
            await analysis.until(1, REQUEST)
            if not is_early:
                begin.set()
                await asyncio.sleep(0.01)
            await analysis.answer(b"date; byte 7")
            begin.set()
            assert await reader.readexactly(len(HEADED)) == HEADED
        assert b"".join(frame.data for frame in analysis.of(REPLIED)) == REPLY

    run(test())


def test_each_request_of_a_connection_has_its_own_cause(patient):
    async def test():
        async with connected(answering(REPLY, REPLY, REPLY)) as (reader, writer, analysis):
            date = b"date; byte 7", HEADED
            for number, (cause, reply) in enumerate((date, (b"", REPLY), date), 1):
                writer.write(b".")
                await analysis.until(number, REQUEST)
                await analysis.answer(b"of another connection", connection=9)
                await analysis.answer(cause)
                assert await reader.readexactly(len(reply)) == reply
                await analysis.answer(b"too late")

    run(test())


def test_no_reply_waits_longer_than_a_moment(monkeypatch):
    monkeypatch.setattr(relay_module, "HOLD", 0)

    async def test():
        async with connected(answering(REPLY, (HEAD, b"\r\n\r\nbody"))) as (reader, writer, _):
            for _ in range(2):
                writer.write(b".")
                assert await reader.readexactly(len(REPLY)) == REPLY

    run(test())


def test_a_body_that_looks_like_a_head_is_not_changed(patient):
    async def test():
        async with connected(answering((REPLY, REPLY))) as (reader, writer, analysis):
            writer.write(b".")
            await analysis.until(1, REQUEST)
            await analysis.answer(b"date; byte 7")
            assert await reader.readexactly(len(HEADED)) == HEADED
            await analysis.answer(b"of the same request")
            assert await reader.readexactly(len(REPLY)) == REPLY

    run(test())


def test_bytes_that_answer_no_request_do_not_wait(patient):
    interim = b"HTTP/1.1 100 Continue\r\n\r\n"

    async def test():
        async def serve(reader, writer):
            writer.write(REPLY)
            await answering(interim, REPLY)(reader, writer)

        async with connected(serve) as (reader, writer, analysis):
            assert await reader.readexactly(len(REPLY)) == REPLY
            writer.write(b".")
            assert await reader.readexactly(len(interim)) == interim
            writer.write(b".")
            await analysis.until(2, REQUEST)
            await analysis.answer(b"date; byte 7")
            assert await reader.readexactly(len(HEADED)) == HEADED

    run(test())


def test_replies_go_on_when_the_analysis_ends(patient):
    async def test():
        async with connected(answering(REPLY, REPLY)) as (reader, writer, analysis):
            writer.write(b".")
            await asyncio.sleep(0.01)
            analysis.end_causes()
            assert await reader.readexactly(len(REPLY)) == REPLY
            writer.write(b".")
            assert await reader.readexactly(len(REPLY)) == REPLY

    run(test())


def test_a_server_that_hangs_up_while_its_reply_waits(monkeypatch):
    monkeypatch.setattr(relay_module, "HOLD", 0.01)

    async def test():
        async def serve(reader, writer):
            await reader.readexactly(1)
            writer.write(REPLY)
            writer.close()

        async with connected(serve) as (reader, writer, _):
            writer.write(b".")
            assert await reader.read() == REPLY

    run(test())


def test_a_client_that_hangs_up_while_its_reply_waits(monkeypatch):
    monkeypatch.setattr(relay_module, "HOLD", 0.01)

    async def test():
        ended = asyncio.Event()

        async def serve(reader, writer):
            await reader.readexactly(1)
            writer.write(REPLY)
            with suppress(ConnectionResetError):
                assert await reader.read() == b""
            ended.set()

        async with connected(serve) as (_, writer, analysis):
            writer.write(b".")
            await analysis.until(1, REQUEST)
            writer.transport.abort()
            await ended.wait()

    run(test())


def test_replies_that_a_client_does_not_read_stay_at_the_server(monkeypatch):
    """Also after a reply that was held back, the relay reads on only if the client takes the bytes."""
    monkeypatch.setattr(relay_module, "HOLD", 0)
    size, number = 48 << 10, 800

    async def test():
        async def serve(reader, writer):
            for _ in range(number):
                await reader.readexactly(1)
                writer.write(bytes(size))
                await writer.drain()
            await reader.read()
            writer.close()

        async with connected(serve) as (reader, writer, analysis):
            for sent in range(1, number + 1):
                writer.write(b".")
                await analysis.until(sent, REQUEST)
            taken = sum(len(frame.data) for frame in analysis.of(REPLIED))
            assert size < taken < size * number // 2
            for _ in range(number):
                await reader.readexactly(size)

    run(test())


@pytest.mark.parametrize(("says", "size"), [("x" * 300, 200), ("x" * 180 + " " * 120, 194), ("x", 15)])
def test_a_value_has_at_most_200_characters(says, size):
    row = {"cause": "date", "byte_at_least": 7, "byte": 7, "harmless": False, "path": "", "says": says}
    value = header_value(row)
    assert value == b"date; byte 7; " + b"x" * (size - 14)
