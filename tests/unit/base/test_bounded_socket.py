"""Tests of the socket with a deadline. Its time limits are tested by tests/unit/base/test_http_client.py."""

from __future__ import annotations

import socket
import ssl
from contextlib import contextmanager
from time import monotonic

import pytest

from cachesim.base.bounded_socket import BoundedSocket, TooManyBytes


@contextmanager
def ends(seconds=5.0):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = BoundedSocket("127.0.0.1", listener.getsockname()[1], False, monotonic() + seconds)
        far = listener.accept()[0]
        with far:
            yield near, far
        near.shut()


def test_so_many_bytes_arrive_and_no_more():
    with ends() as (near, far):
        far.sendall(b"abcdef")
        for most, arrived in ((4, b"abcd"), (2, b"ef")):
            near.allow(most, "letters")
            buffer = bytearray(10)
            assert near.receive(memoryview(buffer)) == most and buffer[:most] == arrived
            with pytest.raises(TooManyBytes, match=f"letters of more than {most} bytes"):
                near.receive(memoryview(buffer))
        assert near.received == 6


def test_sending_and_receiving_end_at_the_deadline():
    with ends(0.1) as (near, _):
        with pytest.raises(TimeoutError):
            near.sendall(bytes(10**8))
        with pytest.raises(TimeoutError):
            near.sendall(b"x")
        near.allow(1, "letters")
        with pytest.raises(TimeoutError):
            near.receive(memoryview(bytearray(1)))


def test_a_closed_connection_is_an_error_or_an_end():
    with ends() as (near, far):
        near.allow(1, "letters")
        near.close()
        far.sendall(b"x")
        assert near.receive(memoryview(bytearray(1))) == 1               # `close` does nothing, `shut` closes
        near.shut()
        near.allow(1, "letters")
        with pytest.raises(OSError):
            near.receive(memoryview(bytearray(1)))


def test_without_a_listener():
    with pytest.raises(ConnectionRefusedError):
        BoundedSocket("127.0.0.1", 1, False, monotonic() + 5)
    with pytest.raises(TimeoutError):
        BoundedSocket("127.0.0.1", 1, False, monotonic() - 1)


class FakeSocket:
    """Socket that notes what is called; connecting to an address of ``REFUSED`` fails."""

    REFUSED = frozenset({"a", "b"})

    def __init__(self, calls, *kind):
        self.calls = calls
        calls.append(("socket", *kind))

    def connect(self, address):
        self.calls.append(("connect", address))
        if address in self.REFUSED:
            raise OSError(f"{address} refused")

    def recv_into(self, buffer):
        self.calls.append(("recv_into", len(buffer)))
        return len(buffer)

    def __getattr__(self, name):
        return lambda *given: self.calls.append((name, *given))

    def settimeout(self, seconds):
        self.calls.append(("settimeout", round(seconds)))


@pytest.fixture
def calls(monkeypatch):
    """Calls of the sockets of connections, with times rounded to seconds."""
    found = []
    monkeypatch.setattr(socket, "socket", lambda *kind: FakeSocket(found, *kind))
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, port, type: [
        (f"family {name}", type, 6, "", name) for name in host.split()] if port == 80 else [])  # fmt: skip
    return found


def opened(name):
    return [("socket", f"family {name}", socket.SOCK_STREAM, 6), ("settimeout", 5), ("connect", name)]


NO_DELAY = ("setsockopt", socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def test_the_first_address_that_accepts_is_used(calls):
    BoundedSocket("a b c d", 80, False, monotonic() + 5)
    assert calls == [*opened("a"), ("close",), *opened("b"), ("close",), *opened("c"), NO_DELAY]


def test_without_an_address_that_accepts_the_last_error_is_raised(calls):
    with pytest.raises(OSError, match="b refused"):
        BoundedSocket("a b", 80, False, monotonic() + 5)
    assert calls == [*opened("a"), ("close",), *opened("b"), ("close",)]
    with pytest.raises(OSError, match="unknown host"):
        BoundedSocket("a b", 81, False, monotonic() + 5)


def test_a_far_deadline_is_a_time_that_every_platform_accepts(calls):
    BoundedSocket("c", 80, False, 1e12)
    assert ("settimeout", 1_000_000) in calls


def test_nothing_may_arrive_before_it_is_allowed(calls):
    with pytest.raises(TooManyBytes):
        BoundedSocket("c", 80, False, monotonic() + 5).receive(memoryview(bytearray(1)))


@pytest.mark.parametrize("fails", [False, True])
def test_an_encrypted_connection_has_a_deadline_and_the_name_of_its_host(calls, monkeypatch, fails):
    class Context:
        def wrap_socket(self, plain, server_hostname):
            calls.append(("wrap", type(plain), server_hostname))
            if fails:
                raise OSError("no handshake")
            return FakeSocket(calls, "secure")

    monkeypatch.setattr(ssl, "create_default_context", Context)
    wrapped = [*opened("c"), NO_DELAY, ("settimeout", 5), ("wrap", FakeSocket, "c")]
    if fails:
        with pytest.raises(OSError, match="no handshake"):
            BoundedSocket("c", 80, True, monotonic() + 5)
        assert calls == [*wrapped, ("close",)]
        return
    BoundedSocket("c", 80, True, monotonic() + 5).sendall(b"x")
    assert calls == [*wrapped, ("socket", "secure"), ("settimeout", 5), ("sendall", b"x")]
