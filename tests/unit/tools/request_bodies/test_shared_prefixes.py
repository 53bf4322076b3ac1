"""Tests of the longest common prefix of a text with any earlier text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cachesim.base.tokens import common_prefix
from cachesim.tools.request_bodies import shared_prefixes as tested
from cachesim.tools.request_bodies.shared_prefixes import _Maximum, shared_prefixes, shared_under

TEXT = "".join(f"{number:04d} " for number in range(1_000))


@pytest.mark.parametrize("common", [1, 511, 512, 513, 1_600])
def test_the_longest_prefix_is_known_to_the_character(common):
    found = shared_prefixes(["other", TEXT, TEXT[:common] + "#" * 2_000, TEXT[:common]])
    assert found[2] == (1, common) and found[3] == (2, common)


def test_the_longest_prefix_wins_and_the_latest_of_equal_prefixes():
    texts = [TEXT[:common] + f"#{number}" * 100 for number, common in enumerate((600, 900, 900, 700))]
    found = shared_prefixes([*texts, TEXT[:900] + "!", "nothing in common", TEXT[:900] + "!", TEXT[:900] + "!?"])
    assert found[4:7] == [(2, 900), (-1, 0), (4, 901)]
    assert found[7] == (6, 901)


def test_an_equal_text_wins_over_a_later_text_that_extends_it():
    assert shared_prefixes(["ab", "abc", "ab", "abd", "ab"]) == [(-1, 0), (0, 2), (0, 2), (2, 2), (2, 2)]


@given(st.lists(st.text("ab", max_size=8), max_size=20))
def test_all_pairs_compared_give_the_same_result(texts):
    for number, (best, size) in enumerate(shared_prefixes(texts)):
        text, earlier = texts[number], texts[:number]
        sizes = [common_prefix(one, text) for one in earlier]
        assert size == max(sizes, default=0)
        equal = [i for i, one in enumerate(earlier) if one == text]
        latest = [i for i, one in enumerate(sizes) if one == size and size]
        assert best == max(equal if text and equal else latest, default=-1)


@pytest.mark.parametrize("texts", [
    [f"{number} is the question" for number in range(4_000)],
    [TEXT * 2 + str(number) for number in range(4_000)],
    ["a" * number for number in range(1, 4_000)],
    ["the question"] * 4_000,
])  # fmt: skip
def test_a_text_is_compared_with_its_neighbours_only(texts, monkeypatch):
    """4,000 texts need 3,999 comparisons for the prefixes, and a binary search each, not 8 million pairs."""
    calls = []
    monkeypatch.setattr(tested, "common_prefix", lambda a, b: (calls.append(None), common_prefix(a, b))[1])

    class Counted(str):
        """Text that counts searches."""

        def startswith(self, *args):
            calls.append(None)
            return str.startswith(self, *args)

    shared_prefixes([Counted(text) for text in texts])
    assert len(texts) - 1 <= len(calls) <= 40 * len(texts)


def test_only_texts_with_the_same_key_are_compared():
    texts, keys = ["abcd", "abcx", "abcd", "ab", "q", ""], [1, 2, 2, 1, 3, 1]
    assert shared_under(texts, keys) == [(-1, 0), (-1, 0), (1, 3), (0, 2), (-1, 0), (-1, 0)]
    assert shared_under(texts, [1] * 6) == shared_prefixes(texts) and shared_under([], []) == []


def test_the_maximum_of_places_is_that_of_their_numbers():
    found = _Maximum(5)
    assert found.within(0, 5) == -1
    for number, at in enumerate((3, 0, 4)):
        found.set(at, number)
    ranges = [(0, 5), (0, 4), (1, 4), (1, 3), (2, 2), (0, 1), (4, 5)]
    assert [found.within(*one) for one in ranges] == [2, 1, 0, -1, -1, 1, 2]
