"""Options and hints that follow from logged numbers, and what positions show of a memory."""

from __future__ import annotations

import pytest

from cachesim.engines.llama_cpp.log_lines import hints, memory, options
from cachesim.engines.shared.log_grammar import PromptHint


@pytest.mark.parametrize(("facts", "found"), [
    ({}, {}), ({"n_batch": 64, "n_ubatch": 16, "step": 8, "max": 3, "limit_mib": 100, "pos_min": 4},
     {"batch_size": 64, "ubatch_size": 16, "checkpoint_min_step": 8, "ctx_checkpoints": 3, "cache_ram": 100}),
    ({"limit_mib": 100.5, "similarity": 0.25}, {"cache_ram": 100, "slot_prompt_similarity": 0.25}),
    ({"n_ctx": 4096}, {"ctx_size": 4096}), ({"limit_tokens": 4096}, {"ctx_size": 4096}),
    ({"n_ctx": 0, "limit_tokens": 2048}, {"ctx_size": 2048}),
    ({"n_ctx": 4096, "n_ctx_slot": 4096, "n_slots": 4}, {"ctx_size": 4096, "parallel": 4, "kv_unified": True}),
    ({"n_ctx": 4096, "n_ctx_slot": 4096, "n_slots": 4, "kv_unified": False},
     {"ctx_size": 4096, "parallel": 4, "kv_unified": False}),
    ({"n_ctx": 4096, "n_ctx_slot": 4096, "n_slots": 1}, {"ctx_size": 4096, "parallel": 1}),
    ({"n_ctx": 4096, "n_ctx_slot": 4096}, {"ctx_size": 4096}),
    ({"n_ctx": 4096, "n_ctx_slot": 1024, "n_slots": 4}, {"ctx_size": 4096, "parallel": 4}),
    ({"n_ctx": 4096, "n_ctx_slot": 1024}, {"ctx_size": 4096, "parallel": 4}),
    ({"n_ctx": 4096, "n_ctx_slot": 1024, "n_slots": 2}, {"ctx_size": 4096, "parallel": 4}),
    ({"n_ctx": 4096, "n_ctx_slot": 1000}, {"ctx_size": 4096}),
    ({"n_ctx": 8, "n_ctx_slot": 1}, {"ctx_size": 8, "parallel": 8}),
    ({"n_ctx_slot": 1024, "n_slots": 4}, {"ctx_size": 4096, "parallel": 4}),
    ({"n_ctx_slot": 1024}, {"ctx_size": 1024}),
    ({"n_ctx": 0, "limit_tokens": 0, "n_ctx_slot": 1024, "n_slots": 2}, {"ctx_size": 2048, "parallel": 2}),
    ({"n_ctx": "many", "n_ctx_slot": 1024}, {"ctx_size": 1024}), ({"n_ctx": 0}, {}), ({"n_ctx_slot": "many"}, {}),
    ({"n_ctx": 4096, "n_ctx_slot": 0, "n_slots": 2}, {"ctx_size": 4096, "parallel": 2}),
    ({"n_ctx_slot": 1024, "n_slots": 4, "kv_unified": True}, {"ctx_size": 1024, "parallel": 4, "kv_unified": True}),
    ({"needed": 3000, "n_slots": 2}, {"ctx_size": 16384, "parallel": 2}), ({"needed": 3000}, {"ctx_size": 8192}),
    ({"needed": 1000}, {"ctx_size": 4096}), ({"needed": 2047}, {"ctx_size": 4096}),
    ({"needed": 2048}, {"ctx_size": 8192}),
])  # fmt: skip
def test_logged_numbers_are_options(facts, found):
    assert options(facts) == found
    assert {name: type(value) for name, value in options(facts).items()} == {
        name: type(value) for name, value in found.items()}  # fmt: skip


@pytest.mark.parametrize(("prompts", "sizes"), [
    ([], ()), ([PromptHint(100, None, (80, 96))], (16,)),          # 96 is the mark of 4 tokens
    ([PromptHint(100, None, (88,))], (8,)), ([PromptHint(100, None, (89,))], ()),
    ([PromptHint(9000, None, (804,))], (8192,)), ([PromptHint(9000, None, (796,))], ()),
    ([PromptHint(100, None), PromptHint(200, 64)], (32,)), ([PromptHint(100, 64), PromptHint(200, None)], ()),
    ([PromptHint(100, None), PromptHint(200, 0)], ()), ([PromptHint(200, 64)], ()),
    ([PromptHint(100, None, (80, 72, 64, 56, 72))], (24, 16, 32)),
    ([PromptHint(100, None), PromptHint(100, None), PromptHint(116, 80), PromptHint(9, 80)], (16, 32)),
])  # fmt: skip
def test_checkpoints_and_reused_lengths_hint_at_the_micro_batch(prompts, sizes):
    """A checkpoint lies 4 tokens and a micro-batch before the end of a prompt: multiples of 8 from 8 to 8192."""
    assert hints(prompts) == {"ubatch_size": sizes}


def test_examined_checkpoints_give_a_micro_batch_their_number_and_their_spacing():
    """None of three checkpoints can be restored: a slot that keeps more had an earlier one."""
    examined = PromptHint(48866, 0, checked=[46261, 45237, 43727], is_full=True)
    assert hints([examined]) == {"ubatch_size": (1024,), "ctx_checkpoints": (3,), "checkpoint_min_step": (256,)}
    assert hints([examined._replace(is_full=False)]) == {"ubatch_size": (1024,)}


@pytest.mark.parametrize(("numbers", "shown"), [
    ({"pos_min": 9, "pos_max": 9}, "none"), ({"pos_min": 4, "pos_max": 9}, "window"),
    ({"pos_min": 0, "pos_max": 9}, ""),
    ({"pos_min": 0, "pos_max": 0}, ""), ({"pos_min": 9, "held": 10}, "none"), ({"pos_min": 4, "held": 10}, ""),
    ({"pos_min": 4, "held": 10, "n_swa": 8}, "window"), ({"pos_min": 4, "held": 10, "n_swa": 1}, ""), ({}, ""),
])  # fmt: skip
def test_positions_show_the_kind_of_memory(numbers, shown):
    assert memory(numbers) == shown
