"""Frames: what the relay copies to the analysis, and the causes that return, as bytes in a pipe; the bounded queue.

A frame is its kind, the number of the connection, a length, and as many bytes. The relay never waits for the analysis:
while too many bytes wait, the copies are dropped and only their number is sent.
"""

from __future__ import annotations

from struct import Struct
from typing import Callable, Iterator, NamedTuple

from cachesim.tools.watch.held_bytes import OBJECT, QUEUE

REQUEST, REPLY, SKIPPED_REQUEST, SKIPPED_REPLY, CLIENT_ENDS, SERVER_ENDS, UNREACHABLE, CAUSE = range(8)
"""Kinds: bytes of a client or of the server; a number of bytes that were dropped; the end of either side's bytes; the
server that refused the connection (the bytes are the reason); the cause of a request, from the analysis."""
_HEAD = Struct(">BQI")
_COUNT = Struct(">Q")
LONGEST = 1 << 18            # bytes of a frame, at most, beyond those of a single copy


class Frame(NamedTuple):
    """A message between relay and analysis: its kind, the number of the connection, and bytes."""

    kind: int
    connection: int
    data: bytes = b""

    @property
    def skipped(self) -> int:
        """Number of dropped bytes, of a SKIPPED frame."""
        return int(_COUNT.unpack(self.data)[0])


class FrameQueue:
    """Frames that wait for the analysis. ``waiting`` returns the bytes that were sent and are not read yet."""

    def __init__(self, send: Callable[[bytes], None], waiting: Callable[[], int], most: int = QUEUE) -> None:
        self._send = send
        self._waiting = waiting
        self._most = most
        self._pending: list[tuple[int, int, bytearray]] = []             # kinds, connections and bytes
        self._last: dict[int, tuple[int, bytearray]] = {}                # the last frame of each connection
        self._size = 0
        self._skipped: dict[tuple[int, int], int] = {}                   # (connection, SKIPPED kind) -> bytes

    def put(self, kind: int, connection: int, data: bytes = b"") -> bool:
        """Add a frame, or its bytes to the last frame of its connection if that has the same kind; return True if it is
        the first since the last ``flush``."""
        if self._size + self._waiting() + len(data) > self._most and kind in (REQUEST, REPLY):
            key = connection, kind + SKIPPED_REQUEST
            self._skipped[key] = self._skipped.get(key, 0) + len(data)
            return False
        first = not self._pending
        for skipped in (SKIPPED_REQUEST, SKIPPED_REPLY):
            if number := self._skipped.pop((connection, skipped), 0):
                self._add(skipped, connection, _COUNT.pack(number))
        before, held = self._last.get(connection, (-1, bytearray()))
        if before == kind in (REQUEST, REPLY) and len(held) < LONGEST:
            held += data
            self._size += len(data)
        else:
            self._add(kind, connection, data)
        return first

    def _add(self, kind: int, connection: int, data: bytes) -> None:
        held = bytearray(data)
        self._size += OBJECT + len(data)
        self._pending.append((kind, connection, held))
        self._last[connection] = kind, held

    def flush(self) -> None:
        """Send all frames."""
        if self._pending:
            self._send(b"".join(packed(Frame(kind, number, bytes(held))) for kind, number, held in self._pending))
            self._pending.clear()
            self._last.clear()
            self._size = 0


def packed(frame: Frame) -> bytes:
    """Return the bytes of a frame."""
    return _HEAD.pack(frame.kind, frame.connection, len(frame.data)) + frame.data


class FrameReader:
    """Reader of frames in pieces of bytes."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def read(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that a piece completes."""
        self._rest += data
        at = 0
        while len(self._rest) - at >= _HEAD.size:
            kind, connection, length = _HEAD.unpack_from(self._rest, at)
            end = at + _HEAD.size + length
            if len(self._rest) < end:
                break
            yield Frame(kind, connection, bytes(self._rest[at + _HEAD.size : end]))
            at = end
        del self._rest[:at]
