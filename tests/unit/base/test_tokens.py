"""Tests of the longest common prefix and substring of token lists."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cachesim.base.tokens import common_prefix, common_substring

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
