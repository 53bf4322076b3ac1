"""Window and compressed rows over a whole sequence: which rows a token reads, and what a row is made from."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.model.spec import Layer
from cachesim.oracle.whole_compressed import compressed_digests


@pytest.mark.parametrize(("ratio", "reach"), [(2, 2), (3, 3), (4, 8), (5, 5)])
def test_a_row_depends_on_the_tokens_of_its_block_and_with_the_ratio_4_of_the_one_before(ratio, reach):
    layer = Layer("D", 2, 0, ratio)
    inputs = np.arange(1, 6 * ratio, dtype=np.uint64)
    key = np.uint64(77)
    first = compressed_digests(inputs, inputs, layer, key)
    assert (len(first.second), len(first.read)) == (5, 6 * ratio - 1)
    for place in range(len(inputs)):
        other = inputs.copy()
        other[place] += np.uint64(1000)
        changed = compressed_digests(other, other, layer, key)
        differing = [j for j in range(5) if changed.second[j] != first.second[j]]
        assert differing == [j for j in range(5) if (j + 1) * ratio - reach <= place < (j + 1) * ratio]
    assert first.read[: ratio - 1].tolist() == [0] * (ratio - 1) and first.read[ratio - 1] == first.second[0]
    assert first.read[-1] == np.add.reduce(first.second)


def test_equal_blocks_are_different_rows():
    found = compressed_digests(np.zeros(6, np.uint64), np.zeros(6, np.uint64), Layer("D", 2, 0, 2), np.uint64(5))
    assert len(set(found.second.tolist())) == 3
    other = compressed_digests(np.zeros(6, np.uint64), np.zeros(6, np.uint64), Layer("D", 2, 0, 2), np.uint64(6))
    assert not set(found.second.tolist()) & set(other.second.tolist())
