"""Frames survive any cut, and the queue drops what exceeds its bound, with its number."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cachesim.tools.watch import frames
from cachesim.tools.watch.frames import (
    CLIENT_ENDS,
    REPLY,
    REQUEST,
    SKIPPED_REPLY,
    SKIPPED_REQUEST,
    Frame,
    FrameQueue,
    FrameReader,
)

KINDS, NUMBERS = st.sampled_from((REQUEST, REPLY, CLIENT_ENDS)), st.sampled_from((1, 2, 1 << 40))


@given(st.lists(st.tuples(KINDS, NUMBERS, st.binary()), max_size=6), st.integers(1, 40))
def test_frames_are_read_from_pieces_of_any_size(frames, size):
    sent = bytearray()
    queue, reader = FrameQueue(sent.extend, lambda: 0), FrameReader()
    for frame in frames:
        queue.put(*frame)
    queue.flush()
    pieces = (bytes(sent[at : at + size]) for at in range(0, len(sent), size))
    assert list(of_connections(one for piece in pieces for one in reader.read(piece))) == list(of_connections(
        Frame(*frame) for frame in frames))  # fmt: skip


def of_connections(frames):
    """Return the kinds and bytes of each connection in their order; neighbours of one kind are joined."""
    found = {}
    for kind, connection, data in frames:
        row = found.setdefault(connection, [])
        if row and row[-1][0] == kind in (REQUEST, REPLY):
            row[-1][1].extend(data)
        else:
            row.append((kind, bytearray(data)))
    return sorted(found.items())


def test_bytes_of_one_direction_become_one_frame_between_two_flushes():
    sent = bytearray()
    queue = FrameQueue(sent.extend, lambda: 0)
    for kind, connection in ((REQUEST, 1), (REPLY, 1), (REPLY, 2), (REPLY, 1), (REQUEST, 1), (REPLY, 1)):
        queue.put(kind, connection, b"a")
    queue.flush()
    assert list(FrameReader().read(bytes(sent))) == [
        Frame(REQUEST, 1, b"a"), Frame(REPLY, 1, b"aa"), Frame(REPLY, 2, b"a"), Frame(REQUEST, 1, b"a"),
        Frame(REPLY, 1, b"a")]  # fmt: skip


def test_a_frame_that_is_long_gets_no_more_bytes(monkeypatch):
    monkeypatch.setattr(frames, "LONGEST", 5)
    sent = bytearray()
    queue = FrameQueue(sent.extend, lambda: 0)
    for data in (b"abcd", b"efg", b"hijkl", b"m"):
        queue.put(REPLY, 1, data)
    queue.flush()
    assert [one.data for one in FrameReader().read(bytes(sent))] == [b"abcdefg", b"hijkl", b"m"]


def test_dropped_bytes_are_reported_before_the_next_frame_of_their_connection():
    sent, waiting = bytearray(), [0]
    queue = FrameQueue(sent.extend, lambda: waiting[0], 300)
    queue.put(REQUEST, 1, b"a" * 60)
    for kind, connection, size in ((REQUEST, 1, 60), (REPLY, 1, 70), (REQUEST, 2, 80), (REQUEST, 1, 90)):
        queue.put(kind, connection, b"b" * size)
    queue.put(CLIENT_ENDS, 1)                            # ends are never dropped
    waiting[0] = 0
    queue.flush()
    queue.put(REQUEST, 2, b"c")
    queue.flush()
    found = [(one.kind, one.connection, one.skipped if one.kind in (SKIPPED_REQUEST, SKIPPED_REPLY) else one.data)
             for one in FrameReader().read(bytes(sent))]  # fmt: skip
    assert found == [(REQUEST, 1, b"a" * 60), (SKIPPED_REQUEST, 1, 150), (SKIPPED_REPLY, 1, 70), (CLIENT_ENDS, 1, b""),
                     (SKIPPED_REQUEST, 2, 80), (REQUEST, 2, b"c")]  # fmt: skip


def test_the_first_frame_after_a_flush_asks_for_the_next():
    queue = FrameQueue(lambda data: None, lambda: 0)
    assert [queue.put(REQUEST, 1, b"a"), queue.put(REQUEST, 1, b"b")] == [True, False]
    queue.flush()
    assert queue.put(REPLY, 1, b"a")


def test_a_flush_begins_new_frames_and_gives_room_again():
    sent = bytearray()
    queue = FrameQueue(sent.extend, lambda: 0, 300)
    for data in (b"a" * 60, b"b" * 60):
        queue.put(REPLY, 1, data)
        queue.flush()
    assert list(FrameReader().read(bytes(sent))) == [Frame(REPLY, 1, b"a" * 60), Frame(REPLY, 1, b"b" * 60)]


@pytest.mark.parametrize(("waiting", "is_kept"), [(0, True), (1, True), (2, False)])
def test_bytes_that_exactly_fill_the_room_are_kept(waiting, is_kept):
    sent = []
    queue = FrameQueue(sent.append, lambda: waiting, 11)
    for number in (1, 2):
        assert queue.put(REQUEST, number, b"a" * 10) is is_kept
        queue.flush()
        assert len(sent) == (number if is_kept else 0)
