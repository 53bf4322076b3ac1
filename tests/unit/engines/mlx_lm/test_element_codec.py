"""Rows and states of the model as elements of arrays, and back."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.engines.mlx_lm.element_codec import pack_rows, pack_states, unpack_rows, unpack_state
from cachesim.model import KVRows, LayerState


def rows(*digests, exact=False):
    """Return rows of these digests; their numbers are the digest, negative in V rows."""
    digest = np.array(digests, np.uint64)
    numbers = np.repeat(np.array(digests, float), 4).reshape(len(digests), 2, 2)
    return KVRows(digest, numbers, -numbers) if exact else KVRows(digest, None, None)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("pieces", [[(1, 2, 3)], [(1,), (2, 3)], [(1, 2), (), (3,)]])
def test_rows_are_packed_in_order_and_unpacked(exact, pieces):
    keys, values = pack_rows([rows(*piece, exact=exact) for piece in pieces])
    assert keys.dtype == values.dtype and keys.dtype.names == (("digest", "x") if exact else ("digest",))
    found, expected = unpack_rows(keys, values), rows(1, 2, 3, exact=exact)
    assert found.digest.tolist() == [1, 2, 3]
    if exact:
        assert found.k.tolist() == expected.k.tolist() and found.v.tolist() == expected.v.tolist()
    else:
        assert (found.k, found.v) == (None, None)


def test_some_rows_are_unpacked():
    keys, values = pack_rows([rows(4, 5, 6, exact=True)])
    for which, digests in ((slice(1, None), [5, 6]), (np.array([2, 0]), [6, 4]), (np.array([False, True, False]), [5])):
        found = unpack_rows(keys, values, which)
        assert found.digest.tolist() == digests and found.k[:, 0, 0].tolist() == digests
        assert found.v[:, 1, 1].tolist() == [-digest for digest in digests]


def test_elements_without_a_label_of_their_own_have_no_digest():
    plain = np.ones(4, np.uint8)
    found = unpack_rows(plain, plain, slice(1, 3))
    assert (found.digest.tolist(), found.digest.dtype, found.k, found.v) == ([0, 0], np.uint64, None, None)


def state(n, exact=False):
    """Return a state with two inputs of the convolution, and the hash ``n``."""
    inputs = np.array([n, n + 1], np.uint64)
    if not exact:
        return LayerState(inputs, n, None, None)
    return LayerState(inputs, n, np.array([[n, 1.0], [2.0, n]]), np.full((1, 2, 2), float(n)))


@pytest.mark.parametrize("exact", [False, True])
def test_states_of_a_batch_have_a_row_each(exact):
    slots = pack_states([state(7, exact), state(9, exact)], 2)
    assert [slot.shape for slot in slots] == [(2, 2), (2, 1)]
    for row, n in enumerate((7, 9)):
        found = unpack_state(slots, row, exact)
        assert (found.conv.tolist(), found.hash) == ([n, n + 1], n)
        if exact:
            assert found.conv_x.tolist() == [[n, 1.0], [2.0, n]] and found.h.tolist() == [[[n, n], [n, n]]]
        else:
            assert (found.conv_x, found.h) == (None, None)
    assert unpack_state(slots, 1, False).h is None


@pytest.mark.parametrize("exact", [False, True])
def test_a_single_slot_has_no_matrix(exact):
    slots = pack_states([state(7, exact)], 1)
    assert len(slots) == 1
    found = unpack_state(slots, 0, exact)
    assert (found.conv.tolist(), found.hash) == ([7, 8], 0)
    assert (found.h.shape if exact else found.h) == ((0, 0, 0) if exact else None)
    assert unpack_state([slots[0], None], 0, exact).hash == 0


def test_nothing_absorbed_or_nothing_computed_is_no_state():
    assert unpack_state([None, None], 0, True) is None
    assert unpack_state([np.ones((1, 3), np.uint8)], 0, False) is None
