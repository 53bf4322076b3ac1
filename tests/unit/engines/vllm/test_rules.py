"""Rules about blocks, steps and chunks at the boundaries of their arguments: every value is written out."""

from __future__ import annotations

import pytest

from cachesim.engines.rule import Source
from cachesim.engines.vllm.rules import blocks, schedule
from cachesim.engines.vllm.rules.blocks import (
    DENSE,
    Admission,
    BlockNeed,
    NewTokens,
    Pages,
    PublicationMask,
    PublishableBlocks,
)
from cachesim.engines.vllm.rules.schedule import (
    ChunkSplit,
    Drafter,
    DraftPadding,
    OutputInFlight,
    PaddedRequest,
    Speculation,
    StaleOutput,
    WaitingQueue,
)
from cachesim.engines.vllm.rules.sources import file

NEED = BlockNeed(
    num_tokens=33,
    block_size=8,
    num_req_blocks=0,
    num_new_computed_blocks=0,
    num_evictable_blocks=0,
    num_skipped_blocks=0,
    is_new_request=True,
    has_partial_hit=False,
    max_admission_blocks_per_request=0,
)
MASK = PublicationMask(
    start_block=0,
    end_block=6,
    block_size=8,
    alignment_tokens=16,
    retention_interval=0,
    reachable_boundaries=(31,),
    sliding_window=16,
    use_eagle=False,
)
NEW = NewTokens(
    num_spec_tokens=0,
    placeholders_before=0,
    placeholders_after=2,
    num_in_flight_tokens=3,
    async_scheduling=False,
)
PAD = DraftPadding(
    num_new_tokens=1,
    num_spec_tokens=2,
    prefill_scheduled=False,
    num_computed_tokens=5,
    has_running_reqs=False,
    fits_model_len=True,
    max_num_scheduled_tokens=3,
)
PADDED = PaddedRequest(num_new_tokens=3, num_computed_tokens=5, token_budget=3, max_model_len=8)
CHUNK = ChunkSplit(
    start=0,
    end=20,
    prefill_end=40,
    num_prompt_tokens=40,
    block_size=8,
    max_prefill_tokens=64,
    last_cache_position=32,
    tail_boundary=36,
    use_internal_checkpoint=True,
    junction=0,
    mamba_shared_prefix_checkpoint=True,
)
F, T = False, True


@pytest.mark.parametrize(("found", "value"), [
    (blocks.attention_block(Pages(attn_page_size_1_token=4, mamba_page_size=64, block_size=8)), 16),
    (blocks.attention_block(Pages(attn_page_size_1_token=4, mamba_page_size=65, block_size=8)), 32),
    (blocks.attention_block(Pages(attn_page_size_1_token=4, mamba_page_size=4, block_size=24)), 32),
    (blocks.attention_block(Pages(attn_page_size_1_token=4, mamba_page_size=64, block_size=16,
                                  mamba_prefill_checkpoint_alignment=24)), 48),
    (blocks.attention_block(Pages(attn_page_size_1_token=1, mamba_page_size=1, block_size=40)), 48),
    (blocks.page_block(8, 4, 12), 24), (blocks.page_block(8, 5, 12), 8), (blocks.page_block(8, 12, 12), 8),
    (blocks.hash_block_tokens(-1, (5, 6), "a", "s"), (-1, "a", "s", 5, 6)),
    (blocks.hash_block_tokens(0, (5, 6), "", "s"), (0, "", "", 5, 6)),
    (blocks.evict(3, 16).value, 3), (blocks.evict(3, 16).because, {"tokens": 16}), (blocks.free_side(T), "back"),
    (blocks.free_side(F), "front"), (blocks.free_side_uncached(F), "front"),
    (blocks.free_side_uncached_back(F), "back"),
    (blocks.admission_cap(Admission("swa", 8, 9, 100, 4)), 5),
    (blocks.admission_cap(Admission("swa", 8, 10, 100, 4)), 6),
    (blocks.admission_cap(Admission("swa", 8, 99, 16, 4)), 5),
    (blocks.admission_cap(Admission("full", 8, 9, 99, 4)), 0),
    (blocks.admission_cap(Admission("chunked", 8, 8, 99, 4)), 4),
    (blocks.admission_cap(Admission("chunked", 8, 9, 99, 4)), 5),
    (blocks.skipped("swa", 8, 7), 0), (blocks.skipped("swa", 8, 8), 1), (blocks.skipped("swa", 8, 20), 13),
    (blocks.skipped("chunked", 8, 15), 8), (blocks.skipped("chunked", 8, 16), 16), (blocks.skipped("mamba", 0, 16), 15),
    (blocks.skipped("full", 0, 16), 0),
    (blocks.reference_gap(17, 40, 8, 8), (3, 4)), (blocks.reference_gap(16, 20, 8, 8), (2, 2)),
    (blocks.reserve(0.1, 25, T, T), 2), (blocks.reserve(0.1, 25, F, T), 0), (blocks.reserve(0.1, 25, T, F), 0),
])  # fmt: skip
def test_sizes_and_storage_of_blocks(found, value):
    assert found == value


