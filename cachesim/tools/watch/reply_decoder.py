"""Decoder of compressed replies, piece by piece, as their bytes arrive."""

from __future__ import annotations

import zlib
from typing import Iterator

from cachesim.base.limits import REPLY_BYTES

PIECE = 1 << 16              # bytes that are decoded at once, at most
STATE = 1 << 16              # bytes that a decoder holds, at most
_EITHER_HEADER = 32 + zlib.MAX_WBITS     # of gzip, or of zlib
_NO_HEADER = -zlib.MAX_WBITS
_CODINGS = frozenset(("gzip", "x-gzip", "deflate"))


class ReplyDecoder:
    """Decoder of one reply. ``coding``: its Content-Encoding. ``has_failed``: the coding is not known, the bytes are
    not in this coding, or there are more than ``REPLY_BYTES`` bytes after decoding; nothing more is decoded."""

    def __init__(self, coding: str) -> None:
        self._coding = coding.strip().lower()
        self.has_failed = self._coding not in _CODINGS
        self._stream = zlib.decompressobj(_EITHER_HEADER)
        self._first = b""                              # bytes that do not show yet whether they are a header
        self._has_begun = False
        self._size = 0

    def decoded(self, data: bytes) -> Iterator[bytes]:
        """Yield the decoded bytes in pieces."""
        if not self._has_begun:
            self._first += data
            if len(self._first) < 2:
                return
            data, self._first, self._has_begun = self._first, b"", True
            if self._coding == "deflate" and not _is_zlib_header(data):
                self._stream = zlib.decompressobj(_NO_HEADER)
        while data and not self.has_failed:
            try:
                piece = self._stream.decompress(data, PIECE)
            except zlib.error:
                self.has_failed = True
                return
            self._size += len(piece)
            self.has_failed = self._size > REPLY_BYTES.value
            if piece and not self.has_failed:
                yield piece
            data = self._stream.unconsumed_tail
            if self._stream.eof:                       # a further member may follow, or bytes without a meaning
                data, self._stream = self._stream.unused_data, zlib.decompressobj(_EITHER_HEADER)
                data = data if data.startswith(b"\x1f\x8b") else b""


def _is_zlib_header(data: bytes) -> bool:
    """True if bytes begin with the header of zlib, which some servers leave out."""
    return data[0] & 15 == zlib.DEFLATED and (data[0] << 8 | data[1]) % 31 == 0
