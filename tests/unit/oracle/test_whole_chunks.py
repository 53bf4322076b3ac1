"""Attention within chunks over a whole sequence: a token reads its own chunk up to itself."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.model import grid, make_model
from cachesim.model.rope import Rotation, turns
from cachesim.oracle.whole_chunks import chunked_attention
from cachesim.oracle.whole_parts import attention


@pytest.mark.parametrize(("n", "chunks"), [(7, [(0, 3), (3, 6), (6, 7)]), (6, [(0, 3), (3, 6)]), (2, [(0, 2)])])
def test_each_chunk_is_a_sequence_of_its_own_at_its_own_positions(n, chunks):
    weights = make_model("K3", True).weights.layers[0].attention
    u, turn = np.rint(np.random.default_rng(1).normal(size=(n, 32)) / 4 / grid.UNIT), turns(np.arange(5, 5 + n))
    found = chunked_attention(u, weights, turn, 3)
    parts = [attention(u[a:b], weights, Rotation(turn.cos[a:b], turn.sin[a:b]), 0) for a, b in chunks]
    for name in ("y", "k", "v"):
        assert np.array_equal(getattr(found, name), np.concatenate([getattr(part, name) for part in parts])), name


def test_an_empty_sequence_has_no_rows():
    weights = make_model("K3", True).weights.layers[0].attention
    found = chunked_attention(np.zeros((0, 32)), weights, turns(np.arange(0)), 3)
    assert (found.y.shape, found.k.shape, found.v.shape) == ((0, 64), (0, 2, 16), (0, 2, 16))
