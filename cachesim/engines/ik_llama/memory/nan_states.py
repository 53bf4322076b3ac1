"""NaN propagation: rows, states and outputs that are NaN because a token had no visible cell.

Attention over no cells divides zero by zero. The token's rows in the layers above, its recurrent states and its output
are then NaN, and so is every token of a micro-batch that reads such a cell: a masked weight is zero, and zero times NaN
is NaN. Zeroing a recurrent row removes the NaN: a factor of 0 writes zeros. A reserved digest marks NaN, so the mark
travels with saved rows and states. Source: ik_llama.cpp src/llama-delta-net.cpp build_qkv, ggml/src/ggml.c
ggml_compute_forward_scale_f32 (8337e4cd3).
"""

from __future__ import annotations

from typing import Mapping, Sequence

import numpy as np

from cachesim.engines.shared.batch import TokenOutput, Ubatch
from cachesim.engines.shared.kv_rows import RowTable, read_rows, write_rows
from cachesim.model import KVRows, LayerState, Spec

NAN = np.uint64(0x7FF8_0000_0000_0001)
"""Digest of a NaN row or state."""

States = dict[int, LayerState | None]


def is_nan(state: LayerState | None) -> bool:
    """True if a recurrent state is NaN."""
    return state is not None and state.hash == int(NAN)


def has_nan(rows: Mapping[int, KVRows], states: States) -> bool:
    """True if a saved sequence contains NaN."""
    return any((kept.digest == NAN).any() for kept in rows.values()) or any(map(is_nan, states.values()))


def mark_nan(spec: Spec, rows: RowTable, states: Sequence[States], before: Sequence[frozenset[int]], ubatch: Ubatch,
             first: int, n_kv: int, blind: Sequence[dict[str, np.ndarray]]) -> list[np.ndarray]:
    """Mark the NaN results of a micro-batch; return for each run (tokens of one sequence) a bool array with an element
    per token, True for a NaN output.

    ``first``: cell of the first token; ``before``: for each run the layers whose state was NaN before; ``blind``: for
    each run and kind of layer, a bool array, True for tokens without a visible cell. In every attention layer all
    tokens read the cells 0 .. n_kv-1, masked cells included, so one NaN row makes all of them NaN.
    """
    lost = [np.zeros(len(run.tokens), bool) for run in ubatch.runs]
    starts = [first + at - ubatch.at[0] for at in ubatch.at]
    for index, layer in enumerate(spec.layers):
        given = [tokens.copy() for tokens in lost]
        if layer.part:
            for start, marked in zip(starts, given, strict=True):
                if len(cells := start + np.flatnonzero(marked)):
                    read = read_rows(rows[index], cells)
                    write_rows(rows, index, cells, KVRows(np.full(len(cells), NAN), read.k, read.v))
            spoilt = bool((rows[index].digest[:n_kv] == NAN).any())
            for marked, views in zip(lost, blind, strict=True):
                marked |= views[layer.notation] | spoilt
        if layer.recurrence:
            for run, marked, old, was in zip(ubatch.runs, lost, given, before, strict=True):
                reached = np.logical_or.accumulate(old | (index in was))
                marked |= reached
                if reached[-1]:
                    state = states[run.seq][index]
                    assert state is not None
                    states[run.seq][index] = state._replace(hash=int(NAN))
    return lost


def mark_nan_outputs(outputs: dict[int, TokenOutput], ubatch: Ubatch,
                     lost: Sequence[np.ndarray]) -> dict[int, TokenOutput]:
    """Return the outputs of a micro-batch, by index in the batch, with NaN outputs marked."""
    out = dict(outputs)
    for at, marked in zip(ubatch.at, lost, strict=True):
        for place in at + np.flatnonzero(marked):
            if (output := out.get(int(place))) is not None:
                logits = None if output.logits is None else np.full_like(output.logits, np.nan)
                out[int(place)] = TokenOutput(int(NAN), logits)
    return out
