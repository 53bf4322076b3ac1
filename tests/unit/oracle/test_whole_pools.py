"""Pools of rows over a whole sequence: which rows a token reads, and on which digests its choice depends."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.model.chosen_rows import ChoosingWeights
from cachesim.model.hash_mixing import MASK, mix_int
from cachesim.model.rope import turns
from cachesim.model.spec import Layer
from cachesim.oracle.whole_chosen import index_numbers
from cachesim.oracle.whole_pools import pooled_attention, pooled_digests


def weights() -> ChoosingWeights:
    """Return weights under which a token's index queries and key are its first number, in their first dimension."""
    lookup = np.zeros((32, 48))
    lookup[0, [0, 16, 32]] = 1
    return ChoosingWeights(np.zeros((32, 128)), np.zeros((64, 32)), lookup)


def tokens(numbers: list[int]) -> np.ndarray:
    u = np.zeros((len(numbers), 32))
    u[:, 0] = np.array(numbers) * 2.0**26
    return u


def test_a_row_keeps_its_index_key_and_no_index_value():
    u, drawn = tokens([1, 2, 3]), weights()
    found = pooled_attention(u, drawn, turns(np.arange(3)), Layer("P", count=4))
    assert np.array_equal(found.second.k, index_numbers(u, drawn, None).k[:, None]) and found.second.k[:, 0, 0].all()
    assert (found.second.k.shape, found.second.v.shape, found.y.shape) == ((3, 1, 16), (3, 1, 0), (3, 64))
    assert (found.k.shape, found.v.shape, found.inputs, found.ring) == ((3, 2, 16), (3, 2, 16), None, 0)


@pytest.mark.parametrize(("count", "least"), [(4, 2), (8, 3), (12, 9)])
def test_a_token_that_must_choose_depends_on_all_complete_pools(count, least):
    """``least``: the number of complete pools from which on a token has to choose."""
    rows = np.arange(1, 14, dtype=np.uint64)
    sums = [0]
    for pool in (1 + 2 + 3 + 4, 5 + 6 + 7 + 8, 9 + 10 + 11 + 12):
        sums.append((sums[-1] + mix_int(pool)) & MASK)
    found = pooled_digests(rows, rows, Layer("P", count=count), rows)
    complete = [(i + 1) // 4 for i in range(13)]
    assert found.read.tolist() == [sums[n] if n >= least else 0 for n in complete]
    assert (found.second.tolist(), found.ring) == (rows.tolist(), 0)