@pytest.mark.parametrize(("ask", "value"), [
    (NEED, 5),
    (NEED._replace(num_tokens=32), 4),
    (NEED._replace(max_admission_blocks_per_request=3), 3),
    (NEED._replace(max_admission_blocks_per_request=6), 5),
    (NEED._replace(is_new_request=F, num_req_blocks=2), 3),
    (NEED._replace(is_new_request=F, num_req_blocks=6), 0),
    (NEED._replace(num_new_computed_blocks=2), 3),
    (NEED._replace(num_new_computed_blocks=2, num_evictable_blocks=1), 4),
    (NEED._replace(num_new_computed_blocks=2, num_evictable_blocks=2, has_partial_hit=T), 6),
    (NEED._replace(num_skipped_blocks=3, num_new_computed_blocks=2), 2),
    (NEED._replace(num_skipped_blocks=1, num_new_computed_blocks=2, num_req_blocks=1), 2),
    (NEED._replace(num_skipped_blocks=9), 0),
])  # fmt: skip
def test_free_blocks_that_a_request_needs(ask, value):
    assert blocks.blocks_needed(ask) == value


@pytest.mark.parametrize(("ask", "value", "single_group"), [
    (PublishableBlocks(39, 16, 8, F, 0), 32, 39), (PublishableBlocks(39, 16, 8, T, 0), 39, 39),
    (PublishableBlocks(47, 16, 8, T, 0), 40, 47), (PublishableBlocks(47, 16, 8, T, 2), 40, 45),
    (PublishableBlocks(33, 16, 8, T, 2), 24, 31), (PublishableBlocks(15, 16, 8, T, 0), 0, 15),
    (PublishableBlocks(1, 16, 8, F, 2), 0, 0), (PublishableBlocks(16, 16, 8, T, 0), 16, 16),
])  # fmt: skip
def test_tokens_whose_blocks_can_be_found(ask, value, single_group):
    assert (blocks.publishable(ask), blocks.publishable_one(ask)) == (value, single_group)


