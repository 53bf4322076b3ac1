"""Limits of the prompt cache: which entries go, and which limits a server exceeds."""

from __future__ import annotations

import math

import pytest

from cachesim.engines.inspection import ExceededLimit
from cachesim.engines.shared.prompt_cache_limits import F32, Eviction, Limits, evict_oldest, over_limits, part


def test_a_part_is_single_precision_and_a_part_of_nothing_is_no_number():
    assert part(1, 3) == F32(1) / F32(3) and isinstance(part(1, 3), F32)
    assert math.isnan(part(1, 0))


@pytest.mark.parametrize("sizes, limits, spare, found", [
    ((4, 4), Limits(8, 0), 0, Eviction(0, 0, 8)), ((4, 4, 1), Limits(8, 0), 0, Eviction(1, 0, 16)),
    ((9,), Limits(8, 0), 1, Eviction(0, 0, 0)), ((9,), Limits(8, 0), 0, Eviction(1, 0, 8)),
    ((4, 4, 4), Limits(0, 20), 0, Eviction(0, 1, 20)), ((4, 4, 4), Limits(0, 20), 3, Eviction(0, 0, 20)),
    ((4, 4, 4), Limits(0, 30), 0, Eviction(0, 0, 30)), ((4, 4, 4), Limits(0, 0), 0, Eviction(0, 0, 0)),
])  # fmt: skip
def test_the_oldest_entries_go_until_bytes_and_tokens_are_within_their_limits(sizes, limits, spare, found):
    lengths = [10] * len(sizes)
    assert evict_oldest(sizes, lengths, limits, spare)[:2] == found[:2]
    if not limits.size:
        assert evict_oldest(sizes, lengths, limits, spare).est == found.est


def test_more_tokens_are_allowed_if_the_bytes_allow_them():
    assert evict_oldest((10, 10), (5, 5), Limits(40, 6), 0) == Eviction(0, 0, 20)
    assert evict_oldest((1, 1), (5, 5), Limits(40, 6), 0) == Eviction(0, 0, 40)         # at least a byte a token
    assert evict_oldest((10, 10), (5, 5), Limits(20, 16), 0) == Eviction(0, 0, 16)


def test_the_average_size_is_that_of_the_entries_that_are_left():
    assert evict_oldest((100, 40, 40), (1, 10, 10), Limits(80, 1), 0) == Eviction(1, 0, 20)
    assert evict_oldest((100, 40, 40), (1, 10, 11), Limits(80, 1), 0) == Eviction(1, 0, 21)
    assert evict_oldest((100, 40, 20), (1, 10, 50), Limits(80, 1), 0) == Eviction(1, 0, 80)
    assert evict_oldest((100, 2, 2), (1, 50, 50), Limits(80, 1), 0) == Eviction(1, 1, 80)


@pytest.mark.parametrize("size, est", [(10, 4), (5, 8), (0, 40)])
def test_entries_without_tokens_count_as_one_token(size, est):
    assert evict_oldest((size,), (0,), Limits(40, 2), 0) == Eviction(0, 0, est)


@pytest.mark.parametrize("checkpoints, sizes, found", [
    ((3, 2), (4, 4), []), ((4, 3), (), [ExceededLimit("checkpoints", 4, 3, "slot 0 has")]),
    ((0, 4), (4, 5), [ExceededLimit("checkpoints", 4, 3, "slot 1 has"),
                      ExceededLimit("bytes", 9, 8, "the prompt cache holds")]),
])  # fmt: skip
def test_exceeded_limits_are_named(checkpoints, sizes, found):
    assert over_limits(checkpoints, 3, sizes, 8) == found
    assert over_limits((), 3, sizes, 0) == []
