"""Requests and replies are read from copies of any cut; what cannot be read harms no other connection."""

from __future__ import annotations

import gc
import gzip
import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cachesim.tools.watch import exchanges, watched_exchange
from cachesim.tools.watch.exchanges import Connections
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
from cachesim.tools.watch.held_bytes import HeldBytes, buffer_bytes
from cachesim.tools.watch.watched_exchange import (
    CLIENT_LEFT,
    NO_ROOM,
    NOT_COPIED,
    SERVER_LEFT,
    TOO_LARGE,
    UNREAD,
    WHOLE,
)

POST = b"POST /v1/x HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n3\r\ncde\r\n0\r\n\r\n"
SIZED = b"HTTP/1.1 404 No\r\nContent-Encoding: identity\r\nContent-Length: 3\r\n\r\nxyz"


def post(body):
    return POST % (len(body), body)


class Heard:
    """Exchanges that were read."""

    def __init__(self, held=None):
        self.sent, self.ended = [], []
        self.connections = Connections(self.sent.append, self.ended.append, held)

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
    assert heard.connections.counts == {"unread_connections": 0, "refused_connections": 0}


def test_a_compressed_reply_is_decoded_and_the_next_of_its_connection_is_read():
    coded = gzip.compress(b"abc" * 99)
    head = b"HTTP/1.1 200 OK\r\nContent-ENCODING: gzip\r\nContent-Length: %d\r\n\r\n" % len(coded)
    heard = Heard(held := HeldBytes()).read((REQUEST, post(b"one")), (REPLY, head + coded[:9]), (REPLY, coded[9:]),
                                            (REQUEST, post(b"two")), (REPLY, SIZED))  # fmt: skip
    assert [(one.reply, one.reply_size) for one in heard.ended] == [(b"abc" * 99, 297), (b"xyz", 3)]
    heard.read((CLIENT_ENDS, b""), (SERVER_ENDS, b""))
    assert held.size == 0


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
    assert heard.connections.unread == (frames[0] == (REPLY, CHUNKED[:60]))


def test_a_request_after_the_end_of_the_server_has_no_reply():
    """A client may send it before it notices that the server closed a connection that was kept."""
    heard = Heard(held := HeldBytes()).read((REQUEST, post(b"one")), (REPLY, SIZED), (SERVER_ENDS, b""))
    heard.read((REQUEST, post(b"two")), (CLIENT_ENDS, b""))
    assert [(bytes(one.body), one.status, one.end) for one in heard.sent] == [
        (b"one", 404, WHOLE), (b"two", 0, SERVER_LEFT)]  # fmt: skip
    assert heard.sent == heard.ended and heard.connections.unread == held.size == 0


def test_the_side_whose_bytes_are_not_http_ends_the_exchange():
    chunked = b"POST /v1/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    client = Heard().read((REQUEST, chunked + b"zz\r\n"))
    assert [(one.is_sent, one.end) for one in client.ended] == [(False, CLIENT_LEFT)]
    server = Heard().read((REQUEST, chunked + b"0\r\n\r\n"), (REPLY, CHUNKED[:47] + b"zz\r\n"))
    assert [(one.is_sent, one.end) for one in server.ended] == [(True, SERVER_LEFT)]
    dropped = Heard().read((REQUEST, chunked + b"0\r\n\r\n"), (SKIPPED_REQUEST, (5).to_bytes(8, "big")))
    assert [(one.is_sent, one.end) for one in dropped.ended] == [(True, CLIENT_LEFT)]


def test_a_client_that_hangs_up_within_its_request():
    heard = Heard().read((REQUEST, post(b"one")[:-1]), (CLIENT_ENDS, b""))
    assert [(one.is_sent, one.end) for one in heard.ended] == [(False, CLIENT_LEFT)]


def test_a_dropped_part_of_a_body_does_not_lose_the_connection():
    head, gap = post(b"x" * 200_000)[:100], 200_000 + len(post(b"x" * 200_000)) - 200_000 - 100
    heard = Heard().read((REQUEST, head), (SKIPPED_REQUEST, gap.to_bytes(8, "big")), (REPLY, CHUNKED),
                         (REQUEST, post(b"next")), (REPLY, SIZED))  # fmt: skip
    assert [(one.left_out, one.end) for one in heard.ended] == [(NOT_COPIED, WHOLE), ("", WHOLE)]
    assert heard.connections.unread == 0