@pytest.mark.parametrize(("change", "window", "states"), [
    ({}, [T, T, F, F, F, F], [F, T, F, F, F, F]), ({"sliding_window": 9}, [F, T, F, F, F, F], [F, T, F, F, F, F]),
    ({"sliding_window": 10}, [T, T, F, F, F, F], [F, T, F, F, F, F]),
    ({"sliding_window": 2}, [F, T, F, F, F, F], [F, T, F, F, F, F]),
    ({"sliding_window": 2, "reachable_boundaries": (32,)}, [F, F, F, T, F, F], [F, F, F, T, F, F]),
    ({"sliding_window": 2, "use_eagle": T}, [F, T, T, F, F, F], [F, T, F, F, F, F]),
    ({"sliding_window": 2, "retention_interval": 32}, [F, T, F, T, F, F], [F, T, F, T, F, F]),
    ({"sliding_window": 2, "retention_interval": 8}, None, None),
    ({"sliding_window": 2, "retention_interval": DENSE}, [F, T, F, T, F, T], None),
    ({"sliding_window": 2, "start_block": 1, "end_block": 3, "reachable_boundaries": (16, 47)}, [T, F], [T, F]),
    ({"alignment_tokens": 12}, None, [F, F, T, F, F, F]),
    ({"sliding_window": 2, "alignment_tokens": 24, "use_eagle": T, "retention_interval": DENSE,
      "reachable_boundaries": (3,)}, [F, F, T, T, F, T], None),
    ({"sliding_window": 2, "alignment_tokens": 24, "use_eagle": T, "reachable_boundaries": (3,)}, [T, F, F, F, F, F],
     [F, F, F, F, F, F]),
])  # fmt: skip
def test_blocks_that_a_group_publishes(change, window, states):
    ask = MASK._replace(**change)
    assert (blocks.keep_window(ask), blocks.keep_states(ask), blocks.keep_all(ask)) == (window, states, None)


@pytest.mark.parametrize(("found", "value"), [
    (blocks.boundaries(40, 8, F), [39]), (blocks.boundaries(40, 8, T), [24, 32]), (blocks.boundaries(41, 8, T), [32]),
    (blocks.boundaries(7, 8, T), [0]),
    (blocks.boundary_of_prompt(40, 8, T), [39]), (blocks.mask_by_hits(8, 24), 8), (blocks.mask_by_step(8, 24), 24),
    (blocks.junction_ends(24, 8, T), [24, 16]), (blocks.junction_ends(24, 8, F), [24]),
    (blocks.junction_only(24, 8, T), [24]),
    (blocks.partial_rows(17, 4, 9, F), 16), (blocks.partial_rows(16, 4, 9, F), 12),
    (blocks.partial_rows(16, 4, 9, T), 16),
    (blocks.partial_rows(17, 4, 3, F), 12), (blocks.partial_rows_end(16, 4, 3, F), 16),
    (blocks.partial_rows_end(19, 4, 3, F), 16),
    (blocks.publish_again(NEW), None), (blocks.publish_again(NEW._replace(num_spec_tokens=1)), 3),
    (blocks.publish_again(NEW._replace(placeholders_before=1)), 3),
    (blocks.publish_overlapped(NEW), None), (blocks.publish_overlapped(NEW._replace(async_scheduling=T)), 2),
])  # fmt: skip
def test_lengths_at_which_blocks_are_found(found, value):
    assert found == value


