"""Blocks of rows over a whole sequence: which rows a token reads, and on which digests its choice depends."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.model.spec import Layer
from cachesim.oracle.whole_block_choice import block_digests


@pytest.mark.parametrize("count", [1, 2])
def test_a_token_that_must_choose_depends_on_all_index_rows_up_to_itself(count):
    rows = np.arange(1, 41, dtype=np.uint64)
    found = block_digests(rows, rows, Layer("B", count=count), rows)
    assert found.read.tolist() == [0 if i < 16 * count else (i + 1) * (i + 2) // 2 for i in range(40)]
    assert (found.second.tolist(), found.ring) == (rows.tolist(), 0)
