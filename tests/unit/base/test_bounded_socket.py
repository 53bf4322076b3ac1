"""Tests of the socket with a deadline. Its time limits are tested by tests/unit/base/test_http_client.py."""

from __future__ import annotations

import socket
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
        near.allow(4, "letters")
        with near.makefile("rb") as reader:
            assert reader.read(4) == b"abcd" and near.received == 4
            with pytest.raises(TooManyBytes, match="letters of more than 4 bytes"):
                reader.read(1)
        near.allow(2, "letters")
        with near.makefile("rb") as reader:                          # the reader before did not close the connection
            assert reader.read(2) == b"ef" and near.received == 6


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
