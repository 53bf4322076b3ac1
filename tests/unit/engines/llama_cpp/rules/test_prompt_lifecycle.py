"""Reusable prefix, re-evaluated last token, next attempt, end of generation: spec 3.9, 3.11, 3.12."""

from __future__ import annotations

import pytest

from cachesim.engines.llama_cpp.rules import prompt_lifecycle, server_of_2023, startup
from cachesim.engines.llama_cpp.rules.checkpoint_facts import Chunk


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


CONTEXT_ERROR = "request (64 tokens) exceeds the available context size (64 tokens), try increasing it"


@pytest.mark.parametrize("n_tokens, error", [(63, None), (64, CONTEXT_ERROR)])
def test_a_prompt_leaves_room_for_a_token(n_tokens, error):
    assert prompt_lifecycle.refuse_long(n_tokens, 64, 0, True).value == error


@pytest.mark.parametrize("kind, n_tokens, pooling, whole, rank", [
    ("completion", 99, "", "", ""), ("embedding", 8, "mean", "whole", "whole"),
    ("embedding", 9, "mean", "too large", "too large"), ("embedding", 9, "last", "", ""),
    ("rerank", 9, "rank", "too large", ""), ("rerank", 8, "rank", "whole", ""), ("decision", 9, "", "", ""),
])  # fmt: skip
def test_pooled_tasks_are_evaluated_whole(kind, n_tokens, pooling, whole, rank):
    assert prompt_lifecycle.whole_prompt(kind, n_tokens, 8, pooling).value == whole
    assert prompt_lifecycle.whole_unless_last(kind, n_tokens, 8, pooling).value == rank


@pytest.mark.parametrize("kind, reuses", [
    ("completion", True), ("infill", True), ("embedding", False), ("rerank", False),
])  # fmt: skip
def test_pooled_tasks_reuse_nothing_since_b11312(kind, reuses):
    assert (prompt_lifecycle.all_reuse(kind).value, prompt_lifecycle.stateless_start_anew(kind).value) == (True, reuses)


@pytest.mark.parametrize("decision, value", [
    (prompt_lifecycle.valid_tokens(-1), "Prompt contains invalid tokens"), (prompt_lifecycle.valid_tokens(0), ""),
    (prompt_lifecycle.slot_first(-1), ""), (prompt_lifecycle.marks_of_any(False), True),
    (prompt_lifecycle.marks_of_spans(True), True), (prompt_lifecycle.marks_of_spans(False), False),
    (prompt_lifecycle.marks_of_chats(False), False), (prompt_lifecycle.marks_of_chats(True), True),
    (prompt_lifecycle.abort_if_refused(9), False), (prompt_lifecycle.assert_if_refused(9), False),
    (prompt_lifecycle.clear_if_refused(9), True), (prompt_lifecycle.keep_list(False, 9), None),
    (prompt_lifecycle.failure_clears(2), True), (prompt_lifecycle.trim_at_n_past(9, 10), 9),
    (prompt_lifecycle.restore_failed("why"), ("Unable to restore slot: why", True)),
    (prompt_lifecycle.restore_failed_tokens("why"),
     ("Unable to restore slot, no available space in KV cache or invalid slot save file", False)),
    (prompt_lifecycle.next_attempt(False, 1), 0), (prompt_lifecycle.no_decisions([(1,)]), None),
    (prompt_lifecycle.completions_only("completion"), True),
    (server_of_2023.list_sampled(False, 9), -2), (server_of_2023.trim_at_prefix(9, 10), 10),
    (server_of_2023.trim_at_prefix(10, 9), 10),
    (server_of_2023.break_nowhere(Chunk(3, 90, 8, 8, 4, (), 0, True, 0), ()), 90),
    (startup.slots_open_if_auto(-1, True, False), True), (startup.slots_open_if_auto(1, False, False), False),
    (startup.slots_open_at_one(-1, True, True), True), (startup.slots_open_at_one(1, False, False), True),
    (startup.slots_open_at_one(1, True, False), False), (startup.slots_open_at_one(1, False, True), False),
    (startup.slots_open_at_one(2, False, False), False), (startup.ctx_pool_given(0, 2, 64), 0),
    (startup.ctx_pool_per_slot(0, 2, 64), 128), (startup.ctx_pool_per_slot(0, 2, 0), 0),
    (startup.ctx_pool_per_slot(512, 2, 64), 512), (startup.ctx_pool_per_slot(0, 2, 1), 2),
    (startup.slot_ctx_capped(256, 512, 2, 1, 1000), 1), (startup.slot_ctx_whole(256, 512, 2, 0, 200), 200),
])  # fmt: skip
def test_single_values_of_a_prompt_and_of_the_start(decision, value):
    assert decision.value == value


def test_an_answer_of_no_tokens_ends_with_its_first():
    found = [prompt_lifecycle.end_of_generation(n_gen, 0, 50, 100, False).value for n_gen in (0, 1)]
    assert found == [("", False), ("limit", False)]


def test_the_end_of_generation_names_its_stop_word():
    found = prompt_lifecycle.end_of_generation(2, 9, 50, 100, False, "a stop", ("", "stop"))
    assert found.because == {"n_gen": 2, "n_predict": 9, "n_slot": 50, "n_ctx": 100, "word": "stop"}
    assert prompt_lifecycle.end_of_generation(2, 9, 99, 100, False, "", (), True).value == ("eos", True)
    assert prompt_lifecycle.end_of_generation(2, 9, 50, 100, False, "a stop", (), True).value == ("eos", False)