@pytest.mark.parametrize(("found", "value"), [
    (schedule.scheduler_block([4, 6]), 12), (schedule.chunk_block([8, 4], [8]), 4),
    (schedule.chunk_block_of_states([8, 4], [8]), 8), (schedule.chunk_block_of_states([8, 4], []), 4),
    (schedule.hash_block_size([8, 12], 0, T), 4), (schedule.hash_block_size([8, 12], 2, T), 2),
    (schedule.hash_block_size([8, 12], 2, F), 24), (schedule.hash_block_size([8], 2, T), 8),
    (schedule.partial_hits([8], [4], 4, F), T), (schedule.partial_hits([4], [4], 4, F), F),
    (schedule.partial_hits([4], [4], 4, T), T), (schedule.partial_hits([8], [8], 4, F), F),
    (schedule.partial_hits([], [], 4, T), F), (schedule.partial_hits([8, 4], [], 4, F), T),
    (schedule.partial_hits_alone([8], [4], 4, F), T), (schedule.partial_hits_alone([8], [4], 4, T), F),
    (schedule.partial_hits_any([8], [8], 4, F), T), (schedule.partial_hits_any([4], [8], 4, F), F),
    (schedule.hash_beside_states([8, 8], 4), T), (schedule.hash_beside_smallest([8, 8], 4), F),
    (schedule.hash_beside_smallest([4], 4), T),
    (schedule.step_back(F), T), (schedule.step_back_if_scheduled(F), F), (schedule.step_back_if_scheduled(T), T),
    (schedule.stop_for_partial_hits(T, F), T), (schedule.stop_for_partial_hits(F, T), F),
    (schedule.stop_for_finer_hashes(F, T), T), (schedule.stop_for_finer_hashes(T, F), F),
    (schedule.prefill_cap(9, 1), 0), (schedule.prefill_cap(9, 2), 9), (schedule.prefill_cap_always(9, 1), 9),
    (schedule.preempt("fcfs", [(9, 1), (0, 2)], 3, 1).value, 1),
    (schedule.preempt("fcfs", [(9, 1), (0, 2)], 3, 1).because, {"running": 2, "needed": 3, "free": 1}),
    (schedule.preempt("priority", [(9, 1), (0, 2)], 3, 1).value, 0),
    (schedule.admit(0, 5, 1, 6).value, T),
    (schedule.admit(0, 5, 1, 6).because, {"needed": 6, "free": 6}), (schedule.admit(0, 5, 1, 5).value, F),
    (schedule.admit(7, 5, 0, 6).value, F), (schedule.admit(7, 5, 0, 6).because, {"needed": 7, "free": 6}),
    (schedule.goes_on("priority"), T), (schedule.goes_on("fcfs"), F), (schedule.stops("priority"), F),
    (schedule.passes_over(), T), (schedule.waits(), F), (schedule.reset_preempts(T), T),
    (schedule.reset_preempts(F), F),
    (schedule.pad_drafts(PAD), T), (schedule.pad_drafts(PAD._replace(num_spec_tokens=0)), F),
    (schedule.pad_drafts(PAD._replace(num_new_tokens=2)), F),
    (schedule.pad_drafts(PAD._replace(prefill_scheduled=T)), F),
    (schedule.pad_drafts(PAD._replace(num_computed_tokens=0)), F),
    (schedule.pad_drafts(PAD._replace(num_computed_tokens=0, has_running_reqs=T)), T),
    (schedule.pad_drafts_beside(PAD), F), (schedule.pad_drafts_beside(PAD._replace(has_running_reqs=T)), T),
    (schedule.pad_any(PAD._replace(has_running_reqs=T, fits_model_len=F)), T),
    (schedule.padded_fits(PADDED), T), (schedule.padded_fits(PADDED._replace(token_budget=2)), F),
    (schedule.padded_fits(PADDED._replace(max_model_len=7)), T),
    (schedule.padded_fits_length(PADDED), T), (schedule.padded_fits_length(PADDED._replace(max_model_len=7)), F),
    (schedule.padded_fits_length(PADDED._replace(token_budget=2)), F),
    (schedule.pad_drafts(PAD._replace(fits_model_len=F)), F),
    (schedule.pad_fitting_drafts(PAD), T), (schedule.pad_fitting_drafts(PAD._replace(max_num_scheduled_tokens=2)), F),
    (schedule.pad_fitting_drafts(PAD._replace(fits_model_len=F)), F),
    (schedule.pad_drafts(PAD._replace(max_num_scheduled_tokens=2)), T),
    (schedule.before_image(4, 9, 6, 2), 2), (schedule.before_image(4, 1, 6, 2), 1),
    (schedule.before_image(6, 9, 6, 2), 0),
    (schedule.before_image_ahead(4, 9, 10, 2), 4), (schedule.before_image_ahead(4, 1, 10, 0), 6),
    (schedule.before_image_ahead(4, 9, 5, 2), 0), (schedule.before_image_ahead(0, 9, 3, 2), 1),
    (schedule.keep_image(3), 0), (schedule.keep_image_ahead(3), 3),
    (schedule.uncount_extra(2), 2), (schedule.count_extra(2), 0),
    (schedule.leave_lookahead(0, 9, 3), 9), (schedule.leave_lookahead(1, 9, 3), 7),
    (schedule.leave_lookahead(3, 9, 3), 9),
    (schedule.leave_lookahead(1, 2, 3), 0), (schedule.leave_lookahead_if_possible(1, 2, 3), 2),
    (schedule.leave_lookahead_if_possible(1, 9, 3), 7), (schedule.leave_lookahead_if_possible(3, 9, 3), 9),
    (schedule.surely_ends(1, 9, 10), T), (schedule.surely_ends(1, 8, 10), F), (schedule.surely_ends(2, 10, 10), T),
    (schedule.surely_ends(0, 90, 10), F), (schedule.surely_ends(3, 10, 10), F),
])  # fmt: skip
def test_order_and_sizes_of_steps(found, value):
    assert found == value


