"""Connections that wait for a request, or that their client leaves, keep the playground from no other client."""

from __future__ import annotations

import logging
import socket
import threading
import time
from contextlib import ExitStack, contextmanager

import pytest

pytest.importorskip("uvicorn", reason="the extra `playground` is not installed")

import uvicorn

from cachesim.tools.playground import bounded_connection
from cachesim.tools.playground.app import application
from cachesim.tools.playground.bounded_connection import BoundedConnection
from cachesim.tools.playground.command import AT_ONCE
from cachesim.tools.playground.page import Page

BODY = b'{"line": "A5/A"}'
LENGTH = len(BODY)


class Simulator:
    """Stand-in whose answer takes longer than a request may wait."""

    async def start(self):
        pass

    async def close(self):
        pass

    async def ask(self, fields):
        import asyncio

        await asyncio.sleep(2)
        return {"html": "answered"}


@pytest.fixture
def served(monkeypatch):
    """The address of a server that runs in a thread."""
    monkeypatch.setattr(bounded_connection, "REQUEST_WITHIN", 1.5)
    with serve() as address:
        yield address


@contextmanager
def serve():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(128)
        app = application(listener.getsockname()[1], Page("<p>page</p>", ("script", "style")), Simulator())
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, log_level="error", ws="none",
                                               http=BoundedConnection, limit_concurrency=AT_ONCE))  # fmt: skip
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        yield listener.getsockname()
        server.should_exit = True
        thread.join(10)


def post(address, length=LENGTH):
    host = f"127.0.0.1:{address[1]}"
    return (f"POST /run HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {length}\r\n\r\n").encode()  # fmt: skip


def connected(stack, address):
    return stack.enter_context(socket.create_connection(address, timeout=10))


def first_line(connection):
    return connection.makefile("rb").readline()


def test_a_client_is_served_beside_many_idle_connections(served):
    with ExitStack() as stack:
        idle = [connected(stack, served) for _ in range(AT_ONCE + 9)]
        one = connected(stack, served)
        one.sendall(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{served[1]}\r\n\r\n".encode())
        assert first_line(one).startswith(b"HTTP/1.1 200")
        stop = time.monotonic() + 10
        assert all(ended(connection) for connection in idle) and time.monotonic() < stop


def ended(connection):
    """Wait until the server closes a connection."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_a_body_that_does_not_end_is_not_waited_for_and_a_slow_answer_is(served):
    with ExitStack() as stack:
        slow, whole = connected(stack, served), connected(stack, served)
        slow.sendall(post(served, 100) + BODY)
        whole.sendall(post(served) + BODY)
        assert ended(slow) and first_line(whole).startswith(b"HTTP/1.1 200")


def test_a_client_that_leaves_within_its_body_is_no_error(served, caplog):
    with caplog.at_level(logging.ERROR), ExitStack() as stack:
        leaving = connected(stack, served)
        leaving.sendall(post(served, 100) + BODY)
        time.sleep(0.05)
        leaving.close()
        one = connected(stack, served)
        one.sendall(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{served[1]}\r\n\r\n".encode())
        assert first_line(one).startswith(b"HTTP/1.1 200")
    assert caplog.text == ""
