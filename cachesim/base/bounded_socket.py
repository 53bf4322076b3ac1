"""Socket whose connecting, sending and receiving together end at a deadline, however slowly the bytes arrive."""

from __future__ import annotations

import io
import socket
from contextlib import suppress
from time import monotonic
from typing import Any

LONGEST_WAIT = 1e6           # longest time-out that a socket accepts on every platform [seconds]


class TooManyBytes(Exception):
    """Raised if more bytes arrive than allowed."""


class BoundedSocket:
    """Connection to a host, by default without encryption. It can stand in for the socket of an ``HTTPConnection``.

    ``end``: time of ``monotonic`` after which every method raises TimeoutError; ``received``: bytes so far. Raise
    OSError without a connection."""

    def __init__(self, host: str, port: int, secure: bool, end: float) -> None:
        self._end, self.received = end, 0
        self.allow(0, "")
        self._socket = self._connected(host, port)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if secure:
            self._secure(host)

    def allow(self, most: int, what: str) -> None:
        """Set the number of bytes that may arrive until the next call. ``what``: their name in messages."""
        self._left, self._excess = most, f"{what} of more than {most:,} bytes"

    def sendall(self, data: bytes) -> None:
        """Send all bytes. Raise OSError, TimeoutError."""
        self._socket.settimeout(self._seconds())
        self._socket.sendall(data)

    def makefile(self, _mode: str) -> io.BufferedReader:
        """Return a reader, which can be closed without closing the connection."""
        return io.BufferedReader(_SocketReader(self))

    def receive(self, buffer: memoryview) -> int:
        """Receive bytes into a buffer; return their number. Raise OSError, TimeoutError, TooManyBytes."""
        if not self._left:
            raise TooManyBytes(self._excess)
        self._socket.settimeout(self._seconds())
        count = self._socket.recv_into(buffer[: self._left])
        self._left -= count
        self.received += count
        return count

    def close(self) -> None:
        """Do nothing: an HTTPConnection closes its socket before the body of the reply is read."""

    def shut(self) -> None:
        """Close the connection, also under a thread that reads from it."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _seconds(self) -> float:
        """Return the time until the deadline. Raise TimeoutError after it."""
        left = self._end - monotonic()
        if left <= 0:
            raise TimeoutError
        return min(left, LONGEST_WAIT)

    def _connected(self, host: str, port: int) -> socket.socket:
        """Connect to the first address of the host that accepts. Raise OSError of the last address."""
        error = OSError("unknown host")
        for *kind, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            made = socket.socket(*kind)
            try:
                made.settimeout(self._seconds())
                made.connect(address)
                return made
            except OSError as failed:
                made.close()
                error = failed
        raise error

    def _secure(self, host: str) -> None:
        """Encrypt the connection. Raise OSError."""
        import ssl

        try:
            self._socket.settimeout(self._seconds())
            self._socket = ssl.create_default_context().wrap_socket(self._socket, server_hostname=host)
        except BaseException:
            self._socket.close()
            raise


class _SocketReader(io.RawIOBase):
    """Raw stream of the bytes that arrive."""

    def __init__(self, connection: BoundedSocket) -> None:
        self._connection = connection

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._connection.receive(memoryview(buffer))
