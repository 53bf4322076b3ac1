"""Contents of a cache's arrays: rows and states of our model with their provenance, as structured elements.

A K/V buffer is [B, 1, T, 1] of elements. The element of a token is its digest and its K or V row. A slot of states is
[B, n]: the last inputs of the convolution, oldest first, with their digests, or the recurrent matrix with its rolling
hash. Cache classes move elements without reading them. Zeros are padding, and also the initial state.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Sequence

import numpy as np
import numpy.typing as npt

from cachesim.model import KVRows, LayerState

Array = npt.NDArray[Any]
LABEL: Any = np.dtype(np.uint8)                     # dtype used when nothing is computed


def pack_rows(pieces: Sequence[KVRows]) -> tuple[Array, Array]:
    """Return the elements of keys and of values, (n,) each, for all pieces in order. Both have the same dtype, as in
    the engine: a batch without buffers gives keys and values the dtype of the other batch's keys."""
    first = pieces[0]
    digest = first.digest if len(pieces) == 1 else np.concatenate([piece.digest for piece in pieces])
    kind = _element("digest", None if first.k is None else first.k.shape[1:])
    keys, values = np.zeros(len(digest), kind), np.zeros(len(digest), kind)
    keys["digest"] = values["digest"] = digest
    if first.k is not None:
        keys["x"] = np.concatenate([piece.k for piece in pieces if piece.k is not None])
        values["x"] = np.concatenate([piece.v for piece in pieces if piece.v is not None])
    return keys, values


def unpack_rows(keys: Array, values: Array, which: Array | slice = slice(None)) -> KVRows:
    """Return the rows of (n,) elements, or of a selection of them. Digests are 0 if nothing was computed."""
    if keys.dtype.names is None:
        return KVRows(np.zeros(len(keys[which]), np.uint64), None, None)
    exact = "x" in keys.dtype.names
    return KVRows(keys["digest"][which], keys["x"][which] if exact else None, values["x"][which] if exact else None)


def pack_states(states: Sequence[LayerState], slots: int) -> list[Array]:
    """Return the slots of a batch, with a row for each state."""
    first = states[0]
    inputs = np.zeros((len(states), len(first.conv)),
                      _element("digest", () if first.conv_x is None else first.conv_x.shape[1:]))
    matrix = np.zeros((len(states), 1), _element("hash", () if first.h is None else first.h.shape))
    for row, state in enumerate(states):
        inputs["digest"][row], matrix["hash"][row, 0] = state.conv, np.uint64(state.hash)
        if state.conv_x is not None:
            inputs["x"][row], matrix["x"][row, 0] = state.conv_x, state.h
    return [inputs, matrix][:slots]


@lru_cache(maxsize=64)
def _element(label: str, shape: tuple[int, ...] | None) -> np.dtype[Any]:
    """Return the dtype of an element: a label, and numbers of this shape unless ``shape`` is None."""
    return np.dtype([(label, np.uint64)] if shape is None else [(label, np.uint64), ("x", np.float64, shape)])


def unpack_state(slots: Sequence[Array | None], row: int, exact: bool) -> LayerState | None:
    """Return the state of a row of a batch; None if no token was absorbed yet or nothing is computed."""
    inputs = slots[0]
    if inputs is None or inputs.dtype.names is None:
        return None
    matrix = slots[1] if len(slots) > 1 else None
    number = 0 if matrix is None else int(matrix["hash"][row, 0])
    if not exact:
        return LayerState(inputs["digest"][row], number, None, None)
    h = np.zeros((0, 0, 0)) if matrix is None else matrix["x"][row, 0]
    return LayerState(inputs["digest"][row], number, inputs["x"][row], h)
