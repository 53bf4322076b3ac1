"""Stored objects and their rows, as judging inspects them."""

import numpy as np
import pytest

from cachesim.engines.inspection import RowsPart, StatePart, StoredObject
from cachesim.model import KVRows


def rows(*digests):
    return KVRows(np.array(digests, np.uint64), None, None)


@pytest.mark.parametrize(("layers", "every", "index", "compressed"), [
    ((0, 2), 1, False, False), ((-1,), 1, True, False), ((0, -1), 1, True, False), ((-1,), 4, False, True),
    ((0,), 2, False, True), ((), 1, False, False),
])  # fmt: skip
def test_index_rows_have_negative_layers_and_compressed_rows_stand_for_several_tokens(layers, every, index, compressed):
    part = RowsPart(0, np.arange(2), {layer: rows(1, 2) for layer in layers}, every)
    assert (part.is_index, part.is_compressed) == (index, compressed)


def test_a_part_of_a_conversation_is_as_long_as_what_it_lets_a_request_reuse():
    whole = StoredObject("entry", 0, (1, 2, 3, 4), 3, (), None)
    assert whole.length == 4 and whole._replace(start=2).length == 3


def test_a_copy_keeps_its_contents_when_the_memory_changes():
    live, states = RowsPart(0, np.arange(2), {0: rows(5, 6)}), {1: "state"}
    copy = StoredObject("slot", 0, (1, 2), 2, (live,), StatePart(1, states)).copy()
    live.pos[0], live.rows[0].digest[0] = 9, 9
    states[1] = "later"
    assert (copy.rows[0].pos.tolist(), copy.rows[0].rows[0].digest.tolist()) == ([0, 1], [5, 6])
    assert copy.state == StatePart(1, {1: "state"})
    assert StoredObject("slot", 0, (), 0, (), None).copy().state is None
