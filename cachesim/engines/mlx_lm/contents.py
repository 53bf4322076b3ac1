"""What lies in a cache's arrays? Rows and states of our model, each with its provenance, as structured elements.

A K/V buffer is [B, 1, T, 1] of one element per token: its digest and its K or V row. A
slot of states is [B, n]: the last inputs of the convolution, oldest first, with their digests, and the recurrent
matrix with its rolling hash. Cache classes move elements and never look inside; zeros are padding, and a zeroed state.
"""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np
import numpy.typing as npt

from cachesim.model import LayerState, Rows

Array = npt.NDArray[Any]
LABEL: Any = np.dtype(np.uint8)                     # where nothing is computed


def pack_rows(rows: Rows) -> tuple[Array, Array]:
    """(n,) each: elements for keys and for values. Both are of one dtype, as the engine's are: a batch that lacks both
    makes both like the other's keys."""
    kind: list[Any] = [("digest", np.uint64)]
    if rows.k is not None:
        kind.append(("x", np.float64, rows.k.shape[1:]))
    keys, values = np.zeros(len(rows.digest), kind), np.zeros(len(rows.digest), kind)
    keys["digest"] = values["digest"] = rows.digest
    if rows.k is not None and rows.v is not None:
        keys["x"], values["x"] = rows.k, rows.v
    return keys, values


def unpack_rows(keys: Array, values: Array) -> Rows:
    """Rows from (n,) elements; without labels of their own where nothing was computed."""
    if keys.dtype.names is None:
        return Rows(np.zeros(len(keys), np.uint64), None, None)
    exact = "x" in keys.dtype.names
    return Rows(keys["digest"], keys["x"] if exact else None, values["x"] if exact else None)


def pack_states(states: Sequence[LayerState], slots: int) -> list[Array]:
    """The slots of a batch: one row for each state."""
    first = states[0]
    channels = () if first.conv_x is None else first.conv_x.shape[1:]
    inputs = np.zeros((len(states), len(first.conv)), [("digest", np.uint64), ("x", np.float64, channels)])
    shape = () if first.h is None else first.h.shape
    matrix = np.zeros((len(states), 1), [("hash", np.uint64), ("h", np.float64, shape)])
    for row, state in enumerate(states):
        inputs[row]["digest"], matrix[row, 0]["hash"] = state.conv, np.uint64(state.hash)
        if state.conv_x is not None and state.h is not None:
            inputs[row]["x"], matrix[row, 0]["h"] = state.conv_x, state.h
    return [inputs, matrix][:slots]


def unpack_state(slots: Sequence[Array | None], row: int, exact: bool) -> LayerState | None:
    """The state of one row of a batch; None where nothing was absorbed yet, or nothing is computed."""
    inputs = slots[0]
    if inputs is None or inputs.dtype.names is None:
        return None
    matrix = slots[1] if len(slots) > 1 else None
    h = np.zeros((0, 0, 0)) if matrix is None else matrix[row, 0]["h"]
    held = inputs[row]
    number = 0 if matrix is None else int(matrix[row, 0]["hash"])
    return LayerState(held["digest"], number, held["x"] if exact else None, h if exact else None)
