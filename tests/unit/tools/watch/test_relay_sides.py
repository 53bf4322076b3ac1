"""Tests of the two sides of a connection, with transports that note what is called."""

from __future__ import annotations

import asyncio
import socket
import struct
from types import SimpleNamespace

import pytest

from cachesim.tools.watch import relay as relay_module
from cachesim.tools.watch.cause_header import with_header
from cachesim.tools.watch.frames import CLIENT_ENDS, REPLY, REQUEST, SERVER_ENDS
from cachesim.tools.watch.relay import BATCH, DELAY, HOLD, PIECE, Address, Relay, _HeadedSide, _Side


class Transport:
    """Transport of a side; its calls go to a common list."""

    def __init__(self, name, calls):
        self.name, self.calls, self.closing = name, calls, False
        self.socket = SimpleNamespace(setsockopt=lambda *given: calls.append((name, "setsockopt", *given)))

    def is_closing(self):
        return self.closing

    def get_extra_info(self, what):
        return self.socket if what == "socket" else None

    def __getattr__(self, method):
        return lambda *given: self.calls.append((self.name, method, *given))


class Queue:
    """Queue of copies; ``is_first`` is what ``put`` returns."""

    def __init__(self, calls):
        self.calls, self.is_first = calls, False

    def put(self, kind, connection, data=b""):
        self.calls.append(("copy", kind, connection, data))
        return self.is_first

    def flush(self):
        self.calls.append(("flush",))


class Sides:
    """A relay with the two sides of connection 7, both connected."""

    def __init__(self, has_header=False):
        self.calls = []
        self.queue = Queue(self.calls)
        self.relay = Relay(Address("h", 1), self.queue, has_header)
        self.client = _Side(self.relay, REQUEST, 7)
        self.server = (_HeadedSide if has_header else _Side)(self.relay, REPLY, 7)
        self.client.peer, self.server.peer = self.server, self.client
        self.client.transport = Transport("client", self.calls)
        self.server.connection_made(Transport("server", self.calls))
        assert self.taken() == [("client", "resume_reading")]

    def taken(self):
        """The calls since the last time."""
        found = list(self.calls)
        self.calls.clear()
        return found


@pytest.fixture
def sides():
    return Sides()


def test_a_client_is_connected_before_it_is_read():
    calls = []
    made = SimpleNamespace(connect=lambda side: calls.append(("connect", side)))
    side = _Side(made, REQUEST, 1)
    side.connection_made(Transport("client", calls))
    assert calls == [("client", "pause_reading"), ("connect", side)]


def test_a_server_is_left_if_the_client_has_gone_meanwhile(sides):
    sides.client.transport.closing = True
    sides.server.connection_made(sides.server.transport)
    assert sides.taken() == [("server", "abort")]
    sides.server.peer = None
    sides.server.connection_made(sides.server.transport)
    assert sides.taken() == []


def test_bytes_are_forwarded_then_copied(sides):
    buffer = sides.client.get_buffer(-1)
    assert len(buffer) == PIECE and sides.server.get_buffer(9) is buffer
    buffer[:3] = b"abc"
    sides.client.buffer_updated(2)
    sides.server.buffer_updated(3)
    assert sides.taken() == [("server", "write", b"ab"), ("copy", REQUEST, 7, b"ab"), ("client", "write", b"abc"),
                             ("copy", REPLY, 7, b"abc")]  # fmt: skip
    sides.client.peer = None
    sides.client.buffer_updated(2)
    sides.server.peer.transport = None
    sides.server.buffer_updated(2)
    assert sides.taken() == []


def test_a_side_that_accepts_no_bytes_pauses_the_other(sides):
    sides.client.pause_writing()
    assert sides.client._is_full and sides.taken() == [("server", "pause_reading")]
    sides.client.resume_writing()
    assert not sides.client._is_full and sides.taken() == [("server", "resume_reading")]
    for peer in (None, SimpleNamespace(transport=None)):
        sides.client.peer = peer
        sides.client.pause_writing()
        sides.client.resume_writing()
    assert sides.taken() == []


def test_the_end_of_a_direction_is_forwarded_and_copied_once(sides):
    assert sides.client.eof_received() is True
    assert sides.taken() == [("copy", CLIENT_ENDS, 7, b""), ("server", "write_eof")]
    assert sides.server.eof_received() is False                     # both directions have ended: close
    assert sides.taken() == [("copy", SERVER_ENDS, 7, b""), ("client", "write_eof")]
    assert sides.server.eof_received() is False
    assert sides.taken() == [("client", "write_eof")]