@pytest.mark.parametrize("frames", [
    [(REQUEST, b"\x16\x03\x01\x02\x00 not HTTP at all\r\n\r\n")],
    [(REQUEST, b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 60_000)],
    [(SKIPPED_REQUEST, (5).to_bytes(8, "big"))],
    [(REQUEST, post(b"a")), (SKIPPED_REPLY, (5).to_bytes(8, "big"))],
    [(REQUEST, post(b"a")), (REPLY, SIZED[:30]), (SKIPPED_REPLY, (5).to_bytes(8, "big"))],
    [(REQUEST, post(b"a")), (REPLY, b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n")],
    [(REQUEST, post(b"a")), (REPLY, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")],
    [(REQUEST, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nab"), (REPLY, SIZED)],
])  # fmt: skip
def test_a_connection_that_cannot_be_read_is_counted_and_harms_no_other(frames):
    heard = Heard(held := HeldBytes()).read(*frames).read((REQUEST, b"more"), (REPLY, b"more"))
    heard.read((REQUEST, post(b"one")), (REPLY, CHUNKED), connection=2)
    assert heard.connections.unread == 1 and heard.ended[-1].end == WHOLE
    for connection in (1, 2):
        heard.read((CLIENT_ENDS, b""), (SERVER_ENDS, b""), connection=connection)
    assert held.size == 0


def test_kept_bytes_are_bounded(monkeypatch):
    monkeypatch.setattr(watched_exchange, "BODY", 1000)
    monkeypatch.setattr(watched_exchange, "REPLY_START", 100)
    monkeypatch.setattr(watched_exchange, "REPLY_END", 50)
    stream = b"".join(b"%x\r\n%s\r\n" % (40, b"%040d" % number) for number in range(100)) + b"0\r\n\r\n"
    heard = Heard().read((REQUEST, post(b"x" * 2000)), (REPLY, CHUNKED.partition(b"2\r")[0] + stream))
    [one] = heard.ended
    assert (one.size, one.left_out, one.reply_size) == (2000, TOO_LARGE, 4000)
    assert one.body == b"" and len(one.reply) == 100 and len(one.rest) <= 100
    assert bytes(one.rest).endswith(b"%040d" % 99)


def test_the_number_of_open_connections_is_bounded(monkeypatch):
    monkeypatch.setattr(exchanges, "CONNECTIONS", 3)
    heard = Heard()
    for number in range(5):
        heard.read((REQUEST, post(b"one")), connection=number)
    assert [one.end for one in heard.ended] == [UNREAD] * 2 and heard.connections.unread == 2


HEAD = b"POST /v1/x HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n"
KIB = bytes(1 << 10)
STARTS = {
    "unfinished bodies": ((REQUEST, HEAD), (REQUEST, KIB * 900)),
    "bodies in small pieces": ((REQUEST, HEAD), *[(REQUEST, KIB * 4)] * 225),
    "unfinished replies": ((REQUEST, post(b"one")), (REPLY, b"HTTP/1.1 200 OK\r\n\r\n"), (REPLY, KIB * 900)),
    "requests before a reply": ((REQUEST, post(b"one")), (REQUEST, post(b"two") * 12_000)),
    "a reply without a request": ((REPLY, KIB * 900),),
    "unfinished heads": ((REQUEST, b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 9_000),),
    "heads in small pieces": ((REQUEST, b"GET / HTTP/1.1\r\n"), *[(REQUEST, b"A: b\r\n" * 600)] * 15),
    "heads of replies": ((REQUEST, post(b"one")), (REPLY, b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 9_000)),
    "upgrades": ((REQUEST, b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"),
                 (REQUEST, KIB * 900), (REPLY, b"HTTP/1.1 101 S\r\nUpgrade: x\r\n\r\n" + KIB * 900)),
}  # fmt: skip


@pytest.mark.part(3)
@pytest.mark.parametrize("name", STARTS)
def test_the_bytes_in_flight_are_bounded(name):
    """Memory is compared while each connection still waits for more."""
    held = HeldBytes(most=4 << 20)
    heard = Heard(held)
    heard.read((REQUEST, post(b"one")), (REPLY, CHUNKED), (CLIENT_ENDS, b""), (SERVER_ENDS, b""))
    heard.sent.clear()
    heard.ended.clear()
    gc.freeze()                                      # what earlier tests left is not looked through
    tracemalloc.start()
    most = 0
    for number in range(2, 26):
        heard.read(*STARTS[name], connection=number)
        heard.sent.clear()
        heard.ended.clear()
        most = max(most, tracemalloc.get_traced_memory()[0])
        assert held.size <= 4 << 20
    tracemalloc.stop()
    assert most < 5 << 20


def test_a_body_without_room_is_left_out_and_the_next_one_is_not():
    held = HeldBytes(most=1 << 20)
    heard = Heard(held)
    heard.read((REQUEST, HEAD), (REQUEST, bytes(800_000)))
    heard.read((REQUEST, post(bytes(400_000))), (REPLY, CHUNKED), connection=2)
    heard.read((CLIENT_ENDS, b""))
    heard.read((REQUEST, post(b"x" * 400_000)), (REPLY, CHUNKED), connection=2)
    found = [(one.left_out, one.end, len(one.body)) for one in heard.ended]
    assert found == [(NO_ROOM, WHOLE, 0), ("", CLIENT_LEFT, 800_000), ("", WHOLE, 400_000)]
    assert heard.connections.unread == 0
    heard.read((SERVER_ENDS, b""))
    heard.read((CLIENT_ENDS, b""), (SERVER_ENDS, b""), connection=2)
    assert held.size == 0


def test_a_reply_without_room_is_left_out():
    heard = Heard(HeldBytes(most=200_000))
    heard.read((REQUEST, post(b"one")), (REPLY, b"HTTP/1.1 200 OK\r\nContent-Length: 900000\r\n\r\n" + KIB * 400))
    heard.read((REPLY, bytes(900_000 - 400 * 1024)), (REQUEST, post(b"two")), (REPLY, SIZED))
    assert [(one.is_reply_left_out, one.status, one.reply_size, bytes(one.reply)) for one in heard.ended] == [
        (True, 200, 900_000, b""), (False, 404, 3, b"xyz")]  # fmt: skip


def test_requests_that_arrive_before_a_reply_are_read_in_their_order():
    heard = Heard().read((REQUEST, b"".join(post(b"%d" % number) for number in range(2_000))))
    assert len(heard.sent) == 1
    heard.read((REPLY, CHUNKED * 2_000))
    assert [bytes(one.body) for one in heard.sent] == [b"%d" % number for number in range(2_000)]
    assert {one.end for one in heard.ended} == {WHOLE} and heard.connections.unread == 0


def test_the_end_of_the_analysis_ends_open_exchanges():
    heard = Heard(held := HeldBytes())
    heard.read((REQUEST, post(b"one"))).read((REQUEST, HEAD), connection=2)
    heard.read((REQUEST, post(b"one")), (REPLY, CHUNKED), connection=3)
    heard.ended.clear()
    heard.connections.close()
    assert [(one.is_sent, one.end) for one in heard.ended] == [(True, UNREAD), (False, UNREAD)] and held.size == 0


@pytest.mark.parametrize(("kind", "frames"), [
    (SKIPPED_REQUEST, [(REQUEST, HEAD)]),
    (SKIPPED_REPLY, [(REQUEST, post(b"a")), (REPLY, b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")]),
])  # fmt: skip
def test_dropped_bytes_need_little_memory(kind, frames):
    heard, gap = Heard().read(*frames), (20 << 20).to_bytes(8, "big")
    tracemalloc.start()
    heard.read((kind, gap))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 << 20 and heard.connections.unread == 0


def test_a_client_that_stops_sending_after_the_reply_changes_nothing():
    heard = Heard().read((REQUEST, post(b"one")), (REPLY, CHUNKED), (CLIENT_ENDS, b""))
    assert heard.ends() == [("POST", "/v1/x", 200, b"abcde", WHOLE)]
    early = Heard().read((REQUEST, post(b"one")), (CLIENT_ENDS, b""), (CLIENT_ENDS, b""), (REPLY, CHUNKED))
    assert [(one.end, one.has_client_left) for one in early.ended] == [(WHOLE, True)]


@pytest.mark.parametrize("close", [b"", b"Connection: close\r\n"])
def test_a_reply_before_the_whole_request_ends_the_connection(close):
    reply = SIZED.replace(b"Content-Length", close + b"Content-Length")
    heard = Heard(held := HeldBytes()).read((REQUEST, post(b"one")[:-1]), (REPLY, reply[:20]), (REPLY, reply[20:]))
    assert heard.connections.unread == 1 and held.size == 0
    heard.read((REQUEST, b"e" + post(b"two")), (REPLY, SIZED))
    assert [(one.end, one.status, one.is_sent) for one in heard.ended] == [(WHOLE, 404, False)]
    assert heard.connections.unread == 1 and held.size == 0


@pytest.mark.parametrize("close", [b"", b"Connection: close\r\n"])
def test_a_connection_that_a_side_closes_has_no_further_exchange(close):
    reply = SIZED.replace(b"Content-Length", close + b"Content-Length")
    heard = Heard().read((REQUEST, post(b"one")), (REPLY, reply), (REQUEST, post(b"two")), (REPLY, SIZED))
    assert len(heard.ended) == (1 if close else 2) and heard.connections.unread == 0


@pytest.mark.parametrize(("version", "field"), [(b"1.1", b"Connection: close"), (b"1.0", b"Accept: */*")])
def test_a_connection_of_a_single_request_is_read_to_its_end(version, field):
    request = post(b"one").replace(b"1.1", version, 1).replace(b"Host: a", b"Host: a\r\n" + field)
    heard = Heard()
    for number in range(3):
        heard.read((REQUEST, request), (REPLY, CHUNKED), (SERVER_ENDS, b""), (CLIENT_ENDS, b""), connection=number)
    assert [one.end for one in heard.ended] == [WHOLE] * 3 and heard.connections.counts["unread_connections"] == 0
    heard.read((REQUEST, request), (REPLY, CHUNKED), (REQUEST, post(b"more")), connection=9)
    assert heard.connections.counts["unread_connections"] == 1


@pytest.mark.parametrize(("asked", "answered"), [(b"1.0", b"1.0"), (b"1.0", b"1.1"), (b"1.1", b"1.0")])
def test_a_connection_that_both_sides_keep_alive_has_further_exchanges(asked, answered):
    field = b"Host: a\r\nConnection: Keep-Alive"
    request = post(b"one").replace(b"HTTP/1.1", b"HTTP/" + asked).replace(b"Host: a", field)
    reply = SIZED.replace(b"HTTP/1.1", b"HTTP/" + answered).replace(b"Content-Encoding: identity", field[9:])
    heard = Heard().read(*[(REQUEST, request), (REPLY, reply)] * 3, (CLIENT_ENDS, b""), (SERVER_ENDS, b""))
    assert [one.end for one in heard.ended] == [WHOLE] * 3 and heard.connections.unread == 0


def test_a_request_that_the_server_leaves_unanswered_is_counted():
    reply = SIZED.replace(b"Content-Length", b"Connection: close\r\nContent-Length")
    heard = Heard().read((REQUEST, post(b"one") + post(b"two")), (REQUEST, post(b"three")), (REPLY, reply),
                         (SERVER_ENDS, b""), (CLIENT_ENDS, b""))  # fmt: skip
    assert [one.end for one in heard.ended] == [WHOLE] and heard.connections.unread == 1


def test_refused_connections_are_counted():
    refused = []
    connections = Connections(None, None, None, lambda: refused.append(1))
    for _ in range(2):
        connections.read(Frame(UNREACHABLE, 5, b"refused"))
    assert connections.counts == {"unread_connections": 0, "refused_connections": 2} and refused == [1, 1]


def test_the_bytes_of_a_dropped_connection_are_released(monkeypatch):
    monkeypatch.setattr(exchanges, "CONNECTIONS", 1)
    held = HeldBytes()
    heard = Heard(held).read((REQUEST, HEAD), (REQUEST, KIB * 100))
    size = held.size
    heard.read((CLIENT_ENDS, b""))
    heard.read((REQUEST, post(b"one")), (REPLY, CHUNKED), connection=2)
    alone = HeldBytes()
    Heard(alone).read((REQUEST, post(b"one")), (REPLY, CHUNKED))
    assert size > 100 << 10 and held.size == alone.size and [one.end for one in heard.ended] == [CLIENT_LEFT, WHOLE]


def test_an_unreadable_connection_counts_once_if_it_is_dropped(monkeypatch):
    monkeypatch.setattr(exchanges, "CONNECTIONS", 1)
    heard = Heard(held := HeldBytes()).read((REQUEST, b"not HTTP\r\n\r\n"))
    size = held.size
    heard.read((REQUEST, post(b"one")), (REPLY, CHUNKED), connection=2)
    assert size == 0 and heard.connections.unread == 1 and [one.end for one in heard.ended] == [WHOLE]


def test_an_exchange_that_ends_within_its_request_is_passed_on_once():
    heard = Heard().read((REQUEST, post(b"one")[:-1]), (CLIENT_ENDS, b""))
    assert heard.sent == heard.ended and len(heard.sent) == 1
    whole = Heard().read((REQUEST, post(b"one")), (CLIENT_ENDS, b""), (SERVER_ENDS, b""))
    assert whole.sent == whole.ended and len(whole.sent) == 1


def test_heads_of_up_to_64_kib_are_read():
    field = b"X-Long: " + b"a" * 40_000 + b"\r\n"
    request, reply = (text.replace(b"\r\n", b"\r\n" + field, 1) for text in (post(b"one"), SIZED))
    heard = Heard()
    for at in range(0, len(request), 1_000):
        heard.read((REQUEST, request[at : at + 1_000]))
    for at in range(0, len(reply), 1_000):
        heard.read((REPLY, reply[at : at + 1_000]))
    assert heard.ends() == [("POST", "/v1/x", 404, b"xyz", WHOLE)] and heard.connections.unread == 0


def test_the_bytes_of_an_incomplete_head_and_of_its_reader_count():
    held, head = HeldBytes(), b"POST /v1/x HTTP/1.1\r\nX-Long: " + b"a" * 1_000
    heard = Heard(held).read((REQUEST, head))
    assert held.size == exchanges.READER + buffer_bytes(len(head))
    heard.read((REQUEST, b"\r\nHost: a\r\n\r\n"))
    assert held.size == exchanges.READER
    heard.read((REPLY, b"HTTP/1.1 200 OK\r\nX-Long: " + b"a" * 1_000))
    assert held.size == exchanges.READER + buffer_bytes(1_025)
    heard.read((REPLY, b"\r\nContent-Length: 5\r\n\r\nabcd"))
    assert held.size == exchanges.READER + buffer_bytes(4)
    heard.connections.close()
    assert held.size == 0


def test_requests_that_wait_for_replies_count():
    """h11 holds at most a piece of their bytes; all others wait to be read."""
    held, request = HeldBytes(), post(b"one")
    heard = Heard(held).read((REQUEST, request * 1_000))
    size = exchanges.READER + buffer_bytes(1_000 * len(request) - exchanges.PIECE) + buffer_bytes(3)
    assert held.size == size
    heard.read((REPLY, CHUNKED * 3))
    assert held.size == size and len(heard.sent) == 4


def test_a_dropped_part_of_a_reply_leaves_the_body_of_its_request():
    heard = Heard().read((REQUEST, post(b"one")), (REPLY, b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"),
                         (SKIPPED_REPLY, (5).to_bytes(8, "big")))  # fmt: skip
    assert [(bytes(one.body), one.left_out, one.reply_size) for one in heard.ended] == [(b"one", "", 5)]


def test_an_unreadable_connection_is_not_ended_again_at_the_end_of_the_analysis():
    heard = Heard(held := HeldBytes()).read((REQUEST, post(b"one")), (REPLY, b"not HTTP\r\n\r\n"))
    heard.connections.close()
    assert [one.end for one in heard.ended] == [SERVER_LEFT] and held.size == 0


@pytest.mark.parametrize("gap", [5, 100_000])
def test_a_dropped_part_of_a_reply_may_end_it_before_the_request_is_complete(gap):
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
    heard = Heard(held := HeldBytes()).read(
        (REQUEST, post(b"one")[:-1]), (REPLY, head), (SKIPPED_REPLY, gap.to_bytes(8, "big")),
        (REQUEST, b"e"))  # fmt: skip
    assert [(one.end, one.is_sent, one.reply_size) for one in heard.ended] == [(WHOLE, False, 5)]
    assert heard.connections.unread == 1 and held.size == 0
