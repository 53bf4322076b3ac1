"""Reusable prefix, re-evaluated last token, next attempt, end of generation: spec 3.9, 3.11, 3.12."""

from __future__ import annotations

import pytest

from cachesim.engines.llama_cpp.rules import prompt_lifecycle


@pytest.mark.parametrize("lcp, cache_prompt, n_past", [(9, True, 9), (9, False, 0), (0, True, 0)])
def test_n_past_is_the_common_prefix_unless_cache_prompt_is_false(lcp, cache_prompt, n_past):
    assert prompt_lifecycle.n_past_lcp(lcp, cache_prompt).value == n_past


@pytest.mark.parametrize("n_past, n_tokens, kept", [(12, 12, 11), (11, 12, 11), (0, 12, 0), (1, 1, 0), (0, 0, 0)])
def test_at_least_one_token_is_evaluated(n_past, n_tokens, kept):
    assert prompt_lifecycle.need_one(n_past, n_tokens).value == kept


def test_clearing_forgets_checkpoints_only_since_25649():
    assert (prompt_lifecycle.clear_both(3).value, prompt_lifecycle.clear_tokens(3).value) == (True, False)


@pytest.mark.parametrize("purged, n_batch, again", [(True, 64, 64), (False, 64, 32), (False, 3, 1), (False, 2, 1)])
def test_after_a_purge_the_same_size_else_half(purged, n_batch, again):
    assert prompt_lifecycle.next_attempt(purged, n_batch).value == again


# n_gen, n_predict, tokens in the slot, context, shift -> (stop, truncated)
@pytest.mark.parametrize("n_gen, n_predict, n_slot, n_ctx, shift, want", [
    (1, 3, 12, 256, False, ("", False)),
    (3, 3, 14, 256, False, ("limit", False)),
    (1, 0, 12, 256, False, ("limit", False)),           # a budget of 0 still yields one token
    (900, -1, 100, 256, False, ("", False)),
    (5, -1, 255, 256, False, ("limit", True)),
    (5, -1, 254, 256, False, ("", False)),
    (5, -1, 255, 256, True, ("", False)),
    (3, 3, 255, 256, False, ("limit", True)),
])  # fmt: skip
def test_end_of_generation(n_gen, n_predict, n_slot, n_ctx, shift, want):
    assert prompt_lifecycle.end_of_generation(n_gen, n_predict, n_slot, n_ctx, shift).value == want


@pytest.mark.parametrize("said, words, n_gen, n_slot, outcome", [
    ("abc", ("x", "bc"), 2, 50, ("word", False)),
    ("abc", ("bcd", ""), 2, 50, ("", False)),
    ("abc", ("bc",), 9, 50, ("word", False)),           # the budget is spent with the same token
    ("abc", ("bc",), 2, 99, ("limit", True)),           # the context is full with the same token
    ("abc", (), 9, 50, ("limit", False)),
])
def test_a_stop_word_ends_the_generation_unless_the_context_is_full(said, words, n_gen, n_slot, outcome):
    assert prompt_lifecycle.end_of_generation(n_gen, 9, n_slot, 100, False, said, words).value == outcome
