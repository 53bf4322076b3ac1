"""Tests that the generator draws splitmix64's numbers, identical everywhere."""

from __future__ import annotations

import pytest

from cachesim.model.hash_mixing import Rng

PUBLISHED = (0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F, 0xF88BB8A8724C81EC, 0x1B39896A51A8749B)
"""First numbers of splitmix64 from state 0, with which seed 0 begins."""


def test_seed_0_gives_the_published_numbers():
    rng = Rng(0)
    assert [rng.below(1 << 64) for _ in PUBLISHED] == list(PUBLISHED)


def test_a_number_below_n_is_the_same_part_of_n():
    rng = Rng(0)
    assert [rng.below(1000) for _ in PUBLISHED] == [n * 1000 // 2**64 for n in PUBLISHED]


def test_paths_are_streams_of_their_own():
    def first(*path):
        rng = Rng(7, *path)
        return [rng.below(1000) for _ in range(8)]

    assert first("llama_cpp") == first("llama_cpp")
    assert len({tuple(first(*path)) for path in ((), ("a",), ("b",), ("a", "b"), ("b", "a"))}) == 5


@pytest.mark.parametrize("number", [0, 1, 2, 100])
def test_a_shuffle_swaps_each_element_with_a_drawn_one_before_it(number):
    rng, same = Rng(5), Rng(5)
    items, expected = list(range(number)), list(range(number))
    rng.shuffle(items)
    for last in range(number - 1, 0, -1):
        other = same.below(last + 1)
        expected[last], expected[other] = expected[other], expected[last]
    assert items == expected and rng.below(1000) == same.below(1000)


def test_ends_of_the_ranges_are_drawn():
    rng = Rng(1)
    assert {rng.between(-2, 2) for _ in range(200)} == {-2, -1, 0, 1, 2}
    assert {rng.one("abc") for _ in range(100)} == set("abc")
    assert not any(rng.chance(0) for _ in range(200))
    assert all(rng.chance(100) for _ in range(200))
