"""Kinds of memory that printed positions show."""

from __future__ import annotations

import pytest

from cachesim.engines.shared.log_memory import holds_last_position, lacks_first_positions


@pytest.mark.parametrize("numbers, last, window", [
    ({"pos_min": 99, "pos_max": 99}, True, False),                              # a state
    ({"pos_min": 1, "pos_max": 1}, True, False),
    ({"pos_min": 0, "pos_max": 0}, False, False),                               # a single token
    ({"pos_min": 0, "pos_max": 99}, False, False),                              # rows from the start
    ({"pos_min": -1, "pos_max": -1}, False, False),                             # an empty memory
    ({"pos_min": 60, "pos_max": 99}, False, True),                              # the rows of a window
    ({"pos_min": 99, "held": 100}, True, False),
    ({"pos_min": 0, "held": 1}, False, False),
    ({"pos_min": 60, "held": 100}, False, False),               # the slot may hold more tokens than the memory
    ({"pos_min": 60, "held": 100, "n_swa": 1}, False, False),
    ({"pos_min": 60, "held": 100, "n_swa": 32}, False, True),
    ({"pos_min": 99, "held": 100, "n_swa": 32}, True, False),
    ({"pos_min": 60, "pos_max": "?"}, False, False),
    ({"pos_max": 9}, False, False), ({"pos_min": 1}, False, False), ({"held": 10, "n_swa": 4}, False, False),
    ({"held": 1}, False, False), ({}, False, False),
])  # fmt: skip
def test_positions_show_states_and_windows(numbers, last, window):
    assert (holds_last_position(numbers), lacks_first_positions(numbers)) == (last, window)
