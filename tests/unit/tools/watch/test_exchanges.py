"""Requests and replies are read from copies of any cut; what cannot be read harms no other connection."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cachesim.tools.watch import exchanges
from cachesim.tools.watch.exchanges import CLIENT_LEFT, SERVER_LEFT, WHOLE, Connections
from cachesim.tools.watch.frames import (
    CLIENT_ENDS,
    REPLY,
    REQUEST,
    SERVER_ENDS,
    SKIPPED_REPLY,
    SKIPPED_REQUEST,
    UNREACHABLE,
    Frame,
)

POST = b"POST /v1/x HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n3\r\ncde\r\n0\r\n\r\n"
SIZED = b"HTTP/1.1 404 No\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nxyz"


def post(body):
    return POST % (len(body), body)


class Heard:
    """Exchanges that were read."""

    def __init__(self):
        self.sent, self.ended = [], []
        self.connections = Connections(self.sent.append, self.ended.append)

    def read(self, *frames, connection=1):
        for kind, data in frames:
            self.connections.read(Frame(kind, connection, data))
        return self

    def ends(self):
        return [(one.method, one.target, one.status, bytes(one.reply), one.end) for one in self.ended]


def test_a_connection_with_several_requests():
    heard = Heard().read((REQUEST, post(b"one")), (REPLY, CHUNKED), (REQUEST, post(b"two")), (REPLY, SIZED))
    assert [bytes(one.body) for one in heard.sent] == [b"one", b"two"]
    assert heard.ends() == [("POST", "/v1/x", 200, b"abcde", WHOLE), ("POST", "/v1/x", 404, b"xyz", WHOLE)]
    assert heard.ended[1].coding == "gzip" and heard.connections.unread == 0


@given(st.lists(st.integers(0, len(post(b"one") + post(b"two"))), max_size=6),
       st.lists(st.integers(0, len(CHUNKED)), max_size=6))  # fmt: skip
def test_the_cuts_of_the_bytes_do_not_matter(request_cuts, reply_cuts):
    heard = Heard()
    for body in (b"one", b"two"):
        for kind, data, cuts in ((REQUEST, post(body), request_cuts), (REPLY, CHUNKED, reply_cuts)):
            ends = [0, *sorted(cut for cut in cuts if cut <= len(data)), len(data)]
            heard.read(*((kind, data[a:b]) for a, b in pairwise(ends) if a < b))
    assert heard.ends() == [("POST", "/v1/x", 200, b"abcde", WHOLE)] * 2


def test_a_reply_before_which_the_server_said_continue():
    heard = Heard().read((REQUEST, POST.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n") % (3, b"")),
                         (REPLY, b"HTTP/1.1 100 Continue\r\n\r\n"), (REQUEST, b"abc"), (REPLY, CHUNKED))  # fmt: skip
    assert bytes(heard.sent[0].body) == b"abc" and heard.ended[0].end == WHOLE


def test_a_reply_that_ends_with_its_connection():
    heard = Heard().read((REQUEST, post(b"one")), (REPLY, b"HTTP/1.0 200 OK\r\n\r\nall of it"))
    assert not heard.ended
    heard.read((SERVER_ENDS, b""))
    assert heard.ends() == [("POST", "/v1/x", 200, b"all of it", WHOLE)]


@pytest.mark.parametrize("frames, end", [
    ([(REPLY, CHUNKED[:60]), (SERVER_ENDS, b"")], SERVER_LEFT),
    ([(REPLY, CHUNKED[:60]), (CLIENT_ENDS, b""), (SERVER_ENDS, b"")], CLIENT_LEFT),
    ([(CLIENT_ENDS, b""), (REPLY, CHUNKED)], WHOLE),             # it only stopped sending
    ([(SERVER_ENDS, b"")], SERVER_LEFT),
    ([(UNREACHABLE, b"refused")], SERVER_LEFT),
])  # fmt: skip
def test_the_side_that_hung_up_is_named(frames, end):
    heard = Heard().read((REQUEST, post(b"one")), *frames)
    assert [one.end for one in heard.ended] == [end]


def test_a_client_that_hangs_up_within_its_request():
    heard = Heard().read((REQUEST, post(b"one")[:-1]), (CLIENT_ENDS, b""))
    assert [(one.is_sent, one.end) for one in heard.ended] == [(False, CLIENT_LEFT)]


def test_a_dropped_part_of_a_body_does_not_lose_the_connection():
    head, gap = post(b"x" * 200_000)[:100], 200_000 + len(post(b"x" * 200_000)) - 200_000 - 100
    heard = Heard().read((REQUEST, head), (SKIPPED_REQUEST, gap.to_bytes(8, "big")), (REPLY, CHUNKED),
                         (REQUEST, post(b"next")), (REPLY, SIZED))  # fmt: skip
    assert [(one.is_kept, one.end) for one in heard.ended] == [(False, WHOLE), (True, WHOLE)]
    assert heard.connections.unread == 0


@pytest.mark.parametrize("frames", [
    [(REQUEST, b"\x16\x03\x01\x02\x00 not HTTP at all\r\n\r\n")],
    [(REQUEST, b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 60_000)],
    [(SKIPPED_REQUEST, (5).to_bytes(8, "big"))],
    [(REQUEST, post(b"a")), (SKIPPED_REPLY, (5).to_bytes(8, "big"))],
    [(REQUEST, post(b"a")), (REPLY, b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n")],
    [(REQUEST, post(b"a")), (REPLY, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")],
    [(REQUEST, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nab"), (REPLY, SIZED)],
])  # fmt: skip
def test_a_connection_that_cannot_be_read_is_counted_and_harms_no_other(frames):
    heard = Heard().read(*frames).read((REQUEST, b"more"), (REPLY, b"more"))
    heard.read((REQUEST, post(b"one")), (REPLY, CHUNKED), connection=2)
    assert heard.connections.unread == 1 and heard.ended[-1].end == WHOLE
    heard.read((CLIENT_ENDS, b""), (SERVER_ENDS, b""))
    assert heard.connections._readers.keys() == {2}


def test_kept_bytes_are_bounded(monkeypatch):
    monkeypatch.setattr(exchanges, "BODY", 1000)
    monkeypatch.setattr(exchanges, "REPLY_START", 100)
    monkeypatch.setattr(exchanges, "REPLY_END", 50)
    stream = b"".join(b"%x\r\n%s\r\n" % (40, b"%040d" % number) for number in range(100)) + b"0\r\n\r\n"
    heard = Heard().read((REQUEST, post(b"x" * 2000)), (REPLY, CHUNKED.partition(b"2\r")[0] + stream))
    [one] = heard.ended
    assert (one.size, one.is_kept, one.reply_size) == (2000, False, 4000)
    assert len(one.body) <= 1000 and len(one.reply) == 100 and len(one.rest) <= 100
    assert bytes(one.rest).endswith(b"%040d" % 99)


def test_the_number_of_open_connections_is_bounded(monkeypatch):
    monkeypatch.setattr(exchanges, "CONNECTIONS", 3)
    heard = Heard()
    for number in range(5):
        heard.read((REQUEST, post(b"one")), connection=number)
    assert len(heard.connections._readers) == 3 and heard.connections.unread == 2
