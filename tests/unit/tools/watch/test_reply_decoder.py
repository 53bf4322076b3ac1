"""Compressed replies are decoded as they arrive, up to a bound; what cannot be decoded is said."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib

import pytest

from cachesim.base.limits import REPLY_BYTES
from cachesim.tools.watch.reply_decoder import PIECE, ReplyDecoder

TEXT = b'data: {"content":"a"}\n\n' * 5_000


def raw_deflate(data):
    stream = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return stream.compress(data) + stream.flush()


CODED = {"gzip": gzip.compress(TEXT), "GZip ": gzip.compress(TEXT), "x-gzip": gzip.compress(TEXT),
         "deflate": zlib.compress(TEXT), "Deflate": raw_deflate(TEXT)}  # fmt: skip


def decoded(decoder, data, size):
    pieces = [piece for at in range(0, len(data), size) for piece in decoder.decoded(data[at : at + size])]
    assert all(len(piece) <= PIECE for piece in pieces)
    return b"".join(pieces)


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
@pytest.mark.parametrize("coding", CODED)
def test_a_reply_of_any_cut_is_decoded(coding, size):
    decoder = ReplyDecoder(coding)
    assert decoded(decoder, CODED[coding], size) == TEXT and not decoder.has_failed


def test_several_members_are_one_reply_and_bytes_behind_them_are_ignored():
    data = gzip.compress(b"one ") + gzip.compress(b"two") + b"more"
    assert decoded(ReplyDecoder("gzip"), data, 1 << 20) == b"one two"


def test_each_flushed_piece_of_a_stream_is_decoded_at_once():
    stream, decoder = zlib.compressobj(wbits=16 + zlib.MAX_WBITS), ReplyDecoder("gzip")
    for number in range(3):
        sent = stream.compress(b"piece %d" % number) + stream.flush(zlib.Z_SYNC_FLUSH)
        assert b"".join(decoder.decoded(sent)) == b"piece %d" % number


@pytest.mark.parametrize("coding, data", [("br", b"\x0b\x02\x80abc\x03"), ("gzip, br", CODED["gzip"]), ("zstd", b"abc"),
                                          ("gzip", b"not compressed"), ("deflate", b"\xff" * 9)])  # fmt: skip
def test_what_cannot_be_decoded_is_said(coding, data):
    decoder = ReplyDecoder(coding)
    assert decoded(decoder, data * 2, 3) == b"" and decoder.has_failed


def test_a_reply_that_grows_beyond_the_limit_is_left_without_its_memory():
    bomb = gzip.compress(bytes(4 * REPLY_BYTES.value), compresslevel=9)
    decoder, size = ReplyDecoder("gzip"), 0
    tracemalloc.start()
    for piece in decoder.decoded(bomb):
        size += len(piece)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert decoder.has_failed and REPLY_BYTES.value - PIECE <= size <= REPLY_BYTES.value and peak < 8 * PIECE
    assert list(decoder.decoded(bomb)) == []


def test_a_reply_as_long_as_the_limit_is_decoded():
    decoder = ReplyDecoder("deflate")
    assert sum(map(len, decoder.decoded(zlib.compress(bytes(REPLY_BYTES.value))))) == REPLY_BYTES.value
    assert not decoder.has_failed
