"""Rows in blocks: zeroed, copied and read by the blocks of a table."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.engines.shared.block_rows import BlockRows, cells_of
from cachesim.engines.shared.kv_rows import write_rows
from cachesim.model import Rows, parse


@pytest.fixture
def memory():
    """Rows of two layers in blocks of 2 and 4 tokens; a row holds the number of its cell."""
    made = BlockRows(parse("W8 A"), {0: 2, 1: 4})
    for layer in (0, 1):
        write_rows(made.rows, layer, np.arange(12), Rows(np.arange(12, dtype=np.uint64), None, None))
    return made


def digests(memory, blocks, first, stop):
    return [rows.digest.tolist() for rows in memory.read((0, 1), blocks, np.arange(first, stop)).values()]


def test_a_table_names_the_cells_of_each_position():
    assert cells_of([2, 0], 4).tolist() == [8, 9, 10, 11, 0, 1, 2, 3]


def test_positions_are_read_through_the_table(memory):
    assert digests(memory, [2, 1], 1, 4) == [[5, 2, 3], [9, 10, 11]]


def test_a_copy_has_the_rows_of_each_layer(memory):
    memory.copy(2, 1)
    assert digests(memory, [1], 0, 2) == [[4, 5], [8, 9]]


def test_zeroed_blocks_lose_their_rows_alone(memory):
    memory.zero([1])
    assert digests(memory, [1], 0, 2) == [[0, 0], [0, 0]] and digests(memory, [0], 0, 2) == [[0, 1], [0, 1]]


def test_a_window_is_read_from_its_first_position_and_attention_from_the_start(memory):
    assert (memory.first_read("swa", 20), memory.first_read("base", 20)) == (13, 0)
    assert BlockRows(parse("K8 A"), {}).first_read("chunk", 20) == 16
