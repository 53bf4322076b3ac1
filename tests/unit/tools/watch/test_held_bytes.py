"""Bytes in flight and of kept requests: what fits is counted, what does not is refused."""

from __future__ import annotations

from sys import getsizeof

import pytest

from cachesim.tools.watch.held_bytes import MOST, QUEUE, HeldBytes, buffer_bytes, bytes_of


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


@pytest.mark.parametrize(("number", "size"), [(0, 0), (7, 7), (8, 9), (1_000, 1_125)])
def test_a_buffer_that_grows_takes_an_eighth_more(number, size):
    assert buffer_bytes(number) == size


def test_a_value_takes_its_own_bytes_and_those_of_all_parts():
    text, number = "a text", 12_345
    assert bytes_of(text) == getsizeof(text)
    assert bytes_of([text, number]) == getsizeof([text, number]) + getsizeof(text) + getsizeof(number)
    nested = {"key": (text,)}
    assert bytes_of(nested) == getsizeof(nested) + getsizeof("key") + getsizeof((text,)) + getsizeof(text)
    assert bytes_of([text, text]) == getsizeof([text, text]) + 2 * getsizeof(text)


def test_the_queue_is_not_a_part_of_the_bytes_in_flight():
    held = HeldBytes()
    assert not held.recount(0, MOST - QUEUE + 1) and held.recount(0, MOST - QUEUE)