def test_an_end_without_a_peer_is_only_copied(sides):
    for peer in (None, SimpleNamespace(transport=None, _has_ended=False)):
        sides.client.peer = peer
        assert sides.client.eof_received() is True
    assert sides.taken() == [("copy", CLIENT_ENDS, 7, b"")]


def test_a_peer_that_cannot_end_its_direction_is_no_error(sides):
    def fails():
        raise OSError

    sides.server.transport.write_eof = fails
    assert sides.client.eof_received() is True


LINGER = ("setsockopt", socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def test_a_closed_side_closes_the_other_after_its_bytes(sides):
    sides.client.connection_lost(None)
    assert sides.taken() == [("copy", CLIENT_ENDS, 7, b""), ("server", "close")]
    sides.server.connection_lost(None)
    assert sides.taken() == [("copy", SERVER_ENDS, 7, b"")] and sides.client.peer is sides.server.peer is None


def test_a_reset_side_resets_the_other(sides):
    sides.server.connection_lost(ConnectionResetError())
    assert sides.taken() == [("copy", SERVER_ENDS, 7, b""), ("client", *LINGER), ("client", "abort")]
    sides.client.transport.socket = None
    sides.client.reset()
    assert sides.taken() == [("client", "abort")]


def test_a_lost_side_without_a_connected_peer_ends_alone(sides):
    sides.client.peer = None
    sides.client.connection_lost(ConnectionResetError())
    assert sides.taken() == [("copy", CLIENT_ENDS, 7, b"")]


@pytest.mark.parametrize(("has_header", "is_first", "kind", "size", "flushes", "timers"), [
    (False, False, REQUEST, 5, 0, 0), (False, True, REQUEST, 5, 0, 1), (False, True, REQUEST, BATCH, 1, 0),
    (False, False, REPLY, BATCH, 1, 0), (False, False, REPLY, BATCH - 1, 0, 0), (True, True, REQUEST, 1, 1, 0),
    (True, True, REPLY, 1, 0, 1),
])  # fmt: skip
def test_copies_are_sent_after_a_moment_or_at_once(monkeypatch, has_header, is_first, kind, size, flushes, timers):
    calls, later = [], []
    queue = Queue(calls)
    queue.is_first = is_first
    loop = SimpleNamespace(call_later=lambda *given: later.append(given))
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: loop)
    Relay(Address("h", 1), queue, has_header).copy(kind, 7, b"x" * size)
    assert calls == [("copy", kind, 7, b"x" * size)] + [("flush",)] * flushes
    assert later == [(DELAY, queue.flush)] * timers


HEAD = b"HTTP/1.1 200 OK\r\nX: y\r\n\r\n"
WITH = with_header(HEAD, b"system prompt")


@pytest.fixture
def headed(monkeypatch):
    """Sides whose replies get a header. ``timers``: (seconds, function, "waits" or "cancelled")."""
    made = Sides(has_header=True)
    made.timers = []

    def call_later(seconds, function):
        timer = [seconds, function, "waits"]
        made.timers.append(timer)
        return SimpleNamespace(cancel=lambda: timer.__setitem__(2, "cancelled"))

    monkeypatch.setattr(relay_module.asyncio, "get_running_loop", lambda: SimpleNamespace(call_later=call_later))
    made.client.take(b"request")
    made.taken()
    return made


def forwarded(data, reply=HEAD):
    """The calls when a held reply is forwarded."""
    return [("client", "write", data), ("copy", REPLY, 7, reply), ("server", "resume_reading")]


def test_a_reply_waits_for_its_cause(headed):
    headed.server.take(HEAD)
    assert headed.taken() == [("server", "pause_reading")] and headed.timers[0][::2] == [HOLD, "waits"]
    headed.relay.take_cause(8, b"of another connection")
    headed.relay.take_cause(7, b"system prompt")
    assert headed.taken() == forwarded(WITH) and headed.timers[0][2] == "cancelled"
    headed.server.take(b"body")
    headed.relay.take_cause(7, b"too late")
    assert headed.taken() == [("client", "write", b"body"), ("copy", REPLY, 7, b"body")] and len(headed.timers) == 1


