"""`watch` before a misbehaving server or client: the bytes pass, and the rows are printable and bounded."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from itertools import islice

import pytest

from cachesim.tools.watch.cause_header import with_header
from cachesim.tools.watch.exchanges import Connections
from cachesim.tools.watch.frames import CLIENT_ENDS, REPLY, REQUEST, SERVER_ENDS, Frame
from cachesim.tools.watch.held_bytes import HeldBytes
from cachesim.tools.watch.joined_rows import JoinedRows
from cachesim.tools.watch.recent_bodies import RecentBodies
from cachesim.tools.watch.report import row_text, totals_text
from tests.hostile.bad_server import HARMLESS, MISBEHAVIOURS, WRONG_FIELDS, good
from tests.unit.tools.watch.relayed import Copies, relay, run

PIECES = 200                 # pieces of an endless reply
MIB = 40                     # MiB that the analysis of a connection may need
ENDLESS = {name for name in MISBEHAVIOURS if name.startswith(("endless", "dripping", "silent", "reset"))} | {
    "body of 10 GB", "100 Continue without end", "event of 100 MB"}  # fmt: skip
BODY = json.dumps({"prompt": "a question", "n_predict": 2}).encode()
POST = b"POST /completion HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY)
REQUESTS = {
    "garbage": bytes(range(256)) * 40, "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 500,
    "endless head": b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 100_000, "no end of the head": POST[:30],
    "no end of the body": POST[:-3], "two lengths": POST.replace(b"Host: a", b"Content-Length: 3"),
    "chunks that are not": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "a body of another length": POST + b"and more\r\n\r\n", "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "escapes": POST.replace(b"/completion", b"/\x1b[31m"), "not JSON": POST.replace(b'"prompt"', b"'prompt'"),
    "deep": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n" + b"[" * 200_000,
}  # fmt: skip
"""Bytes of misbehaving clients."""


def pieces(name):
    """The bytes of a misbehaviour, at most ``PIECES`` pieces of it."""
    made = {**MISBEHAVIOURS, **WRONG_FIELDS}[name](good("/completion", {"prompt": [1, 2]}, 1))
    return [one for one in islice(made, PIECES) if isinstance(one, bytes)]


def analysed(*frames):
    """The rows and the totals of a connection."""
    joined, rows = JoinedRows(RecentBodies(), False), []
    held = HeldBytes()
    connections = Connections(joined.sent, lambda exchange: rows.extend(joined.ended(exchange)), held)
    for kind, data in frames:
        connections.read(Frame(kind, 1, data))
    assert held.size == 0 or kind != SERVER_ENDS
    return rows, connections


def judge(rows):
    for row in rows:
        text = row_text(row) + json.dumps(row)
        assert text.isprintable() and len(text) < 6_000, text[:300]
    totals = {"requests": len(rows), "prompt": 0, "reused": 0, "evaluated": 0, "causes": [], "log": [],
              "at_least": ["prompt"], "first_lines": [], "left_out": []}  # fmt: skip
    assert totals_text(totals)


@pytest.mark.part(4)
@pytest.mark.parametrize("name", [*MISBEHAVIOURS, *WRONG_FIELDS])
def test_every_reply_has_at_most_a_printable_row(name):
    replies = [(REPLY, one) for one in pieces(name)]
    tracemalloc.start()
    rows, _ = analysed((REQUEST, POST), *replies, (CLIENT_ENDS, b""), (SERVER_ENDS, b""))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(rows) == 1 and peak < MIB << 20
    judge(rows)
    if name in HARMLESS - {"duplicate keys"}:
        assert (rows[0]["prompt"], rows[0]["generated"]) == (2, 1)


@pytest.mark.parametrize("name", REQUESTS)
def test_every_request_has_at_most_a_printable_row(name):
    rows, connections = analysed((REQUEST, REQUESTS[name]), (REPLY, b"HTTP/1.1 400 No\r\nContent-Length: 0\r\n\r\n"),
                                 (CLIENT_ENDS, b""), (SERVER_ENDS, b""))  # fmt: skip
    judge(rows)
    assert len(rows) + connections.unread >= (name != "no end of the head")


FINITE = sorted(MISBEHAVIOURS.keys() - ENDLESS)


@pytest.mark.parametrize(("name", "has_header"), [*((name, True) for name in FINITE), (FINITE[0], False)])
def test_the_bytes_of_a_reply_arrive(name, has_header):
    """Without a header of ours no byte of a reply is looked at."""
    sent = b"".join(pieces(name))

    async def test():
        async def serve(reader, writer):
            await reader.readexactly(len(POST))
            writer.write(sent)
            writer.close()

        copies = Copies(has_header=has_header)
        async with relay(serve, copies) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(POST)
            if has_header:
                await copies.until(1, REQUEST)
                await copies.answer(b"date")
            got = await reader.read()
            writer.close()
        assert got in ({sent, with_header(sent, b"date")} if has_header else {sent})
        assert b"".join(one.data for one in copies.of(REPLY)) == sent

    run(test())


def test_a_line_of_a_log_of_any_length_and_content(tmp_path, capsys):
    from cachesim.cli.main import main

    lines = b"- prompt " * 100_000, bytes(range(256)) * 1_000, b"\x1b[2J", b"|" * 10**6
    (tmp_path / "log").write_bytes(b"\n".join(lines))
    assert main(["watch", "--once", str(tmp_path / "log")]) == 0
    assert capsys.readouterr().out == "0 requests: prompt 0, reused 0, evaluated 0 tokens\n"