@pytest.mark.parametrize(("policy", "order", "held", "skipped", "next_one", "next_older"), [
    ("fcfs", [(1, 5), (0, 6)], [F, F], [F, F], 0, 0), ("priority", [(1, 5), (0, 6)], [F, F], [F, F], 1, 1),
    ("fcfs", [(1, 5), (0, 6)], [F, T], [F, F], 1, 0), ("fcfs", [(1, 5), (0, 6)], [T, F], [F, T], 0, 1),
    ("priority", [(1, 5), (0, 6), (0, 4)], [T, T, F], [F, F, F], 1, 2),
    ("priority", [(1, 5), (0, 6), (0, 4)], [F, F, F], [T, F, F], 2, 2),
])  # fmt: skip
def test_the_waiting_request_that_is_next(policy, order, held, skipped, next_one, next_older):
    queue = WaitingQueue(order=order, holds_blocks=held, is_skipped=skipped)
    found = schedule.next_waiting(policy, queue)
    assert (found.value, found.because) == (next_one, {"waiting": len(order)})
    assert schedule.next_skipped(policy, queue).value == next_older


@pytest.mark.parametrize(("ask", "value"), [
    (Drafter("ngram", 3, F, T, F), Speculation(0, 0, 0, F)),
    (Drafter("draft_model", 3, F, T, F), Speculation(3, 0, 0, F)),
    (Drafter("eagle", 3, F, T, F), Speculation(3, 1, 1, F)), (Drafter("eagle", 3, T, T, F), Speculation(3, 3, 3, F)),
    (Drafter("eagle", 3, T, F, F), Speculation(3, 3, 0, T)), (Drafter("eagle", 3, F, T, T), Speculation(3, 1, 0, T)),
    (Drafter("eagle", 3, F, T, F, T), Speculation(3, 1, 0, F)),
])  # fmt: skip
def test_what_drafts_need(ask, value):
    assert schedule.speculation(ask) == value
    dropped = value if ask.method not in schedule.EAGLE or not value.num_hash_lookahead_tokens else \
        value._replace(num_hash_lookahead_tokens=0, use_eagle_block_drop=T)
    assert schedule.speculation_drops(ask) == dropped


