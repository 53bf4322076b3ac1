"""Tests of the longest common prefix of a text with any earlier text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cachesim.base.tokens import common_prefix
from cachesim.tools.request_bodies.shared_prefixes import shared_prefixes, shared_under
from tests.bench.work import count

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


def test_only_texts_with_the_same_key_are_compared():
    texts, keys = ["abcd", "abcx", "abcd", "ab", "q", ""], [1, 2, 2, 1, 3, 1]
    assert shared_under(texts, keys) == [(-1, 0), (-1, 0), (1, 3), (0, 2), (-1, 0), (-1, 0)]
    assert shared_under(texts, [1] * 6) == shared_prefixes(texts) and shared_under([], []) == []


@pytest.mark.parametrize("text", [
    "{} is the question".format, lambda number: TEXT * 2 + str(number), lambda number: "a" * (number + 1),
    lambda number: "the question",
])  # fmt: skip
def test_a_text_is_compared_with_its_neighbours_only(text):
    """Four times as many texts take about four times as many calls, not sixteen times."""
    few, many = (count(lambda n=number: shared_prefixes([text(i) for i in range(n)])).calls for number in (250, 1_000))
    assert many <= 6 * few
