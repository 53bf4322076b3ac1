"""Recorder of connections: it forwards bytes to a server and keeps both directions of each connection."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from urllib.parse import urlsplit


class Recorder:
    """Server on the loopback address that forwards to another one. A context manager."""

    def __init__(self, to):
        parts = urlsplit(to)
        self._to = parts.hostname, parts.port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._kept, self._threads = [], []

    def __enter__(self):
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._listener.close()

    def _accept(self):
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._to)
                kept = bytearray(), bytearray()
                self._kept.append(kept)
                for one, other, into in ((client, server, kept[0]), (server, client, kept[1])):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    threading.Thread(target=_pump, args=(one, other, into), daemon=True).start()

    def streams(self):
        """Both directions of each connection."""
        return [tuple(map(bytes, kept)) for kept in self._kept]

    def size(self):
        """All recorded bytes."""
        return sum(len(one) for kept in self._kept for one in kept)


def _pump(source, sink, kept):
    with suppress(OSError):
        while data := source.recv(1 << 16):
            kept += data
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
