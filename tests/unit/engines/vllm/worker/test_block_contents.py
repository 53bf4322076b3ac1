"""Contents of blocks: rows and states, zeroed, copied and read by the blocks of a request."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.engines.shared.kv_rows import write_rows
from cachesim.engines.vllm.kv_cache_interface import KVCacheGroupSpec
from cachesim.engines.vllm.worker.block_contents import BlockContents, cells_of
from cachesim.model import KVRows, LayerState, parse
from tests.unit.engines.vllm.requests import worker_request


def group(number, block, layers, kind="full"):
    return KVCacheGroupSpec(number, kind, block, 0, False, layers)


def user():
    """Return a request without blocks; its state lies in the first column of each group."""
    request = worker_request()
    request.block_ids, request.cells, request.running_column = [[]], [np.zeros(0, np.int64)], {0: 0, 1: 0}
    return request


@pytest.fixture
def memory():
    """Rows of two layers in blocks of 2 and 4 tokens; a row holds the number of its cell."""
    made = BlockContents(parse("W8 A"), [group(0, 2, (0,)), group(1, 4, (1,))], [], {0: user()})
    for layer in (0, 1):
        write_rows(made.rows, layer, np.arange(12), KVRows(np.arange(12, dtype=np.uint64), None, None))
    return made


@pytest.fixture
def states():
    """Rows of a layer in blocks of 4 tokens, and states in blocks of 4, with the states of lengths 1 to 3."""
    request = user()
    made = BlockContents(parse("GA"), [group(0, 4, (1,)), group(1, 4, (0,), "mamba")], [], {0: request})
    made.learn(request, [[7, 8], [4, 5, 6]], whole=True)
    made.windows[0, 4] = [state(1), state(2)]
    made.matrices[0, 4], made.matrices[0, 5] = state(1), state(2)
    return made


def state(number):
    return LayerState(number, number, None, None)


def digests(memory, blocks, first, stop):
    return [rows.digest.tolist() for rows in memory.read((0, 1), blocks, np.arange(first, stop)).values()]


def test_a_table_names_the_cells_of_each_position():
    assert cells_of([2, 0], 4).tolist() == [8, 9, 10, 11, 0, 1, 2, 3]


def test_positions_are_read_through_the_table(memory):
    assert digests(memory, [2, 1], 1, 4) == [[5, 2, 3], [9, 10, 11]]


def test_a_copy_has_the_rows_of_each_layer(memory):
    memory.change([], [(2, 1)])
    assert digests(memory, [1], 0, 2) == [[4, 5], [8, 9]]


def test_zeroed_blocks_lose_their_rows_alone(memory):
    memory.change([1], [])
    assert digests(memory, [1], 0, 2) == [[0, 0], [0, 0]] and digests(memory, [0], 0, 2) == [[0, 1], [0, 1]]


def test_a_window_is_read_from_its_first_position_and_attention_from_the_start(memory):
    assert (memory.first_read("swa", 20), memory.first_read("base", 20)) == (13, 0)
    assert BlockContents(parse("K8 A"), [], [], {}).first_read("chunk", 20) == 16


def test_blocks_of_a_request_grow_unless_it_starts_again(memory):
    one = memory.users[0]
    memory.learn(one, [[3], [2]], whole=True)
    memory.learn(one, [[1], []], whole=False)
    assert one.block_ids == [[3, 1], [2]] and memory.cells(0, 0, 1, 3).tolist() == [7, 2]
    memory.learn(one, [[5], [6]], whole=True)
    assert one.block_ids == [[5], [6]] and memory.cells(1, 0, 0, 2).tolist() == [24, 25]


def test_a_state_after_drafts_has_the_window_of_the_accepted_token_and_the_matrix_of_a_later_column(states):
    columns = states.users[0].block_ids[1]
    assert states.state_in(0, columns, 0, 0) == state(1)
    assert states.state_in(0, columns, 0, 1) == state(2)
    assert states.state_in(0, columns, 2, 1) is None and states.state_in(0, columns, 0, 2) is None
    states.matrices[0, 6] = state(3)
    assert states.state_in(0, columns, 0, 2) == state(3), "without a window, which has two places"
    states.copy_state(states.users[0], states.states[0], 0, 2, 1)
    assert states.state_in(0, columns, 2, 0) == state(2)


def test_a_copy_has_the_state_and_overwrites_the_old_one(states):
    states.change([], [(4, 6), (9, 5)])
    assert states.matrices[0, 6] == state(1) and (0, 5) not in states.matrices


def test_cells_follow_the_blocks_that_a_request_learns_one_by_one(memory):
    request = memory.users[0]
    memory.learn(request, [[3], [0]], whole=True)
    early = memory.cells(0, 0, 0, 2)
    for block in range(200):
        memory.learn(request, [[block], []], whole=False)
    assert memory.cells(0, 0, 0, 8).tolist() == [6, 7, 0, 1, 2, 3, 4, 5]
    assert memory.cells(0, 0, 398, 500).tolist() == [396, 397, 398, 399]
    assert early.tolist() == [6, 7]
    memory.learn(request, [[5], [1]], whole=True)
    assert memory.cells(0, 0, 0, 8).tolist() == [10, 11]
