"""An exchange counts the bytes that it holds, and its path contains no secrets."""

from __future__ import annotations

import gzip

import pytest

from cachesim.tools.watch.held_bytes import HeldBytes, buffer_bytes
from cachesim.tools.watch.reply_decoder import STATE
from cachesim.tools.watch.watched_exchange import BODY, NO_ROOM, REPLY_END, REPLY_START, TOO_LARGE, WatchedExchange


@pytest.mark.parametrize("most, size, why", [(BODY * 2, BODY, ""), (BODY * 2, BODY + 1, TOO_LARGE),
                                             (BODY // 2, BODY, NO_ROOM), (BODY // 2, 2 * BODY, NO_ROOM)])  # fmt: skip
def test_a_body_is_kept_whole_or_not_at_all(most, size, why):
    held = HeldBytes(most)
    one, piece = WatchedExchange("POST", "/x", held=held), bytes(1 << 16)
    for _ in range(size // len(piece)):
        one.take_request(piece)
    one.take_request(bytes(size % len(piece)))
    assert (one.left_out, one.size, len(one.body)) == (why, size, 0 if why else size)
    assert (held.size == 0) == bool(why)
    one.release()
    assert held.size == 0


@pytest.mark.parametrize("target, path", [
    ("/v1/x?key=sk-1", "/v1/x"), ("/a#b", "/a"), ("http://u:pw@host/a/b?c", "/a/b"), ("http://host", "/"),
    ("/a?to=http://b/c", "/a"), ("/to/http://b/c", "/to/http://b/c"), ("*", "*"),
    ("://u:pw@host/a", "/a"),
])  # fmt: skip
def test_a_path_has_neither_host_nor_query(target, path):
    assert WatchedExchange("POST", target).path == path


def test_the_start_and_the_end_of_a_reply_are_kept_and_its_size_counted():
    one = WatchedExchange("POST", "/x", held=HeldBytes(1 << 30))
    for piece in (b"a" * REPLY_START, b"b" * (2 * REPLY_END), b"c" * 5):
        one.take_reply(piece)
    assert one.reply_size == REPLY_START + 2 * REPLY_END + 5 and one.reply == b"a" * REPLY_START
    assert one.rest == b"b" * (REPLY_END - 5) + b"c" * 5 and not one.is_reply_left_out
    assert one.held.size == buffer_bytes(REPLY_START + REPLY_END)
    one.release()
    assert one.held.size == 0


def test_a_reply_without_room_is_left_out_and_its_size_still_counted():
    one = WatchedExchange("POST", "/x", held=HeldBytes(10))
    one.take_reply(b"x" * 5000)
    one.take_reply(b"y" * 7)
    assert (one.is_reply_left_out, one.reply, one.rest, one.reply_size, one.held.size) == (True, b"", b"", 5007, 0)


def test_the_end_of_a_reply_is_cut_when_it_is_twice_as_long_as_what_must_stay():
    one = WatchedExchange("GET", "/x")
    one.take_reply(b"a" * (REPLY_START + 2 * REPLY_END))
    assert bytes(one.rest) == b"a" * (2 * REPLY_END)
    one.take_reply(b"b")
    assert bytes(one.rest) == b"a" * (REPLY_END - 1) + b"b" and len(one.reply) == REPLY_START


def test_the_bytes_of_an_exchange_are_released_once():
    held = HeldBytes()
    one = WatchedExchange("POST", "/x", held=held)
    one.take_request(b"a" * 80)
    one.take_reply(b"b" * 8)
    assert held.size == 90 + 9
    one.release()
    one.release()
    assert held.size == 0


def test_a_decoder_counts_as_held_and_a_reply_that_cannot_be_decoded_holds_nothing():
    one = WatchedExchange("POST", "/x", coding="gzip", held=HeldBytes())
    one.take_reply(gzip.compress(b"a" * 80))
    assert one.reply == b"a" * 80 and one.held.size == buffer_bytes(80) + STATE
    other = WatchedExchange("POST", "/x", coding="gzip", held=HeldBytes())
    other.take_reply(gzip.compress(b"a" * 80)[:-20] + bytes(99))
    assert (other.is_reply_unread, other.reply, other.held.size) == (True, b"", 0)
