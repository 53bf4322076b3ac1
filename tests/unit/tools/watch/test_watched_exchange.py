"""An exchange counts the bytes that it holds, and its path contains no secrets."""

from __future__ import annotations

import pytest

from cachesim.tools.watch.held_bytes import HeldBytes
from cachesim.tools.watch.watched_exchange import BODY, NO_ROOM, TOO_LARGE, WatchedExchange


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
])  # fmt: skip
def test_a_path_has_neither_host_nor_query(target, path):
    assert WatchedExchange("POST", target).path == path