def test_a_reply_whose_cause_is_known_waits_no_more(headed):
    headed.relay.take_cause(7, b"system prompt")
    headed.server.take(HEAD)
    assert headed.taken() == forwarded(WITH) and headed.timers == []


def test_a_reply_without_a_cause_is_forwarded_unchanged_after_a_moment(headed):
    headed.server.take(HEAD[:5])
    headed.server.take(HEAD[5:])
    assert headed.taken() == [("server", "pause_reading")] and len(headed.timers) == 1
    headed.timers[0][1]()
    assert headed.taken() == forwarded(HEAD)


def test_the_next_request_waits_for_a_cause_of_its_own(headed):
    headed.relay.take_cause(7, b"system prompt")
    headed.client.take(b"another request")
    headed.taken()
    headed.server.take(HEAD)
    assert headed.taken() == [("server", "pause_reading")]
    headed.relay.take_cause(7, b"")
    assert headed.taken() == forwarded(HEAD)


def test_an_interim_reply_is_forwarded_at_once(headed):
    interim = b"HTTP/1.1 100 Continue\r\n\r\n"
    headed.server.take(interim)
    assert headed.taken() == [("client", "write", interim), ("copy", REPLY, 7, interim)]
    headed.server.take(HEAD)
    assert headed.taken() == [("server", "pause_reading")]


def test_bytes_before_any_request_are_forwarded():
    made = Sides(has_header=True)
    made.server.take(HEAD)
    assert made.taken() == [("client", "write", HEAD), ("copy", REPLY, 7, HEAD)]


def test_a_full_client_keeps_the_server_paused(headed):
    headed.server.take(HEAD)
    headed.client._is_full = True
    headed.taken()
    headed.relay.take_cause(7, b"")
    assert headed.taken() == forwarded(HEAD)[:2]


def test_without_an_analysis_nothing_waits(headed):
    headed.server.take(HEAD)
    headed.taken()
    headed.relay.end_causes()
    assert headed.taken() == forwarded(HEAD) and not headed.relay.has_header
    headed.client.take(b"request")
    headed.taken()
    headed.server.take(HEAD)
    assert headed.taken() == forwarded(HEAD)[:2]


def test_a_lost_server_forwards_what_was_held(headed):
    headed.server.take(HEAD)
    headed.taken()
    assert headed.relay.headed == {7: headed.server}
    headed.server.connection_lost(None)
    assert headed.taken() == [*forwarded(HEAD), ("copy", SERVER_ENDS, 7, b""), ("client", "close")]
    assert headed.relay.headed == {}
    headed.relay.take_cause(7, b"x")
    headed.server.release()
    assert headed.taken() == []


def test_held_bytes_without_a_client_are_dropped(headed):
    headed.server.take(HEAD)
    headed.server.peer = None
    headed.taken()
    headed.server.release()
    assert headed.taken() == [] and headed.timers[0][2] == "cancelled"


def test_a_task_that_connected_a_client_is_forgotten():
    async def connected():
        told = []

        async def connect(client):
            told.append(client)

        stub = SimpleNamespace(_connect=connect, _tasks=set())
        Relay.connect(stub, "client")
        before = len(stub._tasks)
        await asyncio.gather(*stub._tasks)
        await asyncio.sleep(0)
        return before, len(stub._tasks), told

    assert asyncio.run(connected()) == (1, 0, ["client"])


def test_replies_are_held_back_for_a_header_only(monkeypatch):
    made = []

    async def create_connection(make, *address):
        made.append((type(make()), address))

    loop = SimpleNamespace(create_connection=create_connection)
    monkeypatch.setattr(relay_module.asyncio, "get_running_loop", lambda: loop)
    for has_header in (False, True):
        relay = Relay(Address("h", 1), Queue([]), has_header)
        client = _Side(relay, REQUEST, 7)
        with pytest.raises(StopIteration):
            relay._connect(client).send(None)
        assert client.peer.peer is client and client.peer.number == 7
    assert made == [(_Side, ("h", 1)), (_HeadedSide, ("h", 1))]


def test_a_relay_adds_no_header_unless_it_is_told_to():
    queue = Queue([])
    assert not Relay(Address("h", 1), queue, has_header=False).has_header
    assert Relay(Address("h", 1), queue, has_header=True).has_header
