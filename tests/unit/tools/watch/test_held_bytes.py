"""Bytes in flight and of kept requests: what fits is counted, what does not is refused."""

from __future__ import annotations

from cachesim.tools.watch.held_bytes import HeldBytes


def test_bytes_are_counted_while_there_is_room():
    held = HeldBytes(10)
    assert held.recount(0, 6) and held.size == 6
    held.kept = 3
    assert held.size == 9 and held.recount(6, 7) and held.size == 10
    assert not held.recount(7, 8) and held.size == 10


def test_fewer_bytes_always_fit():
    held = HeldBytes(10)
    held.recount(0, 8)
    held.kept = 9
    assert held.recount(8, 8) and held.recount(8, 2) and held.size == 11
    assert not held.recount(2, 3)
