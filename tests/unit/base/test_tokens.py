"""Tests of the longest common prefix and substring of token lists."""

from __future__ import annotations

from copy import deepcopy
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cachesim.base.tokens import TokenList, common_prefix, common_substring

SOME = st.lists(st.integers(0, 3), max_size=20)


@given(SOME, SOME)
def test_both_are_what_every_stretch_says(a, b):
    stretches = {tuple(b[i:j]) for i in range(len(b) + 1) for j in range(i, len(b) + 1)}
    assert common_substring(a, b) == max(
        j - i for i in range(len(a) + 1) for j in range(i, len(a) + 1) if tuple(a[i:j]) in stretches
    )
    assert common_prefix(a, b) == max(n for n in range(min(len(a), len(b)) + 1) if a[:n] == b[:n])


def test_a_long_prompt_of_one_token_takes_linear_time():
    assert common_substring([1] * 200_000, [1] * 200_000) == 200_000


def longest_by_hand(a, b):
    """Return the length of the longest text that is in both, each text tried."""
    return max(end - start for start in range(len(a) + 1) for end in range(start, len(a) + 1) if a[start:end] in b)


@pytest.mark.parametrize("a", ["", "a", "ab", "aab", "abab", "abcab", "abbb", "abcbc", "aabbabd", "abcbcabc"])
def test_the_longest_common_substring_of_short_texts(a):
    """Repeated beginnings and ends of a text have states of their own."""
    texts = ["".join(letters) for n in range(5) for letters in product("abcd", repeat=n)]
    found = {b: common_substring([*map(ord, a)], [*map(ord, b)]) for b in texts}
    assert found == {b: longest_by_hand(b, a) for b in texts}


def test_a_deep_copy_of_a_list_of_tokens_is_another_list_of_them():
    tokens = TokenList([1, 2])
    copied, [inside] = deepcopy(tokens), deepcopy([tokens])
    tokens.append(3)
    assert copied == inside == [1, 2] and type(copied) is type(inside) is TokenList


@pytest.mark.parametrize("n", [1023, 1024, 1025, 2048, 5000])
def test_the_common_prefix_of_long_lists(n):
    a = [*range(n), -1, -1]
    b = [*range(n), -2, -2, -2]
    assert [common_prefix(a, b), common_prefix(a[:n], b), common_prefix(tuple(a), tuple(b))] == [n, n, n]
    assert common_prefix(a, list(a)) == n + 2
