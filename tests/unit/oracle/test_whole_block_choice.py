"""Blocks of rows over a whole sequence: which rows a token reads, and on which digests its choice depends."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.model.chosen_rows import ChoosingWeights
from cachesim.model.rope import turns
from cachesim.model.spec import Layer
from cachesim.oracle import whole_block_choice
from cachesim.oracle.whole_block_choice import block_attention, block_digests


def rows_read(monkeypatch, numbers, count):
    """Return the rows that each token reads, for each group of heads. The index key of a token is its number, its
    first query is that number, too, and its second query the negative number; none is rotated."""
    monkeypatch.setattr(whole_block_choice, "read_chosen", lambda q, k, v, choice: [choice(i) for i in range(len(q))])
    lookup = np.zeros((32, 48))
    lookup[0, [0, 16, 32]] = 1, -1, 1
    u = np.zeros((len(numbers), 32))
    u[:, 0] = np.array(numbers) * 2.0**26
    weights = ChoosingWeights(np.zeros((32, 128)), np.zeros((64, 32)), lookup)
    return block_attention(u, weights, turns(np.zeros(len(numbers), int)), Layer("B", count=count)).y


def block(*numbers: int) -> list[int]:
    return [row for number in numbers for row in range(16 * number, 16 * number + 16)]


def test_each_group_reads_the_block_of_its_best_row_and_always_the_last_block(monkeypatch):
    """The best row of a block decides: block 1 has the largest and block 2 the smallest number."""
    numbers = [3] * 16 + [1] * 15 + [4] + [2] * 15 + [1] + [2] * 4
    numbers[40] = -9
    found = rows_read(monkeypatch, numbers, 2)
    tail = range(48, 52)
    assert found[-1] == [[*block(1), *tail], [*block(2), *tail]]
    assert found[0] == [[0]] * 2 and found[15] == [block(0)] * 2 and found[16] == [[*block(0), 16]] * 2
    assert found[31] == [block(0, 1)] * 2, "the last block counts among the blocks that may be read"


@pytest.mark.parametrize(("count", "blocks"), [(1, []), (2, [1]), (3, [0, 1]), (4, [0, 1, 2])])
def test_a_token_reads_one_block_less_than_its_choice_beside_the_last(monkeypatch, count, blocks):
    numbers = [2] * 16 + [3] * 16 + [1] * 16 + [1]
    first, second = rows_read(monkeypatch, numbers, count)[-1]
    assert first == [*block(*blocks), 48]
    assert second == [*block(*[[], [2], [0, 2], [0, 1, 2]][count - 1]), 48], "its query is the negative number"


@pytest.mark.parametrize("count", [1, 2])
def test_a_token_that_must_choose_depends_on_all_index_rows_up_to_itself(count):
    rows = np.arange(1, 41, dtype=np.uint64)
    found = block_digests(rows, rows, Layer("B", count=count), rows)
    assert found.read.tolist() == [0 if i < 16 * count else (i + 1) * (i + 2) // 2 for i in range(40)]
    assert (found.second.tolist(), found.ring) == (rows.tolist(), 0)
