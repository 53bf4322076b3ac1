"""Tests of the start of drafts."""

from __future__ import annotations

import pytest

from cachesim.engines.mlx_lm.rules import prefill as rules


@pytest.mark.parametrize("n, left", [(1, 1), (3, 3), (4, 4), (5, 1), (8, 4), (9, 1)])
def test_once_whatever_is_no_full_step_was_left_for_the_first_round(n, left):
    assert rules.start_any(False, n, 4).value == left


@pytest.mark.parametrize("trimmable, left", [(True, 1), (False, 0)])
def test_since_1109_one_token_is_left_and_caches_must_be_trimmable(trimmable, left):
    assert rules.start_trimmable(trimmable, 9, 4).value == left
