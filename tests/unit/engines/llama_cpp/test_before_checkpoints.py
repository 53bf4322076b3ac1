"""Rules of the builds before b6160, one decision at a time."""

from __future__ import annotations

import numpy as np

from cachesim.engines.llama_cpp.memory.position_sets import PositionSets
from tests.unit.engines.llama_cpp.talk import Talk, word


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
