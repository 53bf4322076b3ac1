"""Rules of the builds before b6160, one decision at a time."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.engines.llama_cpp.memory.position_sets import PositionSets
from cachesim.engines.llama_cpp.rules import before_checkpoints as old
from cachesim.engines.llama_cpp.rules import server_of_2023
from cachesim.engines.llama_cpp.rules.slot_selection import SlotFacts
from tests.unit.engines.llama_cpp.talk import Talk, word


@pytest.mark.parametrize(("n_tokens", "n_keep", "cut"), [
    (63, 0, None), (64, 0, (0, 32)), (100, 0, (0, 64)), (100, 10, (10, 54)), (70, -1, (60, 8)),
])
def test_a_long_prompt_loses_blocks_of_half_the_context_after_n_keep(n_tokens, n_keep, cut):
    assert old.cut_long(n_tokens, 64, n_keep, True).value == cut


def test_a_long_prompt_is_refused_without_context_shift():
    assert "exceeds the available context size" in old.cut_long(64, 64, 0, False).value


def test_the_longest_common_stretch_may_lie_anywhere():
    assert old.like_by_substring([1, 2, 3, 4], [9, 2, 3, 9, 4]).value == 2
    assert old.like_by_substring([], [1]).value == 0


def test_of_slots_released_at_the_same_time_the_lowest_id_is_selected():
    slots = [SlotFacts(0, True, 0, 0, -1), SlotFacts(1, False, 0, 0, -1), SlotFacts(2, False, 0, 0, -1)]
    assert old.slot_select_00(slots, 5, -1, 0.5).value.slot == 1
    assert old.slot_select_named(slots, 5, 0, 0.5).value.slot == 1, "a busy named slot is replaced by another"


def test_the_second_block_of_an_open_move_is_where_the_list_says_not_where_the_memory_has_it():
    moved = old.reuse_open([*"abcdefghj"], [*"abefhj"], 2, 1).value
    assert [(one.n, one.c0, one.p0, one.open) for one in moved] == [(2, 4, 2, True), (2, 7, 4, True)]


@pytest.mark.parametrize(("n_predict", "sampled"), [(1, 4), (2, 5), (3, 4), (8, 9)])
def test_the_first_servers_sample_one_token_more_and_two_more_if_two_are_wanted(n_predict, sampled):
    n_gen = next(n for n in range(1, 99) if server_of_2023.end_after_three(n, n_predict, 0, 99, True).value[0])
    assert n_gen == sampled


def test_a_set_loses_a_position_that_two_cells_have_for_a_moment():
    sets = PositionSets(1)
    sets.move(0, [5, 4], [5, 4], -1)            # the newest token lies in the first cell
    assert sets.known_positions(0, np.array([4, 3])).tolist() == [3]
    sets.change(0, [4])
    assert sets.known_positions(0, np.array([4, 3])).tolist() == [4, 3]


def test_a_slot_without_cache_prompt_lists_zeros_of_its_earlier_batches():
    talk = Talk("A", "b4579", batch_size=64)
    talk.ask(word("A", 100), cache_prompt=False)
    assert talk.server.core.slots[0].tokens == [0] * 64


def test_a_context_that_is_full_ends_with_an_error_where_it_is_not_shifted():
    talk = Talk("A", "b4579", ctx_size=64, context_shift=False)
    assert talk.ask(word("A", 60), 20).error == "context shift is disabled"
