"""Request and reply of a client: their bytes, as far as they are held, how they ended, and why a body is not known."""

from __future__ import annotations

from dataclasses import dataclass, field

from cachesim.tools.watch.held_bytes import HeldBytes, buffer_bytes
from cachesim.tools.watch.reply_decoder import STATE, ReplyDecoder

BODY = 1 << 24               # bytes of a request's body that are kept
REPLY_START, REPLY_END = 1 << 20, 1 << 16      # bytes of a reply that are kept: its start, and its end
OPEN = ""
WHOLE = "whole"
CLIENT_LEFT = "the client hung up"
SERVER_LEFT = "the server hung up"
UNREAD = "the rest was not read"
"""Ends of an exchange. UNREAD: `watch` ended, or read too many other connections."""
TOO_LARGE = "the body is larger than 16 MiB"
NO_ROOM = "too many bytes were held"
NOT_COPIED = "the request was not copied completely"
INCOMPLETE = "the request did not end"
"""Reasons for which a body is not known."""


@dataclass(slots=True, eq=False)
class WatchedExchange:
    """A request and its reply."""

    method: str
    target: str                                              # path and query
    connection: int = 0                                      # number of its connection
    body: bytearray = field(default_factory=bytearray)       # the request's body
    size: int = 0                                            # its bytes, also if they were not kept
    left_out: str = ""                                       # why its body is not known, "" = it is
    is_sent: bool = False                                    # the request is complete
    status: int = 0                                          # 0 = no reply yet
    coding: str = ""                                         # Content-Encoding of the reply
    reply: bytearray = field(default_factory=bytearray)      # start of the reply's body, decoded
    rest: bytearray = field(default_factory=bytearray)       # its end, if it is longer
    reply_size: int = 0                                      # bytes of the reply's body, decoded
    is_reply_left_out: bool = False                          # too many bytes were held for the reply
    is_reply_unread: bool = False                            # the reply could not be decoded
    end: str = OPEN                                          # how it ended
    has_client_left: bool = False                            # the client closed its side before the reply ended
    held: HeldBytes = field(default_factory=HeldBytes)       # counts the bytes of body and reply
    _body_held: int = 0
    _reply_held: int = 0
    _decoder: ReplyDecoder | None = None

    @property
    def path(self) -> str:
        """Path of the target, without host and query: both may contain secrets."""
        address = self.target.partition("?")[0].partition("#")[0]
        host = address.find("://")
        return address if host < 0 or "/" in address[:host] else f"/{address[host + 3 :].partition('/')[2]}"

    def take_request(self, data: bytes) -> None:
        """Add bytes of the request's body."""
        self.size += len(data)
        if self.size > BODY:
            self.leave_out(TOO_LARGE)
        elif not self.left_out:
            self.body += data
            if not self._count_body():
                self.leave_out(NO_ROOM)

    def leave_out(self, why: str) -> None:
        """Forget the request's body; the first reason counts."""
        self.left_out = self.left_out or why
        self.forget_body()

    def forget_body(self) -> None:
        """Release the bytes of the request's body."""
        self.body = bytearray()
        self._count_body()

    def release(self) -> None:
        """Stop counting the bytes of this exchange: it ended."""
        self.held.recount(self._body_held + self._reply_held, 0)
        self._body_held = self._reply_held = 0

    def _count_body(self) -> bool:
        """Count the bytes of the body, if there is room; return True if there is."""
        size = buffer_bytes(len(self.body))
        has_room = self.held.recount(self._body_held, size)
        self._body_held = size if has_room else self._body_held
        return has_room

    def take_reply(self, data: bytes) -> None:
        """Add bytes of the reply's body, which are decoded."""
        if self.coding.strip().lower() in ("", "identity"):
            self._keep_reply(data)
            return
        if self._decoder is None:
            self._decoder = ReplyDecoder(self.coding)
        for piece in self._decoder.decoded(data):
            self._keep_reply(piece)
        if self._decoder.has_failed:
            self.is_reply_unread = True
            self._forget_reply()

    def _keep_reply(self, data: bytes) -> None:
        """Keep decoded bytes of the reply's body, if there is room."""
        self.reply_size += len(data)
        if self.is_reply_left_out or self.is_reply_unread:
            return
        room = REPLY_START - len(self.reply)
        self.reply += data[:room]
        self.rest += data[room:]
        if len(self.rest) > 2 * REPLY_END:
            del self.rest[:-REPLY_END]
        size = buffer_bytes(len(self.reply) + len(self.rest)) + (STATE if self._decoder else 0)
        if self.held.recount(self._reply_held, size):
            self._reply_held = size
        else:
            self.is_reply_left_out = True
            self._forget_reply()

    def _forget_reply(self) -> None:
        """Release the bytes of the reply's body."""
        self.reply, self.rest = bytearray(), bytearray()
        self.held.recount(self._reply_held, 0)
        self._reply_held = 0