@pytest.mark.parametrize(("change", "whole", "in_block", "alone"), [
    ({}, 16, 16, 16), ({"end": 40}, 40, 40, 32), ({"start": 40, "end": 41}, 1, 1, 1), ({"end": 7}, 0, 0, 0),
    ({"end": 7, "max_prefill_tokens": 7}, 7, 7, 0),
    ({"end": 7, "max_prefill_tokens": 8}, 0, 0, 0),
    ({"junction": 10}, 10, 10, 16),
    ({"junction": 10, "mamba_shared_prefix_checkpoint": F}, 8, 8, 16),
    ({"junction": 41, "num_prompt_tokens": 40, "end": 40}, 40, 40, 32),
    ({"start": 3}, 13, 5, 16), ({"start": 8, "end": 40, "use_internal_checkpoint": F}, 24, 24, 24),
    ({"start": 8, "end": 40, "use_internal_checkpoint": F, "last_cache_position": 8}, 28, 28, 32),
    ({"start": 3, "end": 40, "use_internal_checkpoint": F}, 5, 5, 29),
    ({"start": 32, "end": 40, "use_internal_checkpoint": F}, 4, 4, 8),
    ({"start": 32, "end": 40, "use_internal_checkpoint": F, "tail_boundary": 40}, 8, 8, 8),
    ({"start": 40, "end": 51, "last_cache_position": 64}, 11, 11, 11),
    ({"start": 40, "end": 51, "use_internal_checkpoint": F}, 11, 11, 11),
    ({"start": 39, "end": 51, "prefill_end": 39}, 12, 12, 12),
    ({"start": 3, "end": 32, "last_cache_position": 32}, 29, 5, 29),
    ({"start": 30, "end": 51, "junction": 36, "num_prompt_tokens": 36, "prefill_end": 45}, 6, 2, 2),
    ({"end": 20, "junction": 20, "mamba_shared_prefix_checkpoint": F, "prefill_end": 20, "num_prompt_tokens": 20},
     20, 20, 16),
    ({"start": 40, "end": 51, "prefill_end": 51, "num_prompt_tokens": 44, "tail_boundary": 44,
      "use_internal_checkpoint": F, "last_cache_position": 40}, 11, 11, 11),
    ({"start": 40, "end": 51, "prefill_end": 51, "num_prompt_tokens": 45, "tail_boundary": 44,
      "use_internal_checkpoint": F, "last_cache_position": 40}, 4, 4, 11),
    ({"start": 39, "end": 51, "last_cache_position": 64}, 12, 1, 8),
    ({"start": 3, "end": 5, "max_prefill_tokens": 7}, 2, 2, 0),
    ({"start": 3, "end": 9, "max_prefill_tokens": 7}, 5, 5, 0),
    ({"junction": 16, "end": 20}, 16, 16, 16), ({"start": 16, "junction": 16, "end": 32}, 16, 16, 16),
])  # fmt: skip
def test_chunks_of_requests_with_states(change, whole, in_block, alone):
    ask = CHUNK._replace(**change)
    found = schedule.split_states(ask), schedule.split_in_block(ask), schedule.split_alone(ask)
    assert [one.value for one in found] == [whole, in_block, alone]
    assert found[0].because["end"] == ask.start + whole


@pytest.mark.parametrize(("change", "tokens"), [
    ({"junction": 16}, 16), ({"junction": 19}, 16), ({"junction": 8}, 8), ({"junction": 7}, 32), ({"junction": 32}, 32),
    ({"junction": 16, "is_running": T}, 32), ({"start": 8, "junction": 24}, 16),
])  # fmt: skip
def test_until_0_25_1_only_the_first_chunk_ends_where_prompts_parted(change, tokens):
    assert schedule.split_first(CHUNK._replace(end=40, **change)).value == tokens


def test_until_0_26_0_a_preempted_request_keeps_places_and_a_reset_one_drops_as_many_results():
    asked = OutputInFlight(num_in_flight_tokens=5, num_output_placeholders=2, num_discarded_outputs=1, is_reset=F)
    assert schedule.stale_by_places(asked) == StaleOutput(0, 2, 1)
    assert schedule.stale_by_places(asked._replace(is_reset=T)) == StaleOutput(0, 0, 2)
    assert schedule.stale_by_tokens(asked) == StaleOutput(5, 0, 0)


def test_a_rule_names_its_file_its_release_and_its_number_in_the_specification():
    source = file("vllm/x.py")
    assert source("f", spec="V-1") == Source("vllm-project/vllm", "vllm/x.py", "f", "0.33.0", note="specification V-1")
    assert source("f", "0.32.0") == Source("vllm-project/vllm", "vllm/x.py", "f", "0.32.0", note="")
